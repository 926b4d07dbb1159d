package capacity

import (
	"fmt"
	"os"
	"strings"
)

// The marks between which a page has the tables.
const (
	beginMark = "<!-- What is between these marks is written by make capacity-docs. -->\n\n"
	endMark   = "\n<!-- End of the capacity model. -->"
)

// WritePage replaces what the page has between the marks.
func WritePage(file, text string) error {
	content, err := os.ReadFile(file) //nolint:gosec // the file is chosen by who runs the program
	if err != nil {
		return fmt.Errorf("cannot write the tables: %w", err)
	}
	before, _, after, err := parts(string(content))
	if err != nil {
		return fmt.Errorf("cannot write the tables into %s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(before+beginMark+text+endMark+after), 0o600); err != nil {
		return fmt.Errorf("cannot write the tables: %w", err)
	}
	return nil
}

// parts returns what a page has before, between and after the marks, without the marks.
func parts(page string) (before, tables, after string, err error) {
	before, rest, found := strings.Cut(page, beginMark)
	tables, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return "", "", "", fmt.Errorf("it has no marks: %q and %q", strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return before, tables, after, nil
}

// Examples returns the tables of docs/scale.md.
func Examples(f, gateways *Figures) (string, error) {
	m, err := NewModel(f, gateways, "map", 8)
	if err != nil {
		return "", err
	}
	return m.Markdown(Default(1, 5000, 150_000), Default(1, 15_000, 450_000), Default(40, 500, 15_000)), nil
}
