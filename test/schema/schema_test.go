// Package schema tests config.schema.json, by which editors check configurations, with configurations.
package schema

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// ofReceiver and ofCollector are the schemas of a receiver's part and of a whole configuration.
const (
	ofReceiver  = root + "/config.schema.json"
	ofCollector = root + "/examples/collector.schema.json"
)

func compile(t *testing.T, path string) *jsonschema.Schema {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := jsonschema.NewCompiler().Compile(absolute)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// validate returns how a YAML text differs from the schema.
func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(converted))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func files(t *testing.T, pattern string, atLeast int) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(paths) < atLeast {
		t.Fatalf("%d files are %s: %v", len(paths), pattern, err)
	}
	texts := make(map[string][]byte)
	for _, path := range paths {
		if texts[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// What the receiver accepts, editors accept.
func TestGoodConfigs(t *testing.T) {
	t.Parallel()
	schema := compile(t, ofReceiver)
	for path, text := range files(t, "testdata/config/good/*.yaml", 8) {
		if err := validate(t, schema, text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	inserted := "{resources: ['${env:RESOURCE}'], kube_api_qps: '${env:QPS}', relist: {interval: '${env:INTERVAL}', emit: '${env:EMIT}'}, pod_ip: '${env:IP}'}"
	if err := validate(t, schema, []byte(inserted)); err != nil {
		t.Errorf("values that are inserted: %v", err)
	}
}

// Typing errors, wrong values and what is missing are marked in editors. The rest is found when the configuration is loaded.
func TestBadConfigs(t *testing.T) {
	t.Parallel()
	schema := compile(t, ofReceiver)
	for _, name := range []string{
		"body", "durations_without_unit", "entities_unknown_key", "events_unknown_key", "format", "keys_of_k8s_objects", "name_missing",
		"relist_without_unit", "resources_missing", "unknown_key", "wrong_type",
	} {
		for path, text := range files(t, "testdata/config/bad/"+name+".yaml", 1) {
			if validate(t, schema, text) == nil {
				t.Errorf("%s is valid", path)
			}
		}
	}
}

// complete gives a receiver resources, which documents leave out if they are not the subject.
func complete(t *testing.T, block []byte) []byte {
	t.Helper()
	var config struct {
		Receivers map[string]map[string]any `json:"receivers"`
	}
	if err := yaml.Unmarshal(block, &config); err != nil {
		t.Fatalf("%v in\n%s", err, block)
	}
	for name, receiver := range config.Receivers {
		if _, ok := receiver["resources"]; !ok && strings.HasPrefix(name, "k8s_watchlist") {
			receiver["resources"] = []any{"pods"}
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every configuration of a Collector in the repository is valid.
func TestExamples(t *testing.T) {
	t.Parallel()
	schema := compile(t, ofCollector)
	for path, text := range files(t, "examples/*.yaml", 2) {
		if err := validate(t, schema, text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	n := 0
	documents := files(t, "docs/*.md", 5)
	for path, text := range files(t, "README.md", 1) {
		documents[path] = text
	}
	for path, text := range documents {
		for _, block := range blocks.FindAllSubmatch(text, -1) {
			if !strings.Contains(string(block[1]), "k8s_watchlist:") {
				continue
			}
			n++
			if err := validate(t, schema, complete(t, block[1])); err != nil {
				t.Errorf("%s: %v in\n%s", path, err, block[1])
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d configurations are in the documents", n)
	}
	if err := validate(t, schema, []byte("receivers: {k8s_watchlist/two: {resource: [pods]}, otlp: {x: y}}")); err == nil {
		t.Error("an unknown key in a whole configuration is valid")
	}
}
