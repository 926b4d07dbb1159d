// Package clientlog passes on what client-go logs to the Collector's logger.
//
// client-go logs through klog, which is global to the process and writes text to standard error. Several receivers may
// run in a process, and other components may log through klog too: the first receiver that is attached gets all lines,
// then the next one, and behind the last one klog writes to standard error again.
//
// klog's outputs are replaced rather than its logger (klog.SetLogger), since only the outputs may be replaced while
// others are logging.
package clientlog

import (
	"flag"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

// attached is who gets the lines. Its lock is held during calls of klog, which holds one of its own while it writes a line.
// So writing a line only takes those of lines.
var attached struct {
	sync.Mutex
	loggers []*zap.Logger
	taken   bool   // klog's outputs are replaced
	errors  string // the level from which klog writes to standard error besides, as it was
}

// current is the first of attached.loggers, or nil.
var current atomic.Pointer[zap.Logger]

// Attach makes a logger get what is logged through klog, unless one that was attached earlier gets it, until detach is
// called. It changes nothing if klog writes to files or has a logger already: then somebody else has configured it.
func Attach(logger *zap.Logger) (detach func()) {
	logger = logger.Named("klog")
	attached.Lock()
	defer attached.Unlock()
	attached.loggers = append(attached.loggers, logger)
	update()
	return sync.OnceFunc(func() {
		attached.Lock()
		defer attached.Unlock()
		attached.loggers = slices.DeleteFunc(attached.loggers, func(other *zap.Logger) bool { return other == logger })
		update()
	})
}

// update makes klog follow a change of attached.
func update() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	toStderr := flags.Lookup("logtostderr").Value.String() == "true"
	threshold := flags.Lookup("stderrthreshold").Value
	switch {
	case len(attached.loggers) > 0:
		current.Store(attached.loggers[0])
		if attached.taken || !toStderr {
			return
		}
		attached.taken, attached.errors = true, threshold.String()
		// A line goes to the output of its own severity and to those of all lower ones.
		klog.SetOutput(io.Discard)
		klog.SetOutputBySeverity("INFO", &output)
		_ = threshold.Set("FATAL") // a name that it knows
		klog.LogToStderr(false)
	case attached.taken:
		attached.taken = false
		if !toStderr {
			klog.LogToStderr(true)
			_ = threshold.Set(attached.errors)
			klog.SetOutput(nil)
		}
		current.Store(nil)
	default:
		current.Store(nil)
	}
}
