package reference

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Place is where an attribute can be: the column Records of the table.
type Place string

const (
	Resource   Place = "resource" // of any record
	Scope      Place = "scope"
	Object     Place = "object" // a record of an object
	Event      Place = "event"  // a record of a Kubernetes Event
	Gap        Place = "gap"
	Set        Place = "set" // the begin or end of a set of snapshots
	Entity     Place = "entity"
	K8sObjects Place = "k8sobjects" // a record in that format
	K8sEvents  Place = "k8sevents"
)

var places = []Place{Resource, Scope, Object, Event, Gap, Set, Entity, K8sObjects, K8sEvents}

// Stability is who defines an attribute.
type Stability string

const (
	Convention Stability = "convention"
	Contrib    Stability = "contrib"
	Ours       Stability = "ours"
)

var stabilities = []Stability{Convention, Contrib, Ours}

// types are the names of types in the table, as typeOf returns them.
var types = []string{"string", "int", "bool", "string[]", "map", "map[]"}

// Attribute is what the table says about an attribute.
type Attribute struct {
	Name      string
	Types     []string // a value has one of these types
	Places    []Place
	Stability Stability
}

// Table holds the attributes in the order of the table.
type Table struct {
	Attributes []Attribute
	byName     map[string]*Attribute
}

// head is the first line of the table.
const head = "| Attribute | Type | Records | When present | Source | Stability |\n"

var names = regexp.MustCompile("^`[a-z0-9_.]+`(, `[a-z0-9_.]+`)*$")

// ReadFile reads the table of a Markdown file.
func ReadFile(path string) (*Table, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is that of a test
	if err != nil {
		return nil, err
	}
	t, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("cannot read the table of attributes in %s: %w", path, err)
	}
	return t, nil
}

// Parse reads the table. Attributes with the same description share a row, separated by commas. It is an error if there is
// more than one table, an attribute is in two rows, or a cell has a word that is not explained above the table.
func Parse(markdown string) (*Table, error) {
	if n := strings.Count(markdown, head); n != 1 {
		return nil, fmt.Errorf("there are %d tables that begin with %q, want one", n, strings.TrimSpace(head))
	}
	_, text, _ := strings.Cut(markdown, head)
	t := &Table{byName: map[string]*Attribute{}}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		if err := t.addRow(line); err != nil {
			return nil, fmt.Errorf("row %q: %w", strings.TrimSpace(line), err)
		}
	}
	if len(t.Attributes) == 0 {
		return nil, errors.New("the table is empty")
	}
	for i := range t.Attributes {
		t.byName[t.Attributes[i].Name] = &t.Attributes[i]
	}
	return t, nil
}

func (t *Table) addRow(line string) error {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	if len(cells) != strings.Count(head, "|")-1 {
		return fmt.Errorf("it has %d cells", len(cells))
	}
	for i := range cells {
		if cells[i] = strings.TrimSpace(cells[i]); cells[i] == "" {
			return errors.New("a cell is empty")
		}
	}
	if !names.MatchString(cells[0]) {
		return errors.New("the first cell is not a list of names in backticks")
	}
	a := Attribute{Types: strings.Split(cells[1], " or "), Stability: Stability(cells[5])}
	for _, one := range a.Types {
		if !slices.Contains(types, one) {
			return fmt.Errorf("%q is not one of the types %q", one, types)
		}
	}
	for place := range strings.SplitSeq(cells[2], ", ") {
		if !slices.Contains(places, Place(place)) || slices.Contains(a.Places, Place(place)) {
			return fmt.Errorf("%q is not one of the records %q, or named twice", place, places)
		}
		a.Places = append(a.Places, Place(place))
	}
	if !slices.Contains(stabilities, a.Stability) {
		return fmt.Errorf("%q is not one of the stabilities %q", a.Stability, stabilities)
	}
	for name := range strings.SplitSeq(cells[0], ", ") {
		a.Name = strings.Trim(name, "`")
		if _, ok := t.byName[a.Name]; ok {
			return fmt.Errorf("%s is in two rows", a.Name)
		}
		t.byName[a.Name] = nil // the addresses are known at the end
		t.Attributes = append(t.Attributes, a)
	}
	return nil
}
