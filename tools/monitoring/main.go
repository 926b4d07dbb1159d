// The command monitoring has two uses. write makes the Prometheus rules and the Grafana dashboard for the receiver's own
// metrics, from the definitions in this package and the metrics in metadata.yaml. alerts evaluates these rules over what an
// endpoint of a Collector has returned, and prints which alerts fire. The second argument is the repository's folder.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "write" && os.Args[1] != "alerts" {
		fmt.Fprintln(os.Stderr, "usage: monitoring write FOLDER\n       monitoring alerts FOLDER < PAGES")
		os.Exit(2)
	}
	var err error
	if os.Args[1] == "write" {
		err = run(os.Args[2], false)
	} else {
		err = printAlerts(context.Background(), os.Args[2], os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// printAlerts evaluates deploy/prometheus/rules.yaml over pages: see readPages and Replay. After each page it prints a line
// with what has fired so far, as JSON.
func printAlerts(ctx context.Context, root string, from io.Reader, to io.Writer) (err error) {
	metrics, err := ReadMetrics(filepath.Join(root, "metadata.yaml"))
	if err != nil {
		return err
	}
	rules, err := os.ReadFile(filepath.Join(root, "deploy/prometheus/rules.yaml"))
	if err != nil {
		return err
	}
	replay, err := NewReplay(rules, metrics, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, replay.Close()) }()
	out := json.NewEncoder(to)
	return readPages(from, func(p page) error {
		if err := replay.Add(ctx, p); err != nil {
			return err
		}
		return out.Encode(replay.Notices())
	})
}

// run writes the files, or fails if they are not up to date.
func run(root string, check bool) error {
	metrics, err := ReadMetrics(filepath.Join(root, "metadata.yaml"))
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, spelling := range Spellings {
		rules, err := Rules(metrics, spelling)
		if err != nil {
			return err
		}
		dashboard, err := Dashboard(metrics, spelling)
		if err != nil {
			return err
		}
		files["deploy/prometheus/rules"+spelling.Suffix()+".yaml"] = rules
		files["deploy/grafana/dashboard"+spelling.Suffix()+".json"] = dashboard
	}
	var errs []error
	for _, path := range slices.Sorted(keys(files)) {
		errs = append(errs, write(filepath.Join(root, path), files[path], check))
	}
	return errors.Join(errs...)
}

func write(path string, content []byte, check bool) error {
	if check {
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, content) {
			return fmt.Errorf("%s is not up to date: run make monitoring", path)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
