package redact

import (
	"bytes"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
)

func realObject(tb testing.TB, file string) []byte {
	tb.Helper()
	data, err := os.ReadFile("testdata/objects/" + file)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

var benchmarkObjects = []struct{ file, group, resource string }{
	{"pod.json", "", "pods"},
	{"deployment.json", "apps", "deployments"},
	{"node.json", "", "nodes"},
	{"secret.json", "", "secrets"},
	{"event-core.json", "", "events"},
	{"rollout.json", "argoproj.io", "rollouts"},
}

func BenchmarkDecode(b *testing.B) {
	for _, o := range benchmarkObjects {
		b.Run(o.file, func(b *testing.B) {
			data, plan := realObject(b, o.file), NewPlan(o.group, o.resource)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := plan.Decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What dropping saves, and what following paths costs that name nothing.
func BenchmarkDecodeWithFields(b *testing.B) {
	for _, fields := range []struct {
		name string
		Fields
	}{
		{"all", Fields{}},
		{"none-of-these", Fields{Drop: []string{"spec.containers.*.notes", "status.notes", "metadata.annotations.example.com/notes"}}},
		{"without-status", Fields{Drop: []string{"status"}}},
		{"without-spec-and-status", Fields{Drop: []string{"spec", "status"}}},
		{"only-images-and-phase", Fields{Keep: []string{"spec.containers.*.image", "status.phase"}}},
	} {
		b.Run(fields.name, func(b *testing.B) {
			data, plan := realObject(b, "pod.json"), NewPlan("", "pods").WithFields(fields.Fields)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := plan.Decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkContent measures what decoding spends on the hashes of the content and its sections, and the comparison with
// those of another version. What it costs to note where the members are is not part of it.
func BenchmarkContent(b *testing.B) {
	for _, o := range benchmarkObjects {
		b.Run(o.file, func(b *testing.B) {
			data, plan := realObject(b, o.file), NewPlan(o.group, o.resource)
			w := &walk{plan: plan, data: data}
			w.scanner.keys = plan.keys
			object, end, err := w.decode()
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				content := w.content(0, end)
				if changed := plan.Changed(&object.Content, &content); !changed.IsEmpty() {
					b.Fatalf("the same object has changed: %q", changed.Names())
				}
			}
		})
	}
}

// Decoding the same object repeatedly trains the branch predictor; many different objects are more like a stream.
func BenchmarkDecodeMixed(b *testing.B) {
	var data [][]byte
	var size int
	for seed := range 200 {
		data = append(data, varied(realObject(b, "pod.json"), seed))
		size += len(data[seed])
	}
	plan := NewPlan("", "pods")
	b.SetBytes(int64(size / len(data)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, _, err := plan.Decode(data[i%len(data)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

var wordStart = regexp.MustCompile(`(:"|"f:)[a-z]`)

// varied changes the lengths of an object's words.
func varied(data []byte, seed int) []byte {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	return wordStart.ReplaceAllFunc(data, func(start []byte) []byte {
		return append(bytes.Clone(start), "abcdefghijkl"[:r.IntN(12)]...)
	})
}

func BenchmarkIdentify(b *testing.B) {
	for _, o := range benchmarkObjects {
		data, plan := realObject(b, o.file), NewPlan(o.group, o.resource)
		b.Run(o.file, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plan.Identify(data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(o.file+"/bytes", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plan.IdentifyBytes(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// realObjects returns the files of objects as the API server writes them.
func realObjects(tb testing.TB) (files []string) {
	tb.Helper()
	entries, err := os.ReadDir("testdata/objects")
	if err != nil {
		tb.Fatal(err)
	}
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	return files
}
