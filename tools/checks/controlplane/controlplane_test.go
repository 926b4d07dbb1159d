// Package controlplane tests which binaries tools/control-plane.sh chooses. Downloads come only from loopback, and
// neither etcd nor kube-apiserver is really built.
package controlplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/checks/envtest"
)

const version = envtest.Version

// program returns a shell script that prints a line, whatever its arguments.
func program(line string) string { return "#!/bin/sh\necho '" + line + "'\n" }

// script runs control-plane.sh in its own environment.
type script struct {
	t      *testing.T
	folder string // the folder for the binaries
	path   string // a folder with a go command that logs its builds
	log    string // its log
}

// goCommand replaces go: it builds setup-envtest, and for anything else writes a script that prints the right version.
const goCommand = `#!/bin/sh
case "$*" in *setup-envtest*) exec "$REAL_GO" "$@" ;; esac
echo "$*" >>"$GO_LOG"
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\necho "Kubernetes ` + version + `"\n' >"$2"
chmod +x "$2"
`

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{t: t, folder: filepath.Join(t.TempDir(), version), path: t.TempDir()}
	s.log = filepath.Join(s.path, "log")
	if err := os.WriteFile(filepath.Join(s.path, "go"), []byte(goCommand), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// run returns the output on stdout and stderr, and what was built.
func (s *script) run(environment ...string) (folder, messages string, built []string, err error) {
	s.t.Helper()
	realGo, err := exec.LookPath("go")
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.log, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), "../../control-plane.sh", version, s.folder)
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains([]string{"KUBEBUILDER_ASSETS", "CONTROL_PLANE", "PATH"}, name) && !strings.HasPrefix(name, "ENVTEST_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+s.path+":"+os.Getenv("PATH"), "REAL_GO="+realGo, "GO_LOG="+s.log)
	cmd.Env = append(cmd.Env, environment...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	log, readErr := os.ReadFile(s.log)
	if readErr != nil {
		s.t.Fatal(readErr)
	}
	for line := range strings.Lines(string(log)) {
		fields := strings.Fields(line)
		built = append(built, filepath.Base(fields[len(fields)-1]))
	}
	return strings.TrimSpace(string(out)), stderr.String(), built, err
}

// requireBinaries requires that the printed folder is the requested one, with the two programs and no leftovers.
func (s *script) requireBinaries(printed string) {
	s.t.Helper()
	if printed != s.folder {
		s.t.Errorf("it printed %q, want %q", printed, s.folder)
	}
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if want := []string{".stamp", "etcd", "kube-apiserver"}; !slices.Equal(names, want) {
		s.t.Errorf("the folder has %q, want %q", names, want)
	}
	reported, err := exec.CommandContext(s.t.Context(), filepath.Join(s.folder, "kube-apiserver"), "--version").Output()
	if err != nil || string(reported) != "Kubernetes "+version+"\n" {
		s.t.Errorf("kube-apiserver reports %q, %v", reported, err)
	}
}

var (
	readyMade = map[string]string{
		"etcd": program("etcd Version: 3.7.3"), "kube-apiserver": program("Kubernetes " + version), "kubectl": program("Client Version: " + version),
	}
	fromSource = []string{".", "kube-apiserver"} // the packages that are built, in order
)

func TestReadyMadeBinariesAreUsed(t *testing.T) {
	t.Parallel()
	i, s := envtest.Serve(t, envtest.Archive(t, readyMade)), newScript(t)
	printed, messages, built, err := s.run("ENVTEST_INDEX=" + i.Address())
	if err != nil || len(built) > 0 {
		t.Fatalf("%v; built: %q; %s", err, built, messages)
	}
	s.requireBinaries(printed)
	if asked := i.Requests(); !slices.Contains(asked, "/archive") {
		t.Errorf("nothing was downloaded: %q", asked)
	}

	// They exist now, so they are not requested again.
	printed, messages, built, err = s.run("ENVTEST_INDEX=" + i.Address())
	if err != nil || len(built) > 0 || messages != "" || len(i.Requests()) > 0 {
		t.Errorf("again: %v; built: %q; %s", err, built, messages)
	}
	s.requireBinaries(printed)

	// They are not used if built ones are requested.
	printed, messages, built, err = s.run("ENVTEST_INDEX="+i.Address(), "CONTROL_PLANE=build")
	if err != nil || !slices.Equal(built, fromSource) || len(i.Requests()) > 0 {
		t.Errorf("with CONTROL_PLANE=build: %v; built: %q; %s", err, built, messages)
	}
	s.requireBinaries(printed)

	// Built ones are used in any case.
	for _, choice := range []string{"", "build"} {
		_, messages, built, err = s.run("ENVTEST_INDEX="+i.Address(), "CONTROL_PLANE="+choice)
		if err != nil || len(built) > 0 || messages != "" || len(i.Requests()) > 0 {
			t.Errorf("built ones with CONTROL_PLANE=%s: %v; built: %q; %s", choice, err, built, messages)
		}
	}
}

// Whatever is wrong with ready-made binaries is reported, and the result are binaries of the right version.
func TestWithoutReadyMadeBinariesTheyAreBuilt(t *testing.T) {
	t.Parallel()
	without := func(name, instead string) map[string]string {
		programs := map[string]string{}
		for other, content := range readyMade {
			if other != name {
				programs[other] = content
			} else if instead != "" {
				programs[name] = instead
			}
		}
		return programs
	}
	for name, test := range map[string]struct {
		programs map[string]string
		spoil    func(*envtest.Index)
		reason   string
	}{
		"nobody listens":                 {readyMade, func(i *envtest.Index) { i.Close() }, "cannot read the index"},
		"the index does not come":        {readyMade, func(i *envtest.Index) { i.Silent = true }, "cannot read the index"},
		"the index has another version":  {readyMade, func(i *envtest.Index) { i.Offers = "v1.37.1" }, "has none for this platform"},
		"the archive does not come":      {readyMade, func(i *envtest.Index) { i.Stalled = true }, "cannot download"},
		"the archive has another sum":    {readyMade, func(i *envtest.Index) { i.Hash = strings.Repeat("0", 128) }, "cannot download"},
		"the archive is something else":  {nil, func(*envtest.Index) {}, "no etcd"},
		"there is no kube-apiserver":     {without("kube-apiserver", ""), func(*envtest.Index) {}, "no kube-apiserver"},
		"kube-apiserver is of another":   {without("kube-apiserver", program("Kubernetes v1.37.1")), func(*envtest.Index) {}, "Kubernetes v1.37.1"},
		"kube-apiserver cannot run here": {without("kube-apiserver", "\x7fELF of another machine"), func(*envtest.Index) {}, "do not run here"},
		"etcd cannot run here":           {without("etcd", "#!/bin/sh\nexit 1\n"), func(*envtest.Index) {}, "do not run here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, s := envtest.Serve(t, envtest.Archive(t, test.programs)), newScript(t)
			test.spoil(i)
			printed, messages, built, err := s.run("ENVTEST_INDEX="+i.Address(), "ENVTEST_TIMEOUT="+limit(i.Silent), "ENVTEST_DOWNLOAD_TIMEOUT="+limit(i.Stalled))
			if err != nil || !slices.Equal(built, fromSource) {
				t.Fatalf("%v; built: %q; %s", err, built, messages)
			}
			s.requireBinaries(printed)
			if !strings.Contains(messages, "no ready-made binaries of Kubernetes "+version+": ") || !strings.Contains(messages, test.reason) {
				t.Errorf("want a message with %q: %s", test.reason, messages)
			}
		})
	}
}

// limit returns how many seconds an answer may take: few if none will come, otherwise more than it ever takes.
func limit(none bool) string {
	if none {
		return "2"
	}
	return "300"
}

func TestOwnBinariesComeFirst(t *testing.T) {
	t.Parallel()
	i, s := envtest.Serve(t, envtest.Archive(t, readyMade)), newScript(t)
	own := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, _, _, err := s.run("KUBEBUILDER_ASSETS=" + own); err == nil {
			t.Errorf("a folder without %s was accepted", name)
		}
		if err := os.WriteFile(filepath.Join(own, name), []byte(program("Kubernetes v1.30.0")), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, choice := range []string{"", "build"} {
		printed, messages, built, err := s.run("KUBEBUILDER_ASSETS="+own, "CONTROL_PLANE="+choice, "ENVTEST_INDEX="+i.Address())
		if err != nil || printed != own || len(built) > 0 || len(i.Requests()) > 0 {
			t.Errorf("%v; printed: %q; built: %q; %s", err, printed, built, messages)
		}
	}
}

func TestUnknownChoiceIsRefused(t *testing.T) {
	t.Parallel()
	_, messages, built, err := newScript(t).run("CONTROL_PLANE=download")
	if err == nil || len(built) > 0 || !strings.Contains(messages, "CONTROL_PLANE=download") {
		t.Errorf("%v; built: %q; %s", err, built, messages)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments []string
		code      int
	}{
		"ends by itself":        {[]string{"300", "sh", "-c", "exit 7"}, 7},
		"is not there":          {[]string{"300", "/does/not/exist"}, 127},
		"goes on for too long":  {[]string{"1", "sleep", "300"}, 124},
		"ends well before time": {[]string{"300", "true"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "../../limit.sh", test.arguments...)
			_ = cmd.Run() // the exit code is checked instead
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}
