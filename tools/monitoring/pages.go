package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// page is what an endpoint returned once.
type page struct {
	at       time.Time
	families map[string]*dto.MetricFamily
}

// readPages calls each with one page after the other. A page begins with the line "# at" and the Unix time in milliseconds.
func readPages(r io.Reader, each func(page) error) error {
	lines := bufio.NewReader(r)
	var text strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("cannot read the pages: %w", err)
		}
		if text.Len() > 0 && (err == io.EOF || strings.HasPrefix(line, pageBegins)) {
			p, failed := parsePage(text.String())
			if failed == nil {
				failed = each(p)
			}
			if failed != nil {
				return failed
			}
			text.Reset()
		}
		if err == io.EOF {
			return nil
		}
		text.WriteString(line)
	}
}

const pageBegins = "# at "

func parsePage(text string) (page, error) {
	at, content, _ := strings.Cut(strings.TrimPrefix(text, pageBegins), "\n")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return page{}, fmt.Errorf("a page has no time: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(content))
	if err != nil {
		return page{}, fmt.Errorf("cannot read the page of %s: %w", at, err)
	}
	return page{time.UnixMilli(ms), families}, nil
}

// samples calls each with every sample of the page.
func (p page) samples(each func(family string, series labels.Labels, value float64) error) error {
	for name, family := range p.families {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(p.at.UnixNano())}, family)
		if err != nil {
			return fmt.Errorf("cannot read the samples of %s: %w", name, err)
		}
		for _, s := range samples {
			builder := labels.NewScratchBuilder(len(s.Metric))
			for label, value := range s.Metric {
				builder.Add(string(label), string(value))
			}
			builder.Sort()
			if err := each(name, builder.Labels(), float64(s.Value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendTo stores the page's samples.
func (p page) appendTo(appender storage.Appender) error {
	err := p.samples(func(_ string, series labels.Labels, value float64) error {
		_, err := appender.Append(0, series, p.at.UnixMilli(), value)
		return err
	})
	if err != nil {
		_ = appender.Rollback() // the first error says more
		return err
	}
	return appender.Commit()
}
