package record

import (
	gobuild "go/build"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The reference calls exactly those attributes conventional that the semantic conventions define, and those of contrib are
// no others.
func TestDocumentedStability(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "records.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := func(stability string) []string {
		row := regexp.MustCompile(`(?m)^\| ` + stability + ` \| ([^|]*) \|`).FindStringSubmatch(string(text))
		if row == nil {
			t.Fatalf("no row is about the stability %q", stability)
		}
		var names []string
		for name := range strings.SplitSeq(row[1], ", ") {
			names = append(names, strings.Trim(name, "`"))
		}
		slices.Sort(names)
		return names
	}
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(k8s\\.[a-z0-9_.]+)`").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, match[1])
	}
	slices.Sort(documented)
	documented = slices.Compact(documented)

	conventions, err := gobuild.Import("go.opentelemetry.io/otel/semconv/v1.43.0", ".", gobuild.FindOnly)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(conventions.Dir, "attribute_group.go"))
	if err != nil {
		t.Fatal(err)
	}
	isConventional := func(name string) bool { return strings.Contains(string(source), `attribute.Key("`+name+`")`) }
	want := slices.DeleteFunc(slices.Clone(documented), func(name string) bool { return !isConventional(name) })
	if got := names("convention"); !slices.Equal(got, want) {
		t.Errorf("conventional are\n%q, want\n%q", got, want)
	}
	for _, name := range names("contrib") {
		if !slices.Contains(documented, name) || isConventional(name) {
			t.Errorf("%s is not an attribute of contrib's that is emitted", name)
		}
	}
}
