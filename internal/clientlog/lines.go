package clientlog

import (
	"bytes"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

const (
	// window is how long the same line is logged only once.
	window = time.Minute
	// maxDifferent is how many different lines are logged within a window.
	maxDifferent = 200
)

// output is what klog writes to.
var output lines

// lines logs the lines that klog writes, the same one at most once in each window. It is safe for concurrent use.
type lines struct {
	mu      sync.Mutex
	began   time.Time      // of the window
	seen    map[string]int // how often, in the window
	before  map[string]int // the same of the window before
	leftOut int            // since the last line that was logged
}

// Write implements io.Writer for one line of klog, with its header:
//
//	W1202 15:04:05.123456    4711 file.go:12] text
//
// It never fails.
func (l *lines) Write(line []byte) (int, error) {
	logger := current.Load()
	if logger == nil { // the last one was just detached
		_, _ = os.Stderr.Write(line)
		return len(line), nil
	}
	level, location, text := parse(line)
	text = servertext.Clean(text)
	entry := logger.Check(level, text)
	if entry == nil {
		return len(line), nil
	}
	first, repeated, leftOut := l.count(level.String()+location+text, time.Now())
	if !first {
		return len(line), nil
	}
	fields := []zap.Field{zap.String("location", location)}
	if repeated > 0 {
		fields = append(fields, zap.Int("repeated", repeated))
	}
	if leftOut > 0 {
		fields = append(fields, zap.Int("others_left_out", leftOut))
	}
	entry.Write(fields...)
	return len(line), nil
}

// count reports whether a line is to be logged, how often it was repeated in the window before without being logged, and
// how many others were left out since the last line, because there were too many.
func (l *lines) count(line string, now time.Time) (first bool, repeated, leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := now.Sub(l.began); age >= window {
		l.before = l.seen
		if age >= 2*window {
			l.before = nil
		}
		l.seen, l.began = make(map[string]int), now
	}
	n, known := l.seen[line]
	if !known && len(l.seen) >= maxDifferent {
		l.leftOut++
		return false, 0, 0
	}
	l.seen[line] = n + 1
	if known {
		return false, 0, 0
	}
	leftOut, l.leftOut = l.leftOut, 0
	return true, max(0, l.before[line]-1), leftOut
}

// parse takes a line of klog apart. Without a header it is information.
func parse(line []byte) (level zapcore.Level, location, text string) {
	header, rest, ok := bytes.Cut(line, []byte("] "))
	words := bytes.Fields(header)
	if !ok || len(words) != 4 || len(words[0]) != len("W1202") {
		return zapcore.InfoLevel, "", string(line)
	}
	switch words[0][0] {
	case 'W':
		level = zapcore.WarnLevel
	case 'E', 'F': // klog ends the process itself after the latter
		level = zapcore.ErrorLevel
	}
	return level, string(words[3]), string(rest)
}
