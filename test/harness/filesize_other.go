//go:build !linux

package harness

import (
	"errors"
	"fmt"
)

// LimitFileSize returns an error: only Linux can limit the files of a running process.
func LimitFileSize(pid int, _ int64) error {
	return fmt.Errorf("cannot limit the file size of process %d: %w", pid, errors.ErrUnsupported)
}
