// Command run demonstrates the receiver: it starts a Collector for the cluster of KUBECONFIG or, if that is not set,
// for a control plane of its own with a sample workload that keeps changing. It stops everything that it started on
// Ctrl-C or SIGTERM.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/victorialogs"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/workload"
)

// collectorGrace is how long the Collector may take to deliver what it has read.
const collectorGrace = 30 * time.Second

func main() {
	var s session
	flag.StringVar(&s.collector, "collector", "", "the collector's binary")
	flag.StringVar(&s.config, "config", "", "the collector's configuration file")
	flag.StringVar(&s.victoriaLogs, "victorialogs", "", "the binary of VictoriaLogs, if the configuration sends records to it")
	flag.StringVar(&s.namespace, "namespace", "", "the namespace to ask VictoriaLogs about (default shop, or default with KUBECONFIG)")
	flag.StringVar(&s.picture, "picture", "", "write a picture of VictoriaLogs' page about the sample workload to this file, and end")
	flag.StringVar(&s.binaries, "binaries", "", "the folder with etcd and kube-apiserver (default $KUBEBUILDER_ASSETS)")
	flag.DurationVar(&s.pace, "pace", workload.DefaultPace, "the time between two changes of the sample workload")
	duration := flag.Duration("duration", 0, "end after this time (default: at Ctrl-C)")
	flag.Parse()
	if s.collector == "" || s.config == "" || s.picture != "" && s.victoriaLogs == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: run -collector FILE -config FILE [flags]")
		flag.PrintDefaults()
		os.Exit(2)
	}

	// make waits for us in our process group, and Ctrl-C would end it with an error even if we end cleanly.
	giveBack := takeForeground()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if *duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *duration)
		defer cancel()
	}
	err := s.run(ctx)
	stop()
	giveBack()
	if err != nil {
		say("%v", err)
		os.Exit(1)
	}
	say("everything is stopped")
}

// session is one run.
type session struct {
	collector, config, binaries string
	victoriaLogs, namespace     string
	picture                     string
	pace                        time.Duration
}

// run returns nil if ctx ended it and everything stopped cleanly.
func (s session) run(ctx context.Context) (err error) {
	var store *victorialogs.Server
	if s.victoriaLogs != "" {
		say("starting VictoriaLogs ...")
		if store, err = victorialogs.Start(ctx, s.victoriaLogs); err != nil {
			return unlessEnded(ctx, err)
		}
		defer func() {
			say("stopping VictoriaLogs ...")
			err = errors.Join(err, store.Close())
		}()
	}
	if kubeconfig := os.Getenv("KUBECONFIG"); kubeconfig != "" {
		say("the cluster is the one of KUBECONFIG=%s", kubeconfig)
		if store != nil {
			showQuestions(store, cmp.Or(s.namespace, "default"))
		}
		return s.collect(ctx, kubeconfig, store)
	}

	say("starting etcd and kube-apiserver ...")
	began := time.Now()
	plane, err := controlplane.Start(ctx, controlplane.Options{Binaries: s.binaries})
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer func() {
		say("stopping the control plane ...")
		err = errors.Join(err, plane.Stop())
	}()
	say("kube-apiserver is ready after %.1fs", time.Since(began).Seconds())
	say("its kubeconfig file is %[1]s; with your own kubectl, in another terminal: KUBECONFIG=%[1]s kubectl get pods -A -w", plane.Kubeconfig())

	load, err := workload.New(plane.RESTConfig(), func(format string, args ...any) { say("workload: "+format, args...) })
	if err != nil {
		return err
	}
	defer load.Close()
	load.Pace = s.pace
	say("applying the sample workload ...")
	if err := load.Apply(ctx); err != nil {
		return unlessEnded(ctx, err)
	}

	// Existing objects are the initial state; changes from here on are live. The workload continues until the Collector
	// has stopped.
	working, rest := context.WithCancel(context.WithoutCancel(ctx))
	collecting, end := context.WithCancel(ctx)
	var worker, asker sync.WaitGroup
	var pictureErr error // valid after asker
	firstRound := make(chan struct{})
	worker.Go(func() {
		load.Round(working)
		close(firstRound)
		load.Run(working)
	})
	defer func() {
		say("stopping the workload ...")
		rest()
		worker.Wait()
	}()
	if store != nil {
		asker.Go(func() {
			select {
			case <-firstRound:
			case <-collecting.Done():
				return
			}
			namespace := cmp.Or(s.namespace, workload.Namespace)
			if answerQuestions(collecting, store, namespace) && s.picture != "" {
				pictureErr = takePicture(collecting, store, namespace, s.picture)
				end()
			}
		})
	}
	defer func() {
		end()
		asker.Wait()
		err = errors.Join(err, pictureErr)
	}()
	return s.collect(collecting, plane.Kubeconfig(), store)
}

// collect runs the Collector until ctx ends. It is an error if the Collector ends earlier.
func (s session) collect(ctx context.Context, kubeconfig string, store *victorialogs.Server) error {
	say("starting the collector: %s --config %s", s.collector, s.config)
	cmd := exec.Command(s.collector, "--config", s.config)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var storeEnded <-chan struct{} // nil without a store
	if store != nil {
		cmd.Env = append(cmd.Env, victorialogs.AddressVariable+"="+store.URL())
		storeEnded = store.Done()
	}
	collector, err := child.Start(cmd, os.Stdout)
	if err != nil {
		return err
	}
	select {
	case <-collector.Done():
		return fmt.Errorf("the collector ended unexpectedly: %s", cmd.ProcessState)
	case <-storeEnded:
		err = errors.New("VictoriaLogs ended unexpectedly")
	case <-ctx.Done():
	}

	say("stopping the collector ...")
	grace, cancel := context.WithTimeout(context.Background(), collectorGrace)
	defer cancel()
	if stopped := collector.Stop(grace, syscall.SIGINT); stopped != nil {
		if grace.Err() != nil {
			return errors.Join(err, fmt.Errorf("the collector did not stop within %v and was killed", collectorGrace))
		}
		return errors.Join(err, fmt.Errorf("the collector did not stop cleanly: %w", stopped))
	}
	return err
}

// unlessEnded drops the error of work that was interrupted on purpose.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[run] "+format+"\n", args...)
}
