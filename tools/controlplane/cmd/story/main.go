// Command story tells a rollout by the summaries of its records. It runs a control plane with a real
// kube-controller-manager and kube-scheduler and nodes of kwok, and a Collector. It creates a Deployment, gives it a new image,
// scales it and deletes it, and prints what the Collector has emitted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/controllers"
)

const (
	// atMost is how long the whole story may take.
	atMost = 10 * time.Minute
	// collectorGrace is how long the Collector may take to deliver what it has read.
	collectorGrace = 30 * time.Second
)

func main() {
	collector := flag.String("collector", "", "the collector's binary")
	config := flag.String("config", "", "the collector's configuration file")
	binaries := flag.String("binaries", "", "the folder with etcd and kube-apiserver (default $KUBEBUILDER_ASSETS)")
	programs := flag.String("controllers", "", "the folder with kube-controller-manager, kube-scheduler and kwok")
	page := flag.String("page", "", "also write the story into this page, between its marks")
	flag.Parse()
	if *collector == "" || *config == "" || *programs == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: story -collector FILE -config FILE -controllers FOLDER [flags]")
		flag.PrintDefaults()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithTimeout(ctx, atMost)
	text, err := tell(ctx, *collector, *config, *binaries, *programs)
	cancel()
	stop()
	if err == nil {
		fmt.Print(text)
	}
	if err == nil && *page != "" {
		err = writePage(*page, text)
	}
	if err != nil {
		say("%v", err)
		os.Exit(1)
	}
}

// tell makes the story happen and returns its text. Everything that it has started is stopped when it returns.
func tell(ctx context.Context, collector, config, binaries, programs string) (text string, err error) {
	say("starting etcd and kube-apiserver ...")
	plane, err := controlplane.Start(ctx, controlplane.Options{Binaries: binaries})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()

	say("starting kube-controller-manager, kube-scheduler and kwok ...")
	cluster, err := controllers.Start(ctx, programs, plane.Kubeconfig())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()

	folder, err := os.MkdirTemp("", "story-")
	if err != nil {
		return "", fmt.Errorf("cannot create the folder of the collector's file: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "records.json")

	rollout, err := newRollout(plane.RESTConfig())
	if err != nil {
		return "", err
	}
	defer rollout.close()
	if err := rollout.prepare(ctx); err != nil {
		return "", errors.Join(err, cluster.Err())
	}

	say("starting the collector: %s --config %s", collector, config)
	cmd := exec.Command(collector, "--config", config)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig(), "STORY_FILE="+file)
	process, err := child.Start(cmd, os.Stderr)
	if err != nil {
		return "", err
	}
	defer func() {
		if process.Running() {
			err = errors.Join(err, process.Kill())
		}
	}()
	if err := await(ctx, "the collector to have read the initial state", func() (string, error) {
		records, err := readRecords(file)
		return records.missingSnapshots(), err
	}); err != nil {
		return "", errors.Join(err, process.Err())
	}

	chapters, err := rollout.happen(ctx)
	if err != nil {
		return "", errors.Join(err, cluster.Err())
	}
	if err := await(ctx, "the collector to have emitted everything", func() (string, error) {
		records, err := readRecords(file)
		if err != nil {
			return "", err
		}
		return rollout.missing(ctx, records)
	}); err != nil {
		return "", err
	}
	grace, cancel := context.WithTimeout(context.Background(), collectorGrace)
	defer cancel()
	if err := process.Stop(grace, syscall.SIGINT); err != nil {
		return "", fmt.Errorf("the collector did not stop cleanly: %w", err)
	}
	records, err := readRecords(file)
	if err != nil {
		return "", err
	}
	return render(records, chapters), nil
}

// pollInterval is how often a condition is looked at.
const pollInterval = 100 * time.Millisecond

// await waits until look finds nothing that is missing. An error of look ends it.
func await(ctx context.Context, what string, look func() (missing string, err error)) error {
	for {
		missing, err := look()
		if err != nil {
			return fmt.Errorf("cannot wait for %s: %w", what, err)
		}
		if missing == "" {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for %s: %w: %s", what, ctx.Err(), missing)
		}
	}
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[story] "+format+"\n", args...)
}
