//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeForeground makes this process the only one that the terminal sends Ctrl-C to, if it has a terminal and is in the
// foreground there, and returns a function that undoes that.
func takeForeground() (giveBack func()) {
	nothing := func() {}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nothing
	}
	before := unix.Getpgrp()
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	if err != nil || foreground != before || before == os.Getpid() {
		terminal.Close()
		return nothing
	}
	// A process outside the foreground is stopped when it changes the foreground, unless it ignores SIGTTOU. And Ctrl-Z
	// would stop only us, and nothing would resume us.
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTTIN, syscall.SIGTSTP)
	if err := unix.Setpgid(0, 0); err != nil {
		terminal.Close()
		return nothing
	}
	set := func(group int) error {
		return unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPGRP, group)
	}
	if err := set(os.Getpid()); err != nil {
		_ = unix.Setpgid(0, before)
		terminal.Close()
		return nothing
	}
	return func() {
		_ = set(before)
		terminal.Close()
	}
}
