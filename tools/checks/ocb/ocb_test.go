// Package ocb follows the instructions in README.md for building a Collector with the receiver, in a folder beside a
// checkout, with the configuration given there.
package ocb

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/k8swatchlist/k8swatchlistreceiver"
	repository = "../../.."
	checkout   = "k8s_watchlist" // its name in README
)

var fenced = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// block returns the only code block of a language in README with all the texts.
func block(t *testing.T, language string, having ...string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range fenced.FindAllStringSubmatch(string(readme), -1) {
		lacks := func(text string) bool { return !strings.Contains(match[2], text) }
		if match[1] == language && !slices.ContainsFunc(having, lacks) {
			found = append(found, match[2])
		}
	}
	if len(found) != 1 {
		t.Fatalf("README.md has %d blocks of %s with %q, want one", len(found), language, having)
	}
	return found[0]
}

// copyCheckout copies the repository as git would clone it, including uncommitted changes.
func copyCheckout(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		switch {
		case name == ".git" || name == "bin":
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil // .git of a worktree is a file
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o644)
	})
	if err != nil {
		t.Fatalf("cannot copy the repository: %v", err)
	}
}

func run(t *testing.T, folder, program string, arguments ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, arguments...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, arguments, err, out)
	}
	return string(out)
}

func TestCollectorFromACheckout(t *testing.T) {
	ocb := os.Getenv("OCB_BINARY")
	if ocb == "" {
		t.Skip("$OCB_BINARY names no ocb: run `make test-ocb` in the repository's root")
	}
	commands := block(t, "sh", "cmd/builder@")
	pinned, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`cmd/builder@(\S+)`).FindStringSubmatch(commands)[1]
	if !strings.Contains(string(pinned), "go.opentelemetry.io/collector/cmd/builder "+version+" ") {
		t.Errorf("README.md says to run ocb %s, which is not the version that tools/go.mod pins", version)
	}

	config := block(t, "yaml", "dist:")
	path := regexp.MustCompile(`(?m)^    path: .*\n`)
	if !path.MatchString(config) {
		t.Fatalf("there is no path: in the configuration of ocb\n%s", config)
	}
	collectorConfig := block(t, "yaml", "k8s_watchlist:", "exporters:", "service:")
	folder := t.TempDir()
	copyCheckout(t, filepath.Join(folder, checkout))

	// Both ways: with a path in the receiver's entry, and by replacing its module.
	for name, config := range map[string]string{
		"path":     config,
		"replaces": path.ReplaceAllString(config, "") + "\n" + block(t, "yaml", "replaces:"),
	} {
		t.Run(name, func(t *testing.T) {
			mine := filepath.Join(folder, "with-"+name)
			if err := os.Mkdir(mine, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, content := range map[string]string{"builder-config.yaml": config, "config.yaml": collectorConfig} {
				if err := os.WriteFile(filepath.Join(mine, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run(t, mine, ocb, "--config", "builder-config.yaml")
			collector := filepath.Join(mine, "build", "otelcol-mine")
			components := run(t, mine, collector, "components")
			if !strings.Contains(components, "name: k8s_watchlist\n") || !strings.Contains(components, "module: "+module+" ") {
				t.Errorf("the Collector has no receiver k8s_watchlist of %s:\n%s", module, components)
			}
			run(t, mine, collector, "validate", "--config", "config.yaml")
		})
	}
}
