package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const page = "../../docs/command.md"

// The transcripts of docs/command.md are what the commands in them print. With COMMAND_DOCS=write they are written.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	c, folder, environment := startExample(t, fenced(string(content), "yaml"))
	text, commands := rerun(t, c, string(content), folder, environment)
	if len(commands) < 9 {
		t.Errorf("%s has only %d commands", page, len(commands))
	}
	if os.Getenv("COMMAND_DOCS") == "write" {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if before, now := generic(string(content)), generic(text); before != now {
		t.Errorf("%s is not what the commands print; run make command-docs. It should be:\n%s", page, text)
	}
}

// fenced returns the first block in a language.
func fenced(text, language string) string {
	_, after, _ := strings.Cut(text, "```"+language+"\n")
	block, _, _ := strings.Cut(after, "```\n")
	return block
}

// generic returns a text without what differs between two runs: UIDs and versions, addresses, sizes and times.
func generic(text string) string {
	text = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(text, "ADDRESS")
	text = regexp.MustCompile(`[0-9.]+ (bytes|kB)`).ReplaceAllString(text, "SIZE")
	text = regexp.MustCompile(`[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`hmac=[0-9a-f]+`).ReplaceAllString(text, "hmac=HMAC")
	text = regexp.MustCompile(`records in [0-9.ms]+`).ReplaceAllString(text, "records in TIME")
	text = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+`).ReplaceAllString(text, "UID")
	text = regexp.MustCompile(`version [0-9]+`).ReplaceAllString(text, "version N")
	return regexp.MustCompile(`json:[0-9]+`).ReplaceAllString(text, "json:N")
}

// startExample runs a Collector with the configuration of the page for a while, and returns its cluster, the folder with its
// configuration and its records, and the environment that leads to the cluster.
func startExample(t *testing.T, config string) (c *harness.Cluster, folder string, environment []string) {
	t.Helper()
	c = harness.StartCluster(t, controlplane.Options{})
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), shop, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	if _, err := c.Client.CoreV1().ConfigMaps("shop").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	define(t, c, "widgets", "Widget", "example.com")
	c.CreatePods(t, "web", 3, harness.SmallPod)

	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "collector.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	environment = []string{"KUBECONFIG=" + c.Kubeconfig()}
	records := filepath.Join(folder, "changes.json")
	collector := harness.StartCollectorIn(t, environment, config,
		"--config=yaml:receivers::k8s_watchlist::auth_type: kubeConfig",
		"--config=yaml:receivers::k8s_watchlist::batch::max_records: 1",
		"--config=yaml:exporters::file::path: "+records,
		"--config=yaml:service::telemetry::metrics::level: none")
	awaitInFile(t, records, "k8s.snapshot.end", 3)
	c.CreatePods(t, "late", 1, harness.SmallPod)
	awaitInFile(t, records, "late-00000", 1)
	collector.Interrupt(t)
	return c, folder, environment
}

// awaitInFile waits until a text is on n lines of a file.
func awaitInFile(t *testing.T, path, text string, n int) {
	t.Helper()
	harness.Poll(t, catchUp, fmt.Sprintf("%s to have %q", path, text), func() string {
		content, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		found := 0
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				found++
			}
		}
		if found < n {
			return fmt.Sprintf("it is on %d lines", found)
		}
		return ""
	})
}

// rerun runs the commands in the blocks of the page and returns the page with what they print now.
func rerun(t *testing.T, c *harness.Cluster, text, folder string, environment []string) (page string, commands []string) {
	t.Helper()
	path := "PATH=" + filepath.Dir(os.Getenv("K8SWATCHLIST_BINARY")) + ":" + os.Getenv("PATH")
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case !inside:
			inside = line == "```console\n"
			b.WriteString(line)
		case line == "```\n":
			inside = false
			b.WriteString(line)
		case isCommand:
			commands = append(commands, command)
			b.WriteString(line)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir = folder
			cmd.Env = append(append(os.Environ(), path), environment...)
			var out output
			cmd.Stdout, cmd.Stderr = &out, &out
			if strings.HasPrefix(command, "k8swatchlist tail ") {
				cmd.Args[2] = "exec " + command // so that it gets the signal
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				changeSomething(t, c, &out)
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			} else if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			b.WriteString(out.String())
			if err != nil {
				fmt.Fprintf(&b, "%v\n", err)
			}
		}
	}
	return b.String(), commands
}

// changeSomething does what tail shows, and waits until it has.
func changeSomething(t *testing.T, c *harness.Cluster, shown *output) {
	t.Helper()
	shown.await(t, "watching configmaps")
	configMaps := c.Client.CoreV1().ConfigMaps("shop")
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "prices", Labels: map[string]string{"tier": "web"}}, Data: map[string]string{"currency": "EUR"}}
	if _, err := configMaps.Create(t.Context(), created, metav1.CreateOptions{FieldManager: "kubectl-create"}); err != nil {
		t.Fatal(err)
	}
	shown.await(t, "+  configmaps")
	patch := []byte(`{"metadata":{"labels":{"tier":"shop"}},"data":{"currency":"CHF"}}`)
	if _, err := configMaps.Patch(t.Context(), "prices", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	shown.await(t, "~  configmaps")
	if err := configMaps.Delete(t.Context(), "prices", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	shown.await(t, "-  configmaps")
}
