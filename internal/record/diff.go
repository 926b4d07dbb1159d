package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// The members of an element of k8s.change.diff.
const (
	diffPath = "path"
	diffOld  = "old"
	diffNew  = "new"
)

// diffShare is the part (1/diffShare) of a record that the diff may take.
const diffShare = 4

// putDiff adds what changed as a list of maps. A value that was absent has no member.
func putDiff(m pcommon.Map, d *diff.Diff) {
	if d == nil || len(d.Changes) == 0 {
		return
	}
	list := m.PutEmptySlice(keyChangeDiff)
	list.EnsureCapacity(len(d.Changes))
	for i := range d.Changes {
		c := &d.Changes[i]
		entry := list.AppendEmpty().SetEmptyMap()
		entry.EnsureCapacity(3)
		entry.PutStr(diffPath, c.Path)
		putDiffValue(entry, diffOld, c.Old)
		putDiffValue(entry, diffNew, c.New)
	}
	if d.More > 0 {
		m.PutInt(keyChangeDiffMore, int64(d.More))
	}
}

func putDiffValue(m pcommon.Map, key string, v diff.Value) {
	switch {
	case v.IsAbsent():
	case v.JSON == "":
		m.PutStr(key, v.Text)
	case v.JSON[0] == '"':
		m.PutStr(key, jsonscan.Unquote([]byte(v.JSON[1:len(v.JSON)-1])))
	case v.JSON == "null":
		m.PutEmpty(key)
	case v.JSON == "true", v.JSON == "false":
		m.PutBool(key, v.JSON == "true")
	default:
		putNumber(m, key, v.JSON)
	}
}

// putNumber adds a number as in bodies: as an integer if it is one that fits, else as a double, else as text.
func putNumber(m pcommon.Map, key, number string) {
	if i, err := strconv.ParseInt(number, 10, 64); err == nil {
		m.PutInt(key, i)
	} else if f, err := strconv.ParseFloat(number, 64); err == nil {
		m.PutDouble(key, f)
	} else {
		m.PutStr(key, number)
	}
}

const (
	// changesInSummary is how many changes a summary shows.
	changesInSummary = 3
	// valueInSummary is how many characters of a value it shows.
	valueInSummary = 40
	// conditionsPath is where the conditions of an object are.
	conditionsPath = "status.conditions"
)

// weight says how much a change means to a reader, the least first.
type weight uint8

const (
	desired weight = iota // the spec, or whatever else the object is about
	described
	phase
	observed
	explained
	dated
	weights
)

func weightOf(path string) weight {
	last := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case strings.HasSuffix(last, "Time"), strings.HasSuffix(last, "Timestamp"):
		return dated
	case strings.HasPrefix(path, "metadata."):
		return described
	case !strings.HasPrefix(path, "status."):
		return desired
	case path == "status.phase":
		return phase
	case last == "message", last == "reason":
		return explained
	}
	return observed
}

// writeDiff writes the changes that mean most: "spec.replicas 3 → 5, metadata.labels.tier added web, and 2 more".
func writeDiff(s *strings.Builder, d *diff.Diff) {
	shown := 0
	for w := range weights {
		for i := range d.Changes {
			if shown < changesInSummary && weightOf(d.Changes[i].Path) == w {
				if shown > 0 {
					s.WriteString(", ")
				}
				writeChange(s, &d.Changes[i])
				shown++
			}
		}
	}
	if more := len(d.Changes) - shown + d.More; more > 0 {
		fmt.Fprintf(s, ", and %d more", more)
	}
}

func writeChange(s *strings.Builder, c *diff.Change) {
	s.WriteString(c.Path)
	switch {
	case c.Old.IsAbsent():
		s.WriteString(" added ")
		if conditions := conditionsIn(c); conditions != "" {
			s.WriteString(conditions)
		} else {
			s.WriteString(short(c.New))
		}
	case c.New.IsAbsent():
		s.WriteString(" removed")
	default:
		s.WriteString(" " + short(c.Old) + " → " + short(c.New))
	}
}

// conditionsIn returns what an added condition, or an added list of them, says: its status, or the type and status of each.
func conditionsIn(c *diff.Change) string {
	type condition struct{ Type, Status string }
	if name, ok := strings.CutPrefix(c.Path, conditionsPath+"."); ok {
		var one condition
		if strings.Contains(name, ".") || json.Unmarshal([]byte(c.New.Text), &one) != nil { // a part of one, or it was cut
			return ""
		}
		return one.Status
	}
	var all []condition
	if c.Path != conditionsPath || json.Unmarshal([]byte(c.New.Text), &all) != nil {
		return ""
	}
	var said []string
	for _, one := range all {
		said = append(said, one.Type+" "+one.Status)
	}
	return strings.Join(said, " and ")
}

// short returns the beginning of a value on one line.
func short(v diff.Value) string {
	text := v.Text
	switch {
	case v.JSON == `""`:
		return v.JSON
	case v.JSON != "" && v.JSON[0] == '"':
		text = jsonscan.Unquote([]byte(v.JSON[1 : len(v.JSON)-1]))
	case v.JSON != "":
		text = v.JSON
	}
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > valueInSummary {
		text = string([]rune(text)[:valueInSummary]) + "…"
	}
	return text
}
