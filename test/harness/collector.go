package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

// Collector is the real Collector in a process of its own.
type Collector struct {
	Records Records // the output of its file exporter, if it has one

	documented *documented // nil: the records are not ours
	process    *child.Child
	log        collectorLog
	file       string
	ended      chan struct{} // closed when the file is no longer followed
	once       sync.Once
}

// OutputFile is the placeholder in a configuration for the path of the file exporter's file.
const OutputFile = "${env:E2E_OUTPUT}"

// StartCollector starts the collector with a configuration, and with more command line arguments. It ends with the
// test, or earlier with Interrupt or Kill.
func StartCollector(t testing.TB, config string, args ...string) *Collector {
	t.Helper()
	return StartCollectorIn(t, nil, config, args...)
}

// StartCollectorIn starts it with additional environment variables, as NAME=value.
func StartCollectorIn(t testing.TB, environment []string, config string, args ...string) *Collector {
	t.Helper()
	return startBinary(t, collectorBinary(t), newDocumented(t), environment, config, args...)
}

// StartPeer starts the Collector with contrib's k8sobjects and k8s_events receivers instead of ours.
func StartPeer(t testing.TB, environment []string, config string) *Collector {
	t.Helper()
	return startBinary(t, peerBinary(t), nil, environment, config)
}

// StartElector starts the Collector with our receiver and contrib's extension k8s_leader_elector.
func StartElector(t testing.TB, environment []string, config string) *Collector {
	t.Helper()
	return startBinary(t, electorBinary(t), newDocumented(t), environment, config)
}

func startBinary(t testing.TB, binary string, d *documented, environment []string, config string, args ...string) *Collector {
	t.Helper()
	folder := t.TempDir()
	c := &Collector{documented: d, file: filepath.Join(folder, "output.json"), ended: make(chan struct{})}
	path := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, append([]string{"--config=" + path}, args...)...)
	cmd.Env = append(append(os.Environ(), "E2E_OUTPUT="+c.file), environment...)
	var err error
	if c.process, err = child.Start(cmd, &c.log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(c.ended)
		c.follow(ctx, t)
	}()
	t.Cleanup(func() {
		c.interrupt(t)
		cancel()
		<-c.ended
		if d != nil {
			d.report(t)
		}
		if t.Failed() {
			t.Logf("log of the collector:\n%s", c.Log())
		}
	})
	return c
}

// PID returns the process id.
func (c *Collector) PID() int { return c.process.PID() }

// Log returns everything that the Collector has printed.
func (c *Collector) Log() string { return c.log.String() }

// LogLines returns the lines of the log that contain the text.
func (c *Collector) LogLines(text string) []string {
	var found []string
	for line := range strings.Lines(c.Log()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// AwaitLog waits until the collector prints a line that contains the text.
func (c *Collector) AwaitLog(t testing.TB, text string, within time.Duration) {
	t.Helper()
	c.log.await(t, within, "the collector to print "+text, func() string {
		if len(c.LogLines(text)) > 0 {
			return ""
		}
		if !c.process.Running() {
			return "it has ended:\n" + c.process.Tail()
		}
		return "it does not"
	})
}

// Output returns the content of the file exporter's file.
func (c *Collector) Output(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Interrupt ends the Collector like Ctrl-C, requires that it ends normally and in time, and waits for the last of its
// records.
func (c *Collector) Interrupt(t testing.TB) {
	t.Helper()
	c.interrupt(t)
	<-c.ended
}

// Kill ends the Collector like a crash, with SIGKILL.
func (c *Collector) Kill(t testing.TB) {
	t.Helper()
	c.once.Do(func() {
		if !c.process.Running() {
			t.Errorf("the collector has ended by itself: %v\n%s", c.process.Err(), c.process.Tail())
			return
		}
		_ = c.process.Kill() // its error is how the process ended, which is known
	})
	<-c.ended
}

// Running reports whether the process has not ended yet.
func (c *Collector) Running() bool { return c.process.Running() }

func (c *Collector) interrupt(t testing.TB) {
	t.Helper()
	c.once.Do(func() {
		if !c.process.Running() {
			t.Errorf("the collector has ended by itself: %v\n%s", c.process.Err(), c.process.Tail())
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if err := c.process.Stop(ctx, syscall.SIGINT); err != nil {
			t.Errorf("the collector did not end normally: %v\n%s", err, c.process.Tail())
		}
	})
}

// follow reads the file exporter's file until the process has ended and everything is read.
func (c *Collector) follow(ctx context.Context, t testing.TB) {
	var read int64
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		running := c.process.Running()
		n, err := c.readFrom(read)
		if err != nil {
			t.Errorf("cannot read the file exporter's file: %v", err)
			return
		}
		if read += n; !running {
			return
		}
		select {
		case <-ticker.C:
		case <-c.process.Done():
		case <-ctx.Done():
			return
		}
	}
}

// readFrom reads the complete lines from an offset on, and returns their length.
func (c *Collector) readFrom(offset int64) (int64, error) {
	file, err := os.Open(c.file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.NewSectionReader(file, offset, 1<<40))
	if err != nil {
		return 0, err
	}
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range bytes.Lines(whole) {
		logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
		if err != nil {
			return 0, err
		}
		if c.documented != nil {
			c.documented.add(logs)
		}
		c.Records.Add(logs)
	}
	return int64(len(whole)), nil
}

// collectorLog keeps the output of a Collector.
type collectorLog struct {
	changes
	mu   sync.Mutex
	text strings.Builder
}

func (l *collectorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.text.Write(p)
	l.mu.Unlock()
	l.happened()
	return len(p), nil
}

func (l *collectorLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
