package main

import (
	"encoding/json"
	"fmt"
)

// Panel is a panel of the dashboard.
type Panel struct {
	Title   string
	Help    string
	Unit    string // of Grafana
	Stacked bool
	Queries []Query
}

// Query is a query of a panel.
type Query struct {
	Expr   string // see Spelling.Expand
	Legend string
}

// Row is a row of panels.
type Row struct {
	Title  string
	Panels []Panel
}

// The selectors of the dashboard's variables.
const (
	ofReceiver = `{receiver=~"$receiver"}`
	ofResource = `{receiver=~"$receiver",resource=~"$resource"}`
	window     = `[$__rate_interval]`
)

func rateBy(by, metric string) string {
	return "sum by (" + by + ") (rate($" + metric + ofResource + window + "))"
}

func quantiles(metric, selector string) []Query {
	var queries []Query
	for _, q := range []string{"0.5", "0.99"} {
		queries = append(queries, Query{
			"histogram_quantile(" + q + ", sum by (le) (rate($" + metric + "_bucket" + selector + window + ")))", "p" + map[string]string{"0.5": "50", "0.99": "99"}[q],
		})
	}
	return queries
}

// Rows are those of the dashboard.
var Rows = []Row{
	{"Is it alive?", []Panel{
		{"Resources by state", "Anything but reading, initial, polling and starting deserves a look.", "short", true, []Query{{`sum by (state) ($readers` + ofReceiver + `) > 0`, "{{state}}"}}},
		{"Time since last progress", "Since an event, a bookmark or a part of a list was read; the ten that are furthest behind.", "s", false, []Query{{`topk(10, max by (receiver, group, resource) ($last_progress` + ofResource + `))`, "{{receiver}} {{resource}}.{{group}}"}}},
		{"Lag of live changes", "From the API server's time, which is in whole seconds, until the pipeline accepted the record.", "s", false, quantiles("lag", ofResource)},
	}},
	{"What comes?", []Panel{
		{"Events by resource", "The ten busiest.", "cps", false, []Query{{`topk(10, ` + rateBy("group, resource", "events") + `)`, "{{resource}}.{{group}}"}}},
		{"Events by type and origin", "", "cps", true, []Query{{rateBy("type, origin", "events"), "{{origin}} {{type}}"}}},
		{"Records accepted", "The ten busiest.", "cps", false, []Query{{`topk(10, ` + rateBy("group, resource", "records_accepted") + `)`, "{{resource}}.{{group}}"}}},
		{"Bytes received", "After decompression; the ten busiest.", "Bps", false, []Query{{`topk(10, ` + rateBy("group, resource", "received") + `)`, "{{resource}}.{{group}}"}}},
		{"Not emitted", "Suppressed as configured, excluded types, and what had been emitted already.", "cps", true, []Query{
			{rateBy("reason", "suppressed"), "{{reason}}"}, {rateBy("type", "records_excluded"), "excluded {{type}}"}, {rateBy("receiver", "duplicates_dropped"), "duplicates"},
		}},
	}},
	{"Is anything lost?", []Panel{
		{"Gaps", "Stretches of which only the net differences were emitted.", "short", true, []Query{{`sum by (reason) ($gaps` + ofResource + `)`, "{{reason}}"}}},
		{"Found by relists", "What the open watch should have delivered.", "short", true, []Query{{`sum by (resource, what) ($relist_found` + ofResource + `)`, "{{resource}} {{what}}"}}},
		{"Relists", "", "short", false, []Query{{`sum by (outcome) ($relists` + ofResource + `)`, "{{outcome}}"}}},
		{"Records dropped", "Refused by the pipeline permanently.", "short", true, []Query{{`sum by (resource, reason) ($records_dropped` + ofResource + `)`, "{{resource}} {{reason}}"}}},
		{"Damaged or unexpected", "", "short", true, []Query{
			{`sum by (resource) ($undecodable_frames` + ofResource + `)`, "undecodable {{resource}}"},
			{`sum by (resource) ($frames_of_another_kind` + ofResource + `)`, "another kind {{resource}}"},
			{`sum by (resource) ($redaction_failures` + ofResource + `)`, "not redacted {{resource}}"},
			{`sum by (resource) ($records_truncated` + ofResource + `)`, "truncated {{resource}}"},
		}},
		{"Recovered records", "Of changes that no live event reported.", "cps", true, []Query{{rateBy("resource", "recovered"), "{{resource}}"}}},
	}},
	{"Backpressure", []Panel{
		{"Queue", "Of its limit.", "percentunit", false, []Query{{`$queue_bytes` + ofReceiver + ` / $queue_limit_bytes` + ofReceiver, "{{receiver}}"}}},
		{"Records in the queue", "", "short", false, []Query{{`$queue_records` + ofReceiver, "{{receiver}}"}}},
		{"Delivery delay", "From reading a change until the pipeline accepted it.", "s", false, quantiles("delivery_delay", ofReceiver)},
		{"Refused temporarily", "", "cps", false, []Query{{`sum by (receiver) (rate($consumer_retries` + ofReceiver + window + `))`, "{{receiver}}"}}},
		{"Pauses", "Streams closed because the queue was full.", "cps", true, []Query{{rateBy("resource", "paused"), "{{resource}}"}}},
	}},
	{"API server", []Panel{
		{"Open", "", "short", false, []Query{{`$open_streams` + ofReceiver, "{{receiver}} streams"}, {`$open_connections` + ofReceiver, "{{receiver}} connections"}}},
		{"Streams opened", "", "cps", true, []Query{{rateBy("kind", "streams_opened"), "{{kind}}"}}},
		{"Streams ended", "", "cps", true, []Query{{rateBy("reason", "streams_ended"), "{{reason}}"}}},
		{"Request errors", "", "cps", true, []Query{{`sum by (verb, code) (rate($request_errors` + ofReceiver + window + `))`, "{{verb}} {{code}}"}}},
		{"Waiting", "Seconds of waiting per second: for our own limits, or as the API server asked.", "short", false, []Query{{`sum by (source) (rate($throttled` + ofReceiver + window + `))`, "{{source}}"}}},
		{"Initial state", "The ten that took longest.", "s", false, []Query{{`topk(10, max by (group, resource) ($initial_duration` + ofResource + `))`, "{{resource}}.{{group}}"}}},
		{"Objects of the initial state", "The ten largest.", "short", false, []Query{{`topk(10, sum by (group, resource) ($initial_objects` + ofResource + `))`, "{{resource}}.{{group}}"}}},
		{"Duration of relists", "", "s", false, quantiles("relist_duration", ofReceiver)},
	}},
	{"Replicas", []Panel{
		{"Leader", "1 of the replica that leads.", "short", false, []Query{{`$leader` + ofReceiver, "{{receiver}} {{pod}} {{instance}}"}}},
		{"Terms", "Times that a replica began to lead or to stand by, and batches that were not delivered since it could not prove that it leads.", "short", false, []Query{
			{`sum by (to) ($leader_transitions` + ofReceiver + `)`, "{{to}}"}, {`sum by (receiver) ($fenced_batches` + ofReceiver + `)`, "fenced {{receiver}}"},
		}},
		{"Duration of takeovers", "From when a replica was to lead until its readers started.", "s", false, quantiles("takeover_duration", ofReceiver)},
		{"Readers of standbys that are ready", "", "short", true, []Query{{`sum by (receiver, pod, instance) ($standby_ready` + ofReceiver + `)`, "{{receiver}} {{pod}} {{instance}}"}}},
		{"Age of the progress", "For how long it was not published, or by a standby not read.", "s", false, []Query{{`max by (receiver, pod, instance) ($progress_age` + ofReceiver + `)`, "{{receiver}} {{pod}} {{instance}}"}}},
		{"Writes of the progress", "", "cps", true, []Query{{`sum by (outcome) (rate($progress_publishes` + ofReceiver + window + `))`, "{{outcome}}"}}},
	}},
	{"State", []Panel{
		{"Objects", "The ten largest.", "short", false, []Query{{`topk(10, sum by (group, resource) ($inventory_objects` + ofResource + `))`, "{{resource}}.{{group}}"}}},
		{"Age of checkpoints", "For how long something accepted has not been stored.", "s", false, []Query{{`max by (receiver) ($checkpoint_age` + ofResource + `)`, "{{receiver}}"}}},
		{"Writes of checkpoints", "", "cps", true, []Query{{`sum by (outcome) (rate($checkpoint_writes` + ofReceiver + window + `))`, "{{outcome}}"}}},
		{"Duration of writes", "", "s", false, quantiles("checkpoint_write_duration", ofReceiver)},
		{"Masked values", "", "cps", true, []Query{{rateBy("rule", "redactions"), "{{rule}}"}, {rateBy("resource", "kept"), "kept {{resource}}"}}},
		{"Memory of diffs", "", "bytes", false, []Query{{`$diff_bytes` + ofReceiver, "{{receiver}}"}}},
	}},
}

// object is one of JSON.
type object = map[string]any

// Dashboard returns the dashboard as Grafana imports it.
func Dashboard(metrics map[string]Metric, s Spelling) ([]byte, error) {
	const width, height, perRow = 8, 7, 3
	source := object{"type": "prometheus", "uid": "$datasource"}
	var panels []object
	y, id := 0, 0
	add := func(p object, x, w, h int) {
		id++
		p["id"], p["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": h}
		panels = append(panels, p)
	}
	for _, row := range Rows {
		add(object{"type": "row", "title": row.Title, "collapsed": false, "panels": []any{}}, 0, width*perRow, 1)
		y++
		for i, p := range row.Panels {
			if i > 0 && i%perRow == 0 {
				y += height
			}
			var targets []object
			for n, q := range p.Queries {
				expr, err := s.Expand(q.Expr, metrics)
				if err != nil {
					return nil, fmt.Errorf("panel %s: %w", p.Title, err)
				}
				targets = append(targets, object{"datasource": source, "refId": string(rune('A' + n)), "expr": expr, "legendFormat": q.Legend})
			}
			custom := object{"fillOpacity": 10, "showPoints": "never"}
			if p.Stacked {
				custom["stacking"] = object{"mode": "normal"}
				custom["fillOpacity"] = 40
			}
			add(object{
				"type": "timeseries", "title": p.Title, "description": p.Help, "datasource": source, "targets": targets,
				"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0, "custom": custom}, "overrides": []any{}},
				"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
			}, i%perRow*width, width, height)
		}
		y += height
	}
	variable := func(name, label, query string) object {
		return object{
			"type": "query", "name": name, "label": label, "datasource": source, "query": query, "refresh": 2, "includeAll": true, "multi": true,
			"allValue": ".*", "current": object{"text": "All", "value": "$__all"}, "sort": 1,
		}
	}
	values := func(metric, selector, label string) string {
		return "label_values(" + s.Name(metric, metrics[metric]) + selector + ", " + label + ")"
	}
	uid, title := "k8s-watchlist", "Kubernetes WatchList receiver"
	if s {
		uid, title = uid+"-with-suffixes", title+" (names with suffixes)"
	}
	text, err := json.MarshalIndent(object{
		"uid": uid, "title": title, "tags": []string{"opentelemetry", "kubernetes"},
		"description": "How the k8s_watchlist receiver of the OpenTelemetry Collector reads the cluster. Made by make monitoring.",
		"timezone":    "browser", "schemaVersion": 39, "editable": true, "refresh": "30s", "time": object{"from": "now-1h", "to": "now"},
		"panels": panels,
		"annotations": object{"list": []object{{
			"name": "Gaps", "datasource": source, "enable": true, "iconColor": "red", "titleFormat": "Gap: {{reason}} in {{resource}}",
			"expr": "increase(" + s.Name("gaps", metrics["gaps"]) + ofResource + "[1m]) > 0",
		}}},
		"templating": object{"list": []object{
			{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "current": object{}},
			variable("receiver", "Receiver", values("readers", "", "receiver")),
			variable("resource", "Resource", values("events", `{receiver=~"$receiver"}`, "resource")),
		}},
	}, "", "  ")
	return append(text, '\n'), err
}
