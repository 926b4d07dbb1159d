package runner

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// Options of a run.
type Options struct {
	Binaries     string // folder of floor, reflector and receiver
	Collector    string // with our receiver
	Before       string // another Collector with our receiver, for the scenario of that name; "": none
	Peer         string // with k8sobjects
	ControlPlane string // folder of etcd and kube-apiserver
	Quick        bool
	Profiles     string // folder for profiles of the small programs; "": none
	Runs         int
	Scenarios    []string // none: all
	Real         []int    // numbers of pods on a real API server, ascending
}

func (o *Options) wants(scenario string) bool {
	if len(o.Scenarios) == 0 {
		return true
	}
	for _, s := range o.Scenarios {
		if s == scenario {
			return true
		}
	}
	return false
}

// Session is one run of all requested scenarios.
type Session struct {
	Options
	Results Results

	folder  string
	started int // collectors so far
}

// NewSession creates a folder for the contenders' files.
func NewSession(o Options) (*Session, error) {
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("cannot create a folder: %w", err)
	}
	return &Session{Options: o, folder: folder, Results: Results{Machine: machine()}}, nil
}

// Close removes the folder.
func (s *Session) Close() error { return os.RemoveAll(s.folder) }

func (s *Session) binary(name string) string { return filepath.Join(s.Binaries, name) }

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Machine describes where the figures were measured.
type Machine struct {
	Processor string
	Cores     int
	MemoryGiB int
	Kernel    string
	Go        string
	Versions  []string
}

func machine() Machine {
	m := Machine{Processor: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), Kernel: "unknown"}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		m.Processor = name
	}
	var kilobytes int
	if _, err := fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kilobytes); err == nil {
		m.MemoryGiB = (kilobytes + 1<<19) >> 20
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "k8s.io/client-go", "go.opentelemetry.io/collector/pdata":
				m.Versions = append(m.Versions, dep.Path+" "+dep.Version)
			}
		}
	}
	return m
}

// loadAverage returns how many threads could run or did, on average over the last five minutes.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(content)); err == nil && len(fields) > 1 {
		return fields[1]
	}
	return "unknown"
}

// field returns the value of the first line "name : value" of a file.
func field(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
