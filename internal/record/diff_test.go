package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func modified(d *diff.Diff) watchlist.Change {
	return watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod(), Diff: d, ReadAt: read}
}

// withSections is a modification with its diff, and its sections.
func withSections(before, after string) watchlist.Change {
	c := modified(compared(before, after))
	c.Sections = sections(before, after)
	return c
}

func compared(before, after string) *diff.Diff {
	return diff.Compare([]byte(before), []byte(after), nil)
}

func TestDiffAttribute(t *testing.T) {
	d := compared(`{"a":"x","b":3,"c":null,"d":{"e":1},"f":1.5,"g":true,"i":1}`, `{"a":"y\n","b":9223372036854775807,"c":"","d":[2],"f":1e400,"g":false,"h":1}`)
	record := build(t, Options{}, modified(d))[0]
	assert.Equal(t, pretty([]any{
		map[string]any{"path": "a", "old": "x", "new": "y\n"},
		map[string]any{"path": "b", "old": int64(3), "new": int64(9223372036854775807)},
		map[string]any{"path": "c", "old": nil, "new": ""},
		map[string]any{"path": "d", "old": `{"e":1}`, "new": "[2]"},
		map[string]any{"path": "f", "old": 1.5, "new": "1e400"},
		map[string]any{"path": "g", "old": true, "new": false},
		map[string]any{"path": "h", "new": int64(1)},
		map[string]any{"path": "i", "old": int64(1)},
	}), pretty(record.Attributes().AsRaw()[keyChangeDiff]))
	assert.NotContains(t, record.Attributes().AsRaw(), keyChangeDiffMore)

	for _, none := range []*diff.Diff{nil, compared(`{}`, `{}`)} {
		assert.NotContains(t, build(t, Options{}, modified(none))[0].Attributes().AsRaw(), keyChangeDiff)
	}
	d.More = 4
	assert.Equal(t, int64(4), build(t, Options{}, modified(d))[0].Attributes().AsRaw()[keyChangeDiffMore])
}

func TestDiffInSummary(t *testing.T) {
	long := strings.Repeat("ä ", 100)
	for want, c := range map[string]watchlist.Change{
		"Pod shop/web-1 modified: spec.replicas 3 → 5":                                         modified(compared(`{"spec":{"replicas":3}}`, `{"spec":{"replicas":5}}`)),
		"Pod shop/web-1 modified: a added x, b removed, c \"\" → {\"d\":1}, and 2 more":        modified(compared(`{"b":1,"c":"","e":1,"f":1}`, `{"a":"x","c":{"d":1},"e":2,"f":2}`)),
		"Pod shop/web-1 modified: a ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä … → line 1 line 2": modified(compared(`{"a":"`+long+`"}`, `{"a":"line 1\nline 2"}`)),
		"Pod shop/web-1 modified: z 1 → 2, metadata.annotations added {\"b\":\"c\"}, status.x 1 → 2, and 3 more": modified(compared(
			`{"metadata":{"updateTime":"1"},"status":{"conditions":[{"type":"Ready","status":"True","reason":"A","message":"a"}],"x":1},"z":1}`,
			`{"metadata":{"annotations":{"b":"c"},"updateTime":"2"},"status":{"conditions":[{"type":"Ready","status":"True","reason":"B","message":"b"}],"x":2},"z":2}`)),
		"Pod shop/web-1 modified: status.phase Pending → Running, status.conditions.Ready added True": modified(compared(
			`{"status":{"conditions":[{"type":"Scheduled","status":"True"}],"phase":"Pending"}}`,
			`{"status":{"conditions":[{"type":"Scheduled","status":"True"},{"type":"Ready","status":"True","reason":"Started"}],"phase":"Running"}}`)),
		"Pod shop/web-1 modified: spec.nodeName added n1, status.conditions added PodScheduled True and Ready False": modified(compared(
			`{"spec":{"x":1},"status":{"phase":"Pending"}}`,
			`{"spec":{"x":1,"nodeName":"n1"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"False"}]}}`)),
		"Pod shop/web-1 marked for deletion": withSections(`{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","deletionGracePeriodSeconds":30,"deletionTimestamp":"2026-01-02T03:04:35Z"}}`),
		"Pod shop/web-1 modified: metadata.deletionGracePeriodSeconds 30 → 0, metadata.deletionTimestamp b → a": withSections(
			`{"metadata":{"deletionGracePeriodSeconds":30,"deletionTimestamp":"b"}}`, `{"metadata":{"deletionGracePeriodSeconds":0,"deletionTimestamp":"a"}}`),
		"Pod shop/web-1 modified: metadata.labels, status (kubelet)": {Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod(), Sections: sections(`{"metadata":{"labels":{"a":"b"}},"status":1}`, `{"metadata":{"labels":{"a":"c"}},"status":2}`), Manager: redact.Manager{Name: "kubelet"}},
		"Pod shop/web-1 modified: a 1 → 2 (kubectl, recovered)":      {Scope: pods, Type: watchlist.Modified, Origin: watchlist.Recovered, Object: pod(), Diff: compared(`{"a":1}`, `{"a":2}`), Manager: redact.Manager{Name: "kubectl"}},
		"Pod shop/web-1 added (kubectl)":                             {Scope: pods, Type: watchlist.Added, Origin: watchlist.Live, Object: pod(), Manager: redact.Manager{Name: "kubectl"}},
	} {
		c.ReadAt = read
		assert.Equal(t, want, build(t, Options{Body: BodySummary}, c)[0].Body().Str())
	}
}

// The diff takes its share of a record, so that there is space for the object.
func TestDiffFits(t *testing.T) {
	before, after := []string{}, []string{}
	for _, key := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		before, after = append(before, `"`+key+`":"`+strings.Repeat(key, 500)+`"`), append(after, `"`+key+`":1`)
	}
	d := compared("{"+strings.Join(before, ",")+"}", "{"+strings.Join(after, ",")+"}")
	for _, limit := range []int{2 << 10, 8 << 10, 128 << 10} {
		b := NewBuilder(Options{MaxBytes: limit})
		c := modified(d)
		b.Fit(&c)
		size, record := recordSize(t, b, c)
		assert.LessOrEqual(t, size, limit)
		shown := 0
		if list, ok := record.Attributes().Get(keyChangeDiff); ok {
			shown = list.Slice().Len()
		}
		assert.Equal(t, 26, shown+c.Diff.More)
		assert.Equal(t, limit == 128<<10, shown == 26)
	}
}
