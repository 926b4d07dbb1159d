package harness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Log is the log of a receiver in this process.
type Log struct {
	changes
	logger *zap.Logger
	lines  *observer.ObservedLogs
}

func newLog() *Log {
	l := &Log{}
	core, lines := observer.New(zapcore.DebugLevel)
	l.lines = lines
	l.logger = zap.New(zapcore.RegisterHooks(core, func(zapcore.Entry) error {
		l.happened()
		return nil
	}))
	return l
}

// Lines returns the lines of a level or worse that contain the text, in the message or in a field.
func (l *Log) Lines(level zapcore.Level, text string) []string {
	var found []string
	for _, entry := range l.lines.All() {
		line := fmt.Sprintf("%s %s %v", entry.Level.CapitalString(), entry.Message, entry.ContextMap())
		if entry.Level >= level && strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// Await waits for a line of a level or worse that contains the text, and returns the first.
func (l *Log) Await(t testing.TB, level zapcore.Level, text string, within time.Duration) string {
	t.Helper()
	var found []string
	l.await(t, within, fmt.Sprintf("the log to contain %q", text), func() string {
		if found = l.Lines(level, text); len(found) == 0 {
			return "it does not"
		}
		return ""
	})
	return found[0]
}

func (l *Log) String() string { return strings.Join(l.Lines(zapcore.DebugLevel, ""), "\n") }
