package tail

import (
	"fmt"
	"strings"
	"unicode"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// signs are how the types of changes are marked, and in which colour.
var signs = map[string]struct{ sign, color string }{
	"SNAPSHOT": {"=", "\x1b[2m"},
	"ADDED":    {"+", "\x1b[32m"},
	"MODIFIED": {"~", "\x1b[33m"},
	"DELETED":  {"-", "\x1b[31m"},
	gap:        {"!", "\x1b[35m"},
}

const (
	gap     = "gap"
	noColor = "\x1b[0m"
)

// maxDetail is how many characters of what happened are printed.
const maxDetail = 300

// format returns a record with body: summary as a line.
func format(r plog.LogRecord, colored bool) string {
	object, isObject := fold.FromRecord(r)
	kind, resource, name := gap, fold.Resource(r), text(r, "k8s.namespace.name")
	if isObject {
		kind, name = object.Type, object.Name
		if ns := object.Namespace; ns != "" && object.Resource != "namespaces" {
			name = ns + "/" + name
		}
	}
	sign := signs[kind]
	time := r.ObservedTimestamp().AsTime().Local().Format("15:04:05.000")
	line := strings.TrimRight(fmt.Sprintf("%s  %s  %-12s  %-40s  %s", time, sign.sign, printable(resource, maxDetail), printable(name, maxDetail), printable(detail(r, kind), maxDetail)), " ")
	if colored {
		line = sign.color + line + noColor
	}
	return line + "\n"
}

// detail returns what happened, without what the other columns say.
func detail(r plog.LogRecord, kind string) string {
	summary := r.Body().AsString()
	for _, verb := range []string{" added", " modified", " deleted", " exists"} {
		before, after, ok := strings.Cut(summary, verb)
		if ok && kind != gap && !strings.Contains(before, ":") && strings.Count(before, " ") == 1 {
			return strings.TrimPrefix(strings.TrimPrefix(after, ":"), " ")
		}
	}
	return summary
}

// printable returns a text without what controls a terminal, cut to a number of characters.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most-1]) + "…"
	}
	return s
}

func text(r plog.LogRecord, key string) string {
	if v, ok := r.Attributes().Get(key); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}
