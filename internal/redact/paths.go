package redact

import (
	"slices"
	"strconv"
	"strings"
)

// pathElement is one step to a value: the key of a member, or the index of an element, which may also have a name.
type pathElement struct {
	key     []byte
	alias   []byte
	index   int
	isIndex bool
}

// Redaction is a value that was masked.
type Redaction struct {
	Path string // keys and indices, joined by dots
	Rule Rule

	at     int
	nested bool
}

// Explain returns the object that [Plan.Decode] returns, and the masked values with their rules, in the order of the
// data.
func (p *Plan) Explain(data []byte) (Object, []Redaction, error) {
	redactions := []Redaction{}
	obj, _, err := p.decode(data, &redactions)
	return obj, redactions, err
}

// track starts to record the path of each value, if it is needed.
func (w *walk) track() {
	w.tracking = w.report != nil
	if len(w.plan.keep) == 0 {
		return
	}
	id, err := w.plan.IdentifyBytes(w.data)
	if err != nil {
		return // the walk will find the same error
	}
	w.keep = nil
	for _, k := range w.plan.keep {
		if k.matches(id) {
			w.keep = append(w.keep, k)
		}
	}
	w.tracking = w.tracking || len(w.keep) > 0
}

// pathNow returns a copy of the current path, if paths are tracked.
func (w *walk) pathNow() []pathElement {
	if !w.tracking {
		return nil
	}
	return slices.Clone(w.path)
}

// isKept reports whether the configuration exempts the current value.
func (w *walk) isKept() bool {
	for i := range w.keep {
		for _, pattern := range w.keep[i].Paths {
			if matchPath(pattern, w.path) {
				return true
			}
		}
	}
	return false
}

// matchPath reports whether a pattern matches the path or a prefix of it. Its parts are joined by dots; each is a key,
// which may contain dots itself, the index or name of an element, or * for any of them.
func matchPath(pattern string, path []pathElement) bool {
	if len(path) == 0 {
		return false
	}
	e := path[0]
	candidates := [3]string{"*", string(e.key), ""}
	if e.isIndex {
		candidates[1], candidates[2] = strconv.Itoa(e.index), string(e.alias)
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		rest, ok := strings.CutPrefix(pattern, c)
		if ok && (rest == "" || rest[0] == '.' && matchPath(rest[1:], path[1:])) {
			return true
		}
	}
	return false
}

// record records that the value at data[at] was masked.
func (w *walk) record(at int, rule Rule) {
	if w.report == nil {
		return
	}
	if w.nested > 0 {
		at = -1
	}
	var path strings.Builder
	for i, e := range w.path {
		if i > 0 {
			path.WriteByte('.')
		}
		switch {
		case !e.isIndex:
			path.Write(e.key)
		case e.alias != nil:
			path.Write(e.alias)
		default:
			path.WriteString(strconv.Itoa(e.index))
		}
	}
	*w.report = append(*w.report, Redaction{Path: path.String(), Rule: rule, at: at, nested: w.nested > 0})
}

// forget removes the records inside a value that is walked again.
func (w *walk) forget(s span) {
	if w.report == nil || w.nested > 0 {
		return
	}
	*w.report = slices.DeleteFunc(*w.report, func(r Redaction) bool { return !r.nested && r.at >= s.from && r.at < s.to })
}
