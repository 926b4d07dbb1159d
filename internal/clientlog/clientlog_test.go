package clientlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// attach attaches a logger with what is logged by it.
func attach(level zapcore.Level) (detach func(), logs *observer.ObservedLogs) {
	core, logs := observer.New(level)
	return Attach(zap.New(core)), logs
}

// fresh forgets the lines that were logged before.
func fresh(t *testing.T) {
	t.Helper()
	forget := func() {
		output.mu.Lock()
		defer output.mu.Unlock()
		output.began, output.seen, output.before, output.leftOut = time.Time{}, nil, nil, 0
	}
	forget()
	t.Cleanup(forget)
}

// withStderr returns what f writes to standard error.
func withStderr(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	f()
	require.NoError(t, file.Close())
	text, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return string(text)
}

func texts(logs *observer.ObservedLogs) []string {
	var all []string
	for _, entry := range logs.All() {
		all = append(all, entry.Level.String()+" "+entry.Message)
	}
	return all
}

// Every way in which client-go logs arrives once, with its level, and nothing is written to standard error.
func TestLines(t *testing.T) {
	fresh(t)
	var logs *observer.ObservedLogs
	stderr := withStderr(t, func() {
		detach, observed := attach(zapcore.DebugLevel)
		defer detach()
		logs = observed
		klog.Info("plain")
		klog.Warningf("cannot read %s", "ca.crt")
		klog.Errorf("refreshing credentials: %v", errors.New("exit status 1"))
		klog.InfoS("structured", "delay", time.Second)
		klog.ErrorS(errors.New("broken"), "structured too")
		klog.Background().Info("contextual", "verb", "GET")
		klog.Background().Error(errors.New("broken"), "contextual too")
		klog.V(1).Info("too detailed")
		klog.Background().V(1).Info("too detailed")
		klog.Flush()
	})
	assert.Empty(t, stderr)
	assert.Equal(t, []string{
		"info plain",
		"warn cannot read ca.crt",
		"error refreshing credentials: exit status 1",
		`info "structured" delay="1s"`,
		`error "structured too" err="broken"`,
		`info "contextual" verb="GET"`,
		`error "contextual too" err="broken"`,
	}, texts(logs))
	for _, entry := range logs.All() {
		assert.Equal(t, "klog", entry.LoggerName)
		assert.Regexp(t, `^clientlog_test\.go:\d+$`, entry.ContextMap()["location"])
	}
}

// The lines go to the receiver that was attached first, then to the next one, and in the end to standard error again.
func TestSeveralReceivers(t *testing.T) {
	fresh(t)
	firstDetach, first := attach(zapcore.InfoLevel)
	secondDetach, second := attach(zapcore.InfoLevel)
	thirdDetach, third := attach(zapcore.InfoLevel)
	klog.Info("one")
	secondDetach()
	klog.Info("two")
	firstDetach()
	firstDetach()
	klog.Info("three")
	assert.Equal(t, []string{"info one", "info two"}, texts(first))
	assert.Empty(t, texts(second))
	assert.Equal(t, []string{"info three"}, texts(third))
	stderr := withStderr(t, func() {
		thirdDetach()
		klog.Info("four")
		klog.Error("five")
	})
	assert.Equal(t, 1, strings.Count(stderr, "four"), stderr)
	assert.Equal(t, 1, strings.Count(stderr, "five"), stderr)
	assert.Empty(t, withStderr(t, func() {
		again, logs := attach(zapcore.InfoLevel)
		defer again()
		klog.Error("six")
		assert.Equal(t, []string{"error six"}, texts(logs))
	}))
}

// Who has configured klog keeps its lines: before a receiver starts, and if it does so later.
func TestConfiguredByOthers(t *testing.T) {
	fresh(t)
	t.Run("before", func(t *testing.T) {
		defer klog.CaptureState().Restore()
		var theirs bytes.Buffer
		klog.SetOutput(&theirs)
		klog.LogToStderr(false)
		detach, logs := attach(zapcore.InfoLevel)
		klog.Info("while")
		detach()
		klog.Info("after")
		assert.Empty(t, texts(logs))
		assert.Contains(t, theirs.String(), "while")
		assert.Contains(t, theirs.String(), "after")
	})
	t.Run("later", func(t *testing.T) {
		defer klog.CaptureState().Restore()
		detach, logs := attach(zapcore.InfoLevel)
		klog.LogToStderr(true)
		stderr := withStderr(t, func() {
			klog.Info("while")
			detach()
			klog.Info("after")
		})
		assert.Empty(t, texts(logs))
		assert.Contains(t, stderr, "while")
		assert.Contains(t, stderr, "after")
	})
}

// Lines hold text from outside: from API servers, proxies and plugins.
func TestLinesAreRedactedAndCut(t *testing.T) {
	fresh(t)
	const secret = "hunter2hunter2"
	detach, logs := attach(zapcore.InfoLevel)
	defer detach()
	klog.Errorf("cannot connect to https://user:%s@example.com/", secret)
	klog.Errorf(`exec plugin printed {"kind":"ExecCredential","status":{"token":%q}}`, secret)
	klog.Error(strings.Repeat("long ", 1000))
	klog.Errorf("several\nlines")
	require.Equal(t, 4, logs.Len())
	for _, entry := range logs.All() {
		assert.NotContains(t, entry.Message, secret)
		assert.NotContains(t, entry.Message, "\n")
		assert.LessOrEqual(t, len(entry.Message), 500)
	}
	assert.Contains(t, logs.All()[0].Message, "cannot connect to")
	assert.Contains(t, logs.All()[1].Message, "exec plugin printed")
}

// The same line is logged once a minute, with how often it was repeated, and of many different ones not all.
func TestRepeatedLines(t *testing.T) {
	fresh(t)
	synctest.Test(t, func(t *testing.T) {
		detach, logs := attach(zapcore.InfoLevel)
		defer detach()
		for range 90 { // seconds
			klog.Error("Failed to watch")
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, logs.Len())
		assert.NotContains(t, logs.All()[0].ContextMap(), "repeated")
		assert.Equal(t, int64(59), logs.All()[1].ContextMap()["repeated"])

		time.Sleep(10 * time.Minute)
		logs.TakeAll()
		for i := range maxDifferent + 50 {
			klog.Errorf("line %d", i)
		}
		require.Equal(t, maxDifferent, logs.Len())
		time.Sleep(time.Minute)
		klog.Error("Failed to watch")
		last := logs.All()[logs.Len()-1].ContextMap()
		assert.Equal(t, int64(50), last["others_left_out"])
		assert.NotContains(t, last, "repeated", "that was long ago")
	})
}

// Other components log while receivers start and stop.
func TestWhileOthersLog(t *testing.T) {
	fresh(t)
	var logging, attaching sync.WaitGroup
	stop := make(chan struct{})
	core, _ := observer.New(zapcore.InfoLevel)
	withStderr(t, func() {
		for i := range 4 {
			logging.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						klog.Error(fmt.Sprint("line ", i, n))
						klog.V(2).Info("detail")
						klog.Background().Info("contextual")
					}
				}
			})
			attaching.Go(func() {
				for range 200 {
					Attach(zap.New(core))()
				}
			})
		}
		attaching.Wait()
		close(stop)
		logging.Wait()
	})
}
