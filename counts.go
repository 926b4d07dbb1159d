package k8swatchlistreceiver

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metricIndex identifies a metric that only counts.
type metricIndex int

const (
	checkpointWrites metricIndex = iota
	consumerRetries
	duplicatesDropped
	fencedBatches
	framesOfAnotherKind
	gaps
	kept
	leaderTransitions
	paused
	progressPublishes
	readerStates
	recordsDropped
	recordsExcluded
	recordsTruncated
	recovered
	redactionFailures
	redactions
	relistFound
	relists
	requestErrors
	streamsEnded
	streamsOpened
	suppressed
	undecodableFrames

	metrics
)

// ownKeys are the keys of the attributes that metrics have besides those of the receiver and the resource.
var ownKeys = [metrics][]string{
	checkpointWrites:  {"outcome"},
	gaps:              {"reason"},
	leaderTransitions: {"to"},
	progressPublishes: {"outcome"},
	readerStates:      {"state"},
	recordsDropped:    {"reason"},
	recordsExcluded:   {"type"},
	redactions:        {"rule"},
	relistFound:       {"what"},
	relists:           {"outcome"},
	requestErrors:     {"verb", "code"},
	streamsEnded:      {"reason"},
	streamsOpened:     {"kind"},
	suppressed:        {"reason"},
}

// counts holds the counts that share some attributes. What was never counted is not collected. It is safe for concurrent
// use.
type counts struct {
	set attribute.Set

	mu sync.Mutex
	of [metrics]map[values]*count
}

// values are those of a metric's own attributes.
type values struct{ first, second string }

type count struct {
	n          int64
	attributes metric.MeasurementOption
}

func (c *counts) add(m metricIndex, value string) { c.addN(m, values{value, ""}, 1) }

func (c *counts) addBoth(m metricIndex, first, second string) { c.addN(m, values{first, second}, 1) }

// addN adds to a count. It allocates only the first time.
func (c *counts) addN(m metricIndex, of values, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.of[m][of]
	if found == nil {
		if c.of[m] == nil {
			c.of[m] = make(map[values]*count)
		}
		all := c.set.ToSlice()
		for i, key := range ownKeys[m] {
			all = append(all, attribute.String(key, [...]string{of.first, of.second}[i]))
		}
		found = &count{attributes: metric.WithAttributeSet(attribute.NewSet(all...))}
		c.of[m][of] = found
	}
	found.n += n
}

func (c *counts) observe(m metricIndex, o metric.Int64Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, count := range c.of[m] {
		o.Observe(count.n, count.attributes)
	}
}
