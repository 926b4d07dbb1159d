package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// record is a log record in a file of the Collector's file exporter, as far as the story needs it.
type record struct {
	ObservedTimeUnixNano string
	EventName            string
	Body                 value
	Attributes           []struct {
		Key   string
		Value value
	}
}

type value struct{ StringValue string }

func (r *record) attribute(key string) string {
	for _, a := range r.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

func (r *record) summary() string { return r.Body.StringValue }

// observed returns when the receiver read the change, in nanoseconds since 1970.
func (r *record) observed() int64 {
	n, _ := strconv.ParseInt(r.ObservedTimeUnixNano, 10, 64)
	return n
}

// version returns the version of the object or Event, or 0. All versions of a cluster are from one sequence.
func (r *record) version() int64 {
	key := "k8s.object.resource_version"
	if r.EventName == "k8s.event" {
		key = "k8s.event.resource_version"
	}
	n, _ := strconv.ParseInt(r.attribute(key), 10, 64)
	return n
}

type records []record

// readRecords reads the complete lines of the file. A file that does not exist yet has none.
func readRecords(file string) (records, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the collector's file: %w", err)
	}
	return decode(content)
}

func decode(content []byte) (records, error) {
	var all records
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var batch struct {
			ResourceLogs []struct {
				ScopeLogs []struct{ LogRecords records }
			}
		}
		if err := json.Unmarshal(line, &batch); err != nil {
			return nil, fmt.Errorf("cannot read a line of the collector's file: %w", err)
		}
		for _, resource := range batch.ResourceLogs {
			for _, scope := range resource.ScopeLogs {
				all = append(all, scope.LogRecords...)
			}
		}
	}
	return all, nil
}

// streams are what examples/story.yaml reads.
var streams = []string{"deployments", "replicasets", "pods", "events"}

// missingSnapshots returns the streams whose initial state is not complete.
func (all records) missingSnapshots() string {
	missing := slices.Clone(streams)
	for i := range all {
		if all[i].EventName == "k8s.snapshot.end" {
			missing = slices.DeleteFunc(missing, func(s string) bool { return s == all[i].attribute("k8s.resource.name") })
		}
	}
	return strings.Join(missing, ", ")
}

// render returns the story: below the title of each chapter a line for each of its records, with the seconds since the first
// one and the summary, in the order in which the API server made the changes.
func render(all records, chapters []chapter) string {
	all = slices.DeleteFunc(slices.Clone(all), func(r record) bool { return r.version() <= chapters[0].from })
	slices.SortStableFunc(all, func(a, b record) int { return cmp.Compare(a.version(), b.version()) })
	var text strings.Builder
	var began, latest int64
	for i := range all {
		r := &all[i]
		for len(chapters) > 0 && r.version() > chapters[0].from {
			if text.Len() > 0 {
				text.WriteByte('\n')
			}
			fmt.Fprintf(&text, "# %s\n", chapters[0].title)
			chapters = chapters[1:]
		}
		if began == 0 {
			began = r.observed()
		}
		// Each resource is read by a stream of its own, and they are a few milliseconds apart.
		latest = max(latest, r.observed())
		fmt.Fprintf(&text, "%5.1fs  %s\n", float64(latest-began)/1e9, r.summary())
	}
	return text.String()
}
