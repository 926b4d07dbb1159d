// The command monitoring writes the Prometheus rules and the Grafana dashboard for the receiver's own metrics, from the
// definitions in this package and the metrics in metadata.yaml, into the repository whose folder is its argument.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: monitoring FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
