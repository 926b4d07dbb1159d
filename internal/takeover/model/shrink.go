package model

import (
	"fmt"
	"slices"
	"strings"
)

// result is what a run has shown.
type result struct {
	violations []Violation
	stats      stats
	lines      []string
	schedule   []fault
}

func run(o Options) result {
	w := newWorld(o)
	w.run()
	return result{w.verdict.violations, w.verdict.stats, w.lines, w.schedule}
}

func (r result) has(kind string) bool {
	return slices.ContainsFunc(r.violations, func(v Violation) bool { return v.Kind == kind })
}

// shrink removes faults from the schedule of a failing run as long as it still fails in the same way.
func shrink(o Options, failed result) (Options, result) {
	kind := failed.violations[0].Kind
	o.faults = failed.schedule
	for size := max(1, len(o.faults)/2); ; size = max(1, size/2) {
		removed := false
		for i := 0; i+size <= len(o.faults); {
			try := o
			try.faults = slices.Delete(slices.Clone(o.faults), i, i+size)
			if r := run(try); r.has(kind) {
				o, failed, removed = try, r, true
				continue
			}
			i += size
		}
		if size == 1 && !removed {
			return o, failed
		}
	}
}

// explain describes a failing run as briefly as it can be made to fail.
func explain(o Options, failed result) string {
	o, _ = shrink(o, failed)
	o.trace = true
	failed = run(o)
	first := failed.violations[0]
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s\nThe faults that are needed:\n", o.Seed, first)
	for _, f := range o.faults {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	subject, _, _ := strings.Cut(first.Text, "@")
	_, object, _ := strings.Cut(subject, " ")
	b.WriteString("What happened:\n")
	var lines []string
	for _, line := range failed.lines {
		if !strings.Contains(line, " offers ") || object != "" && strings.Contains(line, " "+object+"@") {
			lines = append(lines, line)
		}
	}
	for _, line := range lines[max(0, len(lines)-60):] {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}
