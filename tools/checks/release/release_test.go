// Package release tests tools/release-notes.sh on a repository of several modules.
package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type repository struct {
	t      *testing.T
	folder string
}

func (r repository) git(arguments ...string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", arguments...)
	cmd.Dir = r.folder
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %q: %v\n%s", arguments, err, out)
	}
}

// commit writes files, given as names and contents in turn, and commits them.
func (r repository) commit(message string, files ...string) {
	r.t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(r.folder, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", ".")
	r.git("commit", "-m", message)
}

func (r repository) notes(tag string) (notes, messages string, err error) {
	r.t.Helper()
	script, err := filepath.Abs("../../release-notes.sh")
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), script, tag)
	cmd.Dir = r.folder
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return string(out), stderr.String(), err
}

func TestNotes(t *testing.T) {
	t.Parallel()
	r := repository{t, t.TempDir()}
	r.git("init", "--quiet")
	const changes = "# Changelog\n\n## Unreleased\n\n"
	const first = "## [0.1.0] - 2026-01-02\n\n### Added\n\n- The first.\n"
	r.commit("begin", "go.mod", "module example.com/a\n", "CHANGELOG.md", changes+first,
		"cmd/b/go.mod", "module example.com/a/cmd/b\n", "cmd/b/CHANGELOG.md", "## 0.1.0\n\n- The first of b.\n",
		"test/go.mod", "module example.com/a/test\n\nreplace example.com/a => ..\n", "test/CHANGELOG.md", "## 0.1.0\n\n- Never.\n")
	for _, tag := range []string{"v0.1.0", "cmd/b/v0.1.0", "test/v0.1.0"} {
		r.git("tag", tag)
	}
	r.commit("mend the root", "a.go", "package a\n")
	r.commit("mend b", "cmd/b/b.go", "package main\n")
	r.commit("mend the tests", "test/t.go", "package test\n")
	r.git("tag", "cmd/b/v0.1.1") // without a changelog entry
	second := "## 0.2.0-rc.1\n\n- A candidate.\n\n" + first
	r.commit("prepare the candidate", "CHANGELOG.md", changes+second)
	r.git("tag", "v0.2.0-rc.1")
	r.commit("prepare the second", "CHANGELOG.md", changes+"## 0.2.0\n\n- The second.\n\n"+second, "cmd/b/CHANGELOG.md", "## 0.10.0\n\n- Late.\n")
	r.git("tag", "v0.2.0")
	r.git("tag", "cmd/b/v0.10.0")

	for tag, test := range map[string]struct{ has, hasNot []string }{
		"v0.1.0":        {[]string{"### Added\n\n- The first.\n"}, []string{"Commits", "Changelog", "Unreleased", "of b"}},
		"v0.2.0-rc.1":   {[]string{"- A candidate.\n", "Commits since v0.1.0\n", "- mend the root (", "- prepare the candidate ("}, []string{"mend b", "mend the tests", "The first"}},
		"v0.2.0":        {[]string{"- The second.\n", "Commits since v0.2.0-rc.1\n", "- prepare the second ("}, []string{"A candidate", "mend"}},
		"cmd/b/v0.1.0":  {[]string{"- The first of b.\n"}, []string{"The first.", "Commits"}},
		"cmd/b/v0.10.0": {[]string{"- Late.\n", "Commits since cmd/b/v0.1.1\n", "- prepare the second ("}, []string{"candidate", "mend"}},
	} {
		notes, messages, err := r.notes(tag)
		if err != nil {
			t.Errorf("%s: %v: %s", tag, err, messages)
		}
		for _, text := range test.has {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: the notes lack %q:\n%s", tag, text, notes)
			}
		}
		for _, text := range test.hasNot {
			if strings.Contains(notes, text) {
				t.Errorf("%s: the notes have %q:\n%s", tag, text, notes)
			}
		}
	}
	for tag, reason := range map[string]string{
		"test/v0.1.0":  "replace directives",
		"cmd/b/v0.1.1": "0.1.1",
		"docs/v0.1.0":  "no docs/go.mod",
	} {
		if notes, messages, err := r.notes(tag); err == nil || !strings.Contains(messages, reason) || notes != "" {
			t.Errorf("%s: %v, want an error with %q: %s%s", tag, err, reason, messages, notes)
		}
	}
}
