// Command bench measures the receiver and its peers, and writes tables, plots and the individual results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/runner"
)

func main() {
	var o runner.Options
	flag.StringVar(&o.Binaries, "binaries", "bin/bench", "folder of the small measured programs")
	flag.StringVar(&o.Collector, "collector", "bin/otelcol-watchlist", "the Collector with this receiver")
	flag.StringVar(&o.Before, "before", "", "another Collector with this receiver, for the scenario of that name")
	flag.StringVar(&o.Peer, "peer", "bin/otelcol-peer", "the Collector with k8sobjects")
	flag.BoolVar(&o.Quick, "quick", false, "fewer objects, shorter, each once: to check that everything works")
	flag.StringVar(&o.Profiles, "profiles", "", "folder for CPU profiles of floor, reflector and receiver, which slow them down")
	flag.IntVar(&o.Runs, "runs", 3, "how often short measurements are repeated")
	flag.StringVar(&o.ControlPlane, "control-plane", os.Getenv("KUBEBUILDER_ASSETS"), "folder of etcd and kube-apiserver, for -server real")
	server := flag.String("server", "both", "replay, real (a kube-apiserver) or both")
	pods := flag.String("pods", "", "numbers of pods on a real API server, ascending, separated by commas (default 20000,50000, or 2000 if -quick)")
	scenarios := flag.String("only", "", "scenarios, separated by commas, of "+strings.Join(runner.Scenarios, ", "))
	output := outputs{target: "bench", page: "performance-figures.md"}
	flag.StringVar(&output.json, "json", "bin/bench/results.json", "file for the individual results")
	flag.StringVar(&output.docs, "docs", "", "folder of the documentation; only a complete run, or one of the scenario gateway alone, not -quick, writes there")
	flag.Parse()
	if *scenarios != "" {
		o.Scenarios = strings.Split(*scenarios, ",")
		for _, name := range o.Scenarios {
			if !slices.Contains(runner.Scenarios, name) {
				fail(fmt.Errorf("there is no scenario %s", name))
			}
		}
	}
	if slices.Contains(o.Scenarios, "before") && o.Before == "" {
		fail(errors.New("the scenario before needs the other Collector: -before=FILE"))
	}
	if o.Scenarios == nil && *server == "replay" {
		o.Scenarios = slices.DeleteFunc(slices.Clone(runner.Scenarios), func(name string) bool { return name == "real" })
	} else if *server == "real" {
		o.Scenarios = []string{"real"}
	}
	if *pods == "" {
		*pods = "20000,50000"
		if o.Quick {
			*pods = "2000"
		}
	}
	for number := range strings.SplitSeq(*pods, ",") {
		n, err := strconv.Atoi(number)
		if err != nil {
			fail(fmt.Errorf("-pods: %s is not a number", number))
		}
		o.Real = append(o.Real, n)
	}
	switch {
	case o.Quick:
		output.docs = ""
	case slices.Equal(o.Scenarios, []string{"gateway"}):
		output.target, output.page = "measure-gateway", "gateway-figures.md"
	case o.Scenarios != nil:
		output.docs = ""
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o, output)
	stop()
	fail(err)
}

type outputs struct {
	json, docs   string
	target, page string // of make, and its page of the documentation
}

func run(ctx context.Context, o runner.Options, output outputs) error {
	s, err := runner.NewSession(o)
	if err != nil {
		return err
	}
	failed := errors.Join(s.Run(ctx), s.Close())
	if failed != nil {
		output.docs = "" // an incomplete measurement must not replace the page
	}
	s.Results.Target, s.Results.Flags = output.target, commandLine(output.target)
	tables := s.Results.Markdown()
	fmt.Println(tables)
	folder := filepath.Dir(output.json)
	figures, plots := filepath.Join(folder, "figures.md"), folder
	if output.docs != "" {
		figures, plots = filepath.Join(output.docs, output.page), filepath.Join(output.docs, "img")
	}
	if err := os.MkdirAll(plots, 0o755); err != nil { //nolint:gosec // anyone may read it
		return errors.Join(failed, err)
	}
	return errors.Join(
		failed,
		s.Results.WriteJSON(output.json),
		os.WriteFile(figures, []byte(tables), 0o644), //nolint:gosec // anyone may read it
		s.Results.WritePlots(plots),
	)
}

// commandLine returns the flags of this run as given to make, whose target may imply some.
func commandLine(target string) string {
	var said []string
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "only", "server":
			if target != "bench" {
				return
			}
			fallthrough
		case "before", "quick", "runs", "pods":
			said = append(said, "-"+f.Name+"="+f.Value.String())
		}
	})
	if len(said) == 0 {
		return ""
	}
	return " BENCH_FLAGS='" + strings.Join(said, " ") + "'"
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
