package child

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
)

// tailBytes is how much of a process's output is kept for an error message.
const tailBytes = 4 << 10

// tail forwards the output of a process and keeps the end of it.
type tail struct {
	next io.Writer // nil: nowhere

	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.last = append(t.last, p...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	t.mu.Unlock()
	if t.next != nil {
		// A broken pipe of ours must not stop the process.
		_, _ = t.next.Write(p)
	}
	return len(p), nil
}

// String returns whole lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.last
	if len(kept) == tailBytes {
		if i := bytes.IndexByte(kept, '\n'); i >= 0 {
			kept = kept[i+1:]
		}
	}
	return strings.TrimSpace(string(kept))
}

func ended(err error) bool { return errors.Is(err, os.ErrProcessDone) }
