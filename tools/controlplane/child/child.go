// Package child runs a program as a child process that has an owner: it is in a process group of its own, so that
// Ctrl-C in the terminal reaches only the parent, which then ends it in the right order; it dies with the parent if the
// system supports that; and it is always waited for.
package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Child is a running or ended program.
type Child struct {
	name string
	cmd  *exec.Cmd
	tail *tail
	done chan struct{}
	err  error // how it ended; set before done is closed
}

// Start runs cmd. The program's output also goes to log, unless log is nil, and its end is kept for error messages.
func Start(cmd *exec.Cmd, log io.Writer) (*Child, error) {
	c := &Child{name: filepath.Base(cmd.Path), cmd: cmd, tail: &tail{next: log}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.tail, c.tail
	cmd.SysProcAttr = attributes()
	// A grandchild that holds our pipe open must not prevent Wait from returning.
	cmd.WaitDelay = 2 * time.Second

	started := make(chan error)
	go c.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", c.name, err)
	}
	return c, nil
}

// own starts the process and waits for it on one locked thread: on Linux the child dies with the thread that started
// it, and an unlocked thread may end at any time.
func (c *Child) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	close(c.done)
}

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Running reports whether the process has not ended yet.
func (c *Child) Running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Err returns how the process ended: nil after exit code 0. It is valid only after Done.
func (c *Child) Err() error { return c.err }

// PID of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Tail returns the last lines that the process printed.
func (c *Child) Tail() string { return c.tail.String() }

// Signal sends sig to the process. It is not an error if the process has already ended.
func (c *Child) Signal(sig os.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !ended(err) {
		return fmt.Errorf("cannot send %v to %s: %w", sig, c.name, err)
	}
	return nil
}

// Stop sends sig, waits for the process to end, and kills it when ctx ends first. It returns how the process ended, so
// that the caller can distinguish a clean end (nil) from others.
func (c *Child) Stop(ctx context.Context, sig os.Signal) error {
	if err := c.Signal(sig); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return c.Kill()
	}
}

// Kill sends SIGKILL and waits for the process to end. It returns how the process ended.
func (c *Child) Kill() error {
	if err := c.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.done
	return c.err
}
