package harness

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LimitFileSize makes every write beyond that many bytes of a file fail in a running process, as on a full disk, and
// needs no privileges. A negative number removes the limit. It works only on Linux, and returns an error elsewhere.
// https://man7.org/linux/man-pages/man2/getrlimit.2.html, RLIMIT_FSIZE
func LimitFileSize(pid int, bytes int64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return fmt.Errorf("cannot read the file size limit of process %d: %w", pid, err)
	}
	limit.Cur = limit.Max
	if bytes >= 0 {
		limit.Cur = min(uint64(bytes), limit.Max)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		return fmt.Errorf("cannot limit the file size of process %d: %w", pid, err)
	}
	return nil
}
