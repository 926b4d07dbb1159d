package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test and scenario that docs/faults.md names exists.
func TestFaultsPageNamesWhatExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	known := knownTests(t)
	named := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, name := range regexp.MustCompile("`([A-Za-z0-9-]+)`").FindAllStringSubmatch(line, -1) {
			named++
			if !known[name[1]] {
				t.Errorf("there is no test or scenario %s", name[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("the page names %d tests", named)
	}
}

func knownTests(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../../*_test.go", "../../internal/*/*_test.go", "../../internal/*/*/*_test.go", "../command/*_test.go"} {
		for _, file := range matching(t, pattern) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(content), -1) {
				known[name[1]] = true
			}
		}
	}
	for _, file := range matching(t, "../../internal/watchlist/testdata/scenarios/*.txtar") {
		known[strings.TrimSuffix(filepath.Base(file), ".txtar")] = true
	}
	return known
}

func matching(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files are %s: %v", pattern, err)
	}
	return files
}
