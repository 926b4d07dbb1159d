// Package contender is the common part of the small measured programs: their command line, and how they report what
// they have read.
package contender

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
)

// Options configure what to read.
type Options struct {
	Kubeconfig          string
	Server, CA          string // URL of the API server, and file of its authority
	Certificate, Key    string // files of the client, if it needs them
	Resources           string // paths such as api/v1/pods, separated by commas
	Metadata, Gzip      bool
	Stamps              string // file for the arrival times of changes
	Profile             string // file for a CPU profile
	SmallestBatch, JSON bool

	Progress *Progress // counts what is read
}

// Flags reads the command line.
func Flags() Options {
	var o Options
	flag.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file")
	flag.StringVar(&o.Server, "server", "", "URL of the API server")
	flag.StringVar(&o.CA, "ca", "", "file of the certificate of its authority")
	flag.StringVar(&o.Certificate, "certificate", "", "file of the client's certificate")
	flag.StringVar(&o.Key, "key", "", "file of the client's key")
	flag.StringVar(&o.Resources, "resources", "api/v1/pods", "paths of resources, separated by commas")
	flag.BoolVar(&o.Metadata, "metadata", false, "ask for the metadata only")
	flag.BoolVar(&o.Gzip, "gzip", false, "let the server compress")
	flag.StringVar(&o.Stamps, "stamps", "", "file for the arrival times of changes")
	flag.StringVar(&o.Profile, "profile", "", "file for a CPU profile")
	flag.BoolVar(&o.SmallestBatch, "smallest-batch", false, "send each record without waiting for others")
	flag.BoolVar(&o.JSON, "json", false, "bodies as JSON; of the floor, metadata as JSON too")
	flag.Parse()
	return o
}

// Paths of the resources.
func (o *Options) Paths() []string { return strings.Split(o.Resources, ",") }

// Stamp is the arrival time of a version of an object.
type Stamp struct {
	Version uint64
	At      time.Duration // clock.Now
}

// Progress counts what was read so far.
type Progress struct {
	Objects  atomic.Int64 // of the initial state
	Changes  atomic.Int64
	complete atomic.Int64
	expected int64
	done     chan struct{}
}

// NewProgress returns the progress of a reader of that many resources.
func NewProgress(resources int) *Progress {
	return &Progress{expected: int64(resources), done: make(chan struct{})}
}

// CompleteOne notes that the initial state of one resource is complete.
func (p *Progress) CompleteOne() {
	if p.complete.Add(1) == p.expected {
		close(p.done)
	}
}

// Complete returns a channel that is closed when the initial states of all resources are complete.
func (p *Progress) Complete() <-chan struct{} { return p.done }

// Result is what was read in total.
type Result struct {
	Objects, Changes int64
	AllocBytes       uint64
	HeapBytes        uint64        // reachable heap
	LongestPause     time.Duration // longest pause of the garbage collector so far
}

// CompleteLine is printed when a program has read the initial states.
const CompleteLine = "complete"

// Run runs a program until it is signalled to end. It prints the result as a line of JSON at the end, and on SIGUSR1.
func Run(o Options, run func(context.Context, Options) ([]Stamp, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	o.Progress = NewProgress(len(o.Paths()))
	var reporting sync.WaitGroup
	reporting.Go(func() {
		select {
		case <-o.Progress.Complete():
			fmt.Println(CompleteLine)
		case <-ctx.Done():
		}
	})
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	reporting.Go(func() {
		for {
			select {
			case <-asked:
				debug.FreeOSMemory() // garbage must not count as memory in use
				printResult(o.Progress)
			case <-ctx.Done():
				return
			}
		}
	})
	stamps, err := profiled(o.Profile, func() ([]Stamp, error) { return run(ctx, o) })
	stop()
	reporting.Wait()
	if err == nil {
		printResult(o.Progress)
	}
	if err == nil && o.Stamps != "" {
		err = writeStamps(o.Stamps, stamps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func profiled(path string, run func() ([]Stamp, error)) ([]Stamp, error) {
	if path == "" {
		return run()
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	stamps, err := run()
	pprof.StopCPUProfile()
	return stamps, errors.Join(err, file.Close())
}

func printResult(p *Progress) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/pauses/total/gc:seconds"},
	}
	metrics.Read(samples)
	r := Result{Objects: p.Objects.Load(), Changes: p.Changes.Load(), AllocBytes: samples[0].Value.Uint64(), HeapBytes: samples[1].Value.Uint64()}
	pauses := samples[2].Value.Float64Histogram()
	for i, n := range pauses.Counts {
		if n > 0 && !math.IsInf(pauses.Buckets[i+1], 1) {
			r.LongestPause = time.Duration(pauses.Buckets[i+1] * float64(time.Second))
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers
	}
	fmt.Println(string(line))
}

func writeStamps(path string, stamps []Stamp) error {
	var b []byte
	for _, s := range stamps {
		b = fmt.Appendf(b, "%d %d\n", s.Version, s.At)
	}
	return os.WriteFile(path, b, 0o600)
}

// ReadStamps reads the stamps that a program wrote.
func ReadStamps(path string) ([]Stamp, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Stamp
	for line := range strings.Lines(string(content)) {
		var s Stamp
		if _, err := fmt.Sscan(line, &s.Version, &s.At); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// Now returns the time for a stamp.
func Now() time.Duration { return clock.Now() }
