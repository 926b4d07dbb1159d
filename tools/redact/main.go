// Command redact prints Kubernetes objects as the receiver would emit them, and which rule masked what.
//
//	redact < object.yaml
//	kubectl get configmap x -o yaml | redact -configmaps scan
//
// It reads one or more objects as YAML or JSON from standard input. It prints the redacted objects to standard output
// as YAML, and a line for each masked value to standard error.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "redact:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out, log io.Writer) error {
	flags := flag.NewFlagSet("redact", flag.ContinueOnError)
	flags.SetOutput(log)
	configMaps := flags.String("configmaps", "fingerprint", "`mode` of redaction.configmaps: fingerprint, scan or keep")
	environment := flags.String("environment", "redact", "`mode` of redaction.environment: redact or scan")
	maskKeys := flags.String("mask-keys", "", "`entries` of redaction.mask_keys, with commas between")
	resource := flags.String("resource", "", "plural name and API group of the `resource` (deployments.apps); by default it is derived from the kind")
	keep := flags.String("keep", "", "`paths` of a redaction.keep entry for these objects, with commas between")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o := redact.Options{}
	switch *configMaps {
	case "fingerprint":
	case "scan":
		o.ConfigMaps = redact.ConfigMapScan
	case "keep":
		o.ConfigMaps = redact.ConfigMapKeep
	default:
		return fmt.Errorf("-configmaps: %q is not one of fingerprint, scan, keep", *configMaps)
	}
	switch *environment {
	case "redact":
	case "scan":
		o.Environment = redact.EnvironmentScan
	default:
		return fmt.Errorf("-environment: %q is not one of redact, scan", *environment)
	}
	o.MaskKeys = list(*maskKeys)
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("cannot read the objects: %w", err)
	}
	for _, document := range documents(text) {
		object, err := yaml.YAMLToJSON(document)
		if err != nil {
			return fmt.Errorf("cannot read an object: %w", err)
		}
		if string(object) == "null" {
			continue
		}
		if err := printRedacted(object, *resource, list(*keep), o, out, log); err != nil {
			return err
		}
	}
	return nil
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// documents splits a stream of YAML at its separators.
func documents(text []byte) (all [][]byte) {
	for _, part := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		if len(bytes.TrimSpace(part)) > 0 {
			all = append(all, part)
		}
	}
	return all
}

func printRedacted(object []byte, resource string, keep []string, o redact.Options, out, log io.Writer) error {
	var what struct{ APIVersion, Kind string }
	if err := json.Unmarshal(object, &what); err != nil {
		return fmt.Errorf("cannot read an object: %w", err)
	}
	plural, group, _ := strings.Cut(resource, ".")
	if resource == "" {
		plural, group = guess(what.APIVersion, what.Kind)
	}
	if len(keep) > 0 {
		o.Keep = []redact.Keep{{Group: group, Resource: plural, Paths: keep}}
	}
	redacted, redactions, err := redact.NewPolicy(o).Plan(group, plural, nil).Explain(object)
	if err != nil {
		return err
	}
	seen, err := yaml.JSONToYAML([]byte(redacted.JSON))
	if err != nil {
		return fmt.Errorf("cannot print an object: %w", err)
	}
	fmt.Fprintf(out, "---\n%s", seen)
	if redacted.RedactionFailed {
		fmt.Fprintln(log, "the object cannot be processed: only its identity would be emitted")
	}
	for _, r := range redactions {
		fmt.Fprintf(log, "%-14s %s\n", r.Rule, r.Path)
	}
	return nil
}

// guess returns the resource of a kind, which matters only for Secrets, ConfigMaps and Events.
func guess(apiVersion, kind string) (plural, group string) {
	if i := strings.IndexByte(apiVersion, '/'); i >= 0 {
		group = apiVersion[:i]
	}
	return strings.ToLower(kind) + "s", group
}
