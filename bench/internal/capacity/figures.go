package capacity

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Figures are the tables of docs/performance-figures.md.
type Figures struct {
	Measured string // when, with what and on which machine: the first sentence of the page
	tables   map[string]*figureTable
}

type figureTable struct {
	columns []string
	rows    [][]string
}

var machine = regexp.MustCompile("(?s)Measured on (\\S+) by .*?, (on \\d+ cores of .*? GiB), (.*?)\\.\n")

// Read reads the page.
func Read(file string) (*Figures, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the file is chosen by who runs the program
	if err != nil {
		return nil, fmt.Errorf("cannot read the figures: %w", err)
	}
	f, err := Parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("cannot read the figures in %s: %w", file, err)
	}
	return f, nil
}

// Parse reads the tables of a page in the form in which make bench writes it.
func Parse(page string) (*Figures, error) {
	f := &Figures{tables: map[string]*figureTable{}}
	found := machine.FindStringSubmatch(page)
	if found == nil {
		return nil, fmt.Errorf("it does not say on which machine it was measured")
	}
	f.Measured = fmt.Sprintf("%s, %s", found[1], strings.Join(strings.Fields(found[2]), " "))
	title := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			title = heading
			continue
		}
		if title == "" || !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		t := f.tables[title]
		switch {
		case t == nil:
			f.tables[title] = &figureTable{columns: cells}
		case strings.HasPrefix(line, "|--"):
		case len(cells) != len(t.columns):
			return nil, fmt.Errorf("table %q has %d columns and a row of %d cells: %s", title, len(t.columns), len(cells), line)
		default:
			t.rows = append(t.rows, cells)
		}
	}
	return f, nil
}

// reading is one measured value.
type reading struct {
	objects float64 // 0: the table has no number of objects
	value   float64
}

// of returns what a column has for a contender, for each number of objects.
func (f *Figures) of(title, contender, column string) ([]reading, error) {
	t := f.tables[title]
	if t == nil {
		return nil, fmt.Errorf("there is no table %q", title)
	}
	at, who := slices.Index(t.columns, column), slices.Index(t.columns, "")
	if at < 0 || who < 0 {
		return nil, fmt.Errorf("table %q has no column %q", title, column)
	}
	var all []reading
	for _, row := range t.rows {
		if row[who] != contender {
			continue
		}
		var r reading
		var err error
		if r.value, err = number(row[at]); err != nil {
			return nil, fmt.Errorf("table %q, column %q: %w", title, column, err)
		}
		if who > 0 {
			if r.objects, err = number(row[0]); err != nil {
				return nil, fmt.Errorf("table %q: %w", title, err)
			}
		}
		all = append(all, r)
	}
	if all == nil {
		return nil, fmt.Errorf("table %q has no row of %q", title, contender)
	}
	return all, nil
}

// number reads a cell: 20,000 or 1.18, perhaps with the minimum and maximum in brackets behind it.
func number(cell string) (float64, error) {
	text, _, _ := strings.Cut(cell, " ")
	value, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%q is not a number", cell)
	}
	return value, nil
}
