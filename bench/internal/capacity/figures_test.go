package capacity

import (
	"strings"
	"testing"
)

const examplePage = `<!-- Written. -->
# Figures

Measured on 2026-12-01 by ` + "`make bench BENCH_FLAGS='-runs=2'`" + ` in 18m50s, on 2 cores of AMD EPYC with 24 GiB, Linux
6.18, go1.26.8. More.

| no | title |
|---|---|
| 1 | 2 |

## Initial state

A note.

| pods of 8 KB |  | CPU s | peak RSS MB |
|---:|---|---:|---:|
| 20,000 | floor | 0.41 (0.37–0.46) | 15 |
| 20,000 | ours, to OTLP | 1.67 | 96 (90–99) |
| 1,000,000 | ours, to OTLP | 15 |  |

## Live

|  | CPU µs per change |
|---|---:|
| ours | 203 (201–205) |
`

func TestParse(t *testing.T) {
	f, err := Parse(examplePage)
	if err != nil {
		t.Fatal(err)
	}
	if want := "2026-12-01, on 2 cores of AMD EPYC with 24 GiB"; f.Measured != want {
		t.Errorf("measured %q, not %q", f.Measured, want)
	}
	for _, c := range []struct {
		title, contender, column string
		want                     []reading
		fails                    string
	}{
		{"Initial state", "floor", "CPU s", []reading{{20_000, 0.41}}, ""},
		{"Initial state", "ours, to OTLP", "CPU s", []reading{{20_000, 1.67}, {1_000_000, 15}}, ""},
		{"Live", "ours", "CPU µs per change", []reading{{0, 203}}, ""},
		{"Initial state", "ours, to OTLP", "peak RSS MB", nil, `"" is not a number`},
		{"Initial", "ours", "CPU s", nil, `no table "Initial"`},
		{"Initial state", "ours", "CPU s", nil, `no row of "ours"`},
		{"Initial state", "floor", "wall s", nil, `no column "wall s"`},
	} {
		got, err := f.of(c.title, c.contender, c.column)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s, %s, %s: error %v, not %s", c.title, c.contender, c.column, err, c.fails)
			}
			continue
		}
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s, %s, %s: %v, %v", c.title, c.contender, c.column, got, err)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s, %s, %s: %v, not %v", c.title, c.contender, c.column, got, c.want)
			}
		}
	}
}

func TestParseOfAnotherPage(t *testing.T) {
	for page, want := range map[string]string{
		"# Scale\n": "machine",
		strings.Replace(examplePage, "| floor |", "| floor | 1 |", 1): "5 cells",
	} {
		if _, err := Parse(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, which should mention %s", err, want)
		}
	}
}
