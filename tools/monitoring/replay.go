package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb"
)

// Notice is an alert that has fired.
type Notice struct {
	Alert    string            `json:"alert"`
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels"` // of what fired: the receiver, and perhaps the resource
	Summary  string            `json:"summary"`
	Runbook  string            `json:"runbook"`
	Firing   bool              `json:"firing"`    // still, at the last page
	FiredAt  time.Time         `json:"fired_at"`  // in the time of the pages
	ClearAt  time.Time         `json:"clear_at"`  // zero if it still fires
	AfterSec float64           `json:"after_sec"` // how long the condition had lasted then, in the time of the rules
}

// Stretch is how much slower the pages are replayed than they were read: a second of theirs is a minute for the rules. The
// rules can then be evaluated as they are, although they wait for many minutes. Metrics that count seconds grow as much
// slower, so they are multiplied by it.
const Stretch = 60

// Replay evaluates alerting rules over pages, at the time of each.
type Replay struct {
	folder  string
	db      *tsdb.DB
	engine  *promql.Engine
	writer  writer
	rules   []*alerting
	began   time.Time
	notices []*Notice
}

// NewReplay returns a replay of a file of rules, which has to be closed.
func NewReplay(rules []byte, metrics map[string]Metric, spelling Spelling) (*Replay, error) {
	groups, errs := rulefmt.Parse(rules, false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		return nil, fmt.Errorf("cannot read the rules: %w", errs[0])
	}
	folder, err := os.MkdirTemp("", "alerts")
	if err != nil {
		return nil, err
	}
	db, err := tsdb.Open(folder, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	r := &Replay{
		folder: folder, db: db, engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute}),
		writer: writer{seconds: map[string]bool{}},
	}
	for name, m := range metrics {
		r.writer.seconds[spelling.Name(name, m)] = m.Unit == "s" && m.Kind != "histogram"
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			r.rules = append(r.rules, &alerting{rule: rule, active: map[uint64]*instance{}})
		}
	}
	return r, nil
}

// Close removes what was stored.
func (r *Replay) Close() error { return errors.Join(r.db.Close(), os.RemoveAll(r.folder)) }

// Add evaluates the rules at the time of the next page.
func (r *Replay) Add(ctx context.Context, p page) error {
	if r.began.IsZero() {
		r.began = p.at
	}
	stretched := r.began.Add(p.at.Sub(r.began) * Stretch)
	if err := r.writer.write(r.db.Appender(ctx), p, stretched); err != nil {
		return err
	}
	for _, a := range r.rules {
		vector, err := ask(ctx, r.engine, r.db, a.rule.Expr, stretched)
		if err != nil {
			return err
		}
		fired, err := a.evaluate(ctx, vector, stretched, p.at)
		if err != nil {
			return err
		}
		r.notices = append(r.notices, fired...)
	}
	return nil
}

// Notices returns what has fired so far, in the order of that.
func (r *Replay) Notices() []Notice {
	all := []Notice{} // not null in JSON
	for _, n := range r.notices {
		notice := *n
		notice.Firing = n.ClearAt.IsZero()
		all = append(all, notice)
	}
	return all
}

// ask returns the result of a query.
func ask(ctx context.Context, engine *promql.Engine, data storage.Queryable, expr string, at time.Time) (promql.Vector, error) {
	q, err := engine.NewInstantQuery(ctx, data, nil, expr, at)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", expr, err)
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("cannot evaluate %s: %w", expr, result.Err)
	}
	vector, err := result.Vector()
	return slices.Clone(vector), err
}

// writer stores pages as Prometheus does: a series that a page lacks has ended.
type writer struct {
	seconds map[string]bool          // metrics that count seconds
	series  map[uint64]labels.Labels // of the last page
}

func (w *writer) write(appender storage.Appender, p page, at time.Time) error {
	present := map[uint64]labels.Labels{}
	err := p.samples(func(family string, series labels.Labels, v float64) error {
		if w.seconds[family] {
			v *= Stretch
		}
		present[series.Hash()] = series
		_, err := appender.Append(0, series, at.UnixMilli(), v)
		return err
	})
	for hash, series := range w.series {
		if _, ok := present[hash]; !ok && err == nil {
			_, err = appender.Append(0, series, at.UnixMilli(), math.Float64frombits(value.StaleNaN))
		}
	}
	if err != nil {
		_ = appender.Rollback() // the first error says more
		return fmt.Errorf("cannot store the page of %s: %w", p.at, err)
	}
	w.series = present
	return appender.Commit()
}

// alerting is an alerting rule and what it is about at the moment.
type alerting struct {
	rule   rulefmt.Rule
	active map[uint64]*instance
}

// instance is what an element of the result of a rule's query is about.
type instance struct {
	since  time.Time
	notice *Notice // nil: it does not fire yet
}

// evaluate applies the result of the rule's query, and returns what begins to fire.
func (a *alerting) evaluate(ctx context.Context, result promql.Vector, at, readAt time.Time) ([]*Notice, error) {
	var fired []*Notice
	present := map[uint64]bool{}
	for _, sample := range result {
		hash := sample.Metric.Hash()
		present[hash] = true
		i, ok := a.active[hash]
		if !ok {
			i = &instance{since: at}
			a.active[hash] = i
		}
		if i.notice != nil || at.Sub(i.since) < time.Duration(a.rule.For) {
			continue
		}
		summary, err := expand(ctx, a.rule.Annotations["summary"], sample, at)
		if err != nil {
			return nil, fmt.Errorf("the summary of %s: %w", a.rule.Alert, err)
		}
		i.notice = &Notice{
			Alert: a.rule.Alert, Severity: a.rule.Labels["severity"], Labels: sample.Metric.Map(), Summary: summary,
			Runbook: a.rule.Annotations["runbook_url"], FiredAt: readAt, AfterSec: at.Sub(i.since).Seconds(),
		}
		fired = append(fired, i.notice)
	}
	for hash, i := range a.active {
		if present[hash] {
			continue
		}
		if i.notice != nil {
			i.notice.ClearAt = readAt
		}
		delete(a.active, hash)
	}
	return fired, nil
}

// expand fills in an annotation as Prometheus does.
func expand(ctx context.Context, text string, sample promql.Sample, at time.Time) (string, error) {
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	definitions := "{{$labels := .Labels}}{{$value := .Value}}"
	query := func(context.Context, string, time.Time) (promql.Vector, error) { return nil, nil }
	expander := template.NewTemplateExpander(ctx, definitions+text, "alert", data, model.TimeFromUnixNano(at.UnixNano()), query, nil, nil)
	expanded, err := expander.Expand()
	return strings.TrimSpace(expanded), err
}
