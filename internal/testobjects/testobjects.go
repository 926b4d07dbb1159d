// Package testobjects gives tests an object of every kind that k8s.io/api knows, with secrets planted in it, in every
// form in which an object may be written. Only tests import it.
//
// The objects were not captured from a cluster: they are the test data by which k8s.io/api proves that its types stay
// compatible, in which every field of a kind is filled with a value that tells its name. So each kind's whole shape is
// there, and more of it than any real object has at once, but the values are not what a cluster has.
// The kinds of apiextensions.k8s.io and apiregistration.k8s.io live in other modules and are not among them.
package testobjects

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is one of them, as a server would write it but for what is planted in it.
type Object struct {
	schema.GroupVersionKind
	Resource string // its plural
	JSON     []byte
	Planted  []Planted

	tree members
}

// Name is the group, version and kind in one word, as k8s.io/api names the object's file.
func (o Object) Name() string {
	group := o.Group
	if group == "" {
		group = "core"
	}
	return group + "." + o.Version + "." + o.Kind
}

// fewest is how many kinds there are at least: versions of Kubernetes add some and seldom take one away.
const fewest = 180

// indispensable are kinds whose lack would mean that something else was read than was meant.
var indispensable = []string{
	"core.v1.Pod", "core.v1.Secret", "core.v1.ConfigMap", "core.v1.Node", "core.v1.Service", "core.v1.Namespace",
	"core.v1.Event", "events.k8s.io.v1.Event", "apps.v1.Deployment", "apps.v1.ReplicaSet", "apps.v1.StatefulSet",
	"apps.v1.DaemonSet", "batch.v1.Job", "batch.v1.CronJob", "coordination.k8s.io.v1.Lease",
	"discovery.k8s.io.v1.EndpointSlice", "networking.k8s.io.v1.Ingress", "rbac.authorization.k8s.io.v1.ClusterRole",
	"resource.k8s.io.v1.ResourceSlice",
}

// All returns an object of every kind, in the order of their names. It fails the test where there are none, or few.
func All(tb testing.TB) []Object {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(folder(tb), "*.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if len(files) < fewest {
		tb.Fatalf("%d files in k8s.io/api's test data, want at least %d", len(files), fewest)
	}
	var all []Object
	have := map[string]bool{}
	p := &planter{}
	for _, file := range files {
		o := read(tb, file, p)
		have[o.Name()] = true
		all = append(all, o)
	}
	for _, name := range indispensable {
		if !have[name] {
			tb.Fatalf("no %s in k8s.io/api's test data", name)
		}
	}
	return all
}

// folder is where the module k8s.io/api, in the version that client-go needs, has its test data. The module is
// downloaded if need be, since nothing of it is compiled into the receiver; go.sum says what it must be.
func folder(tb testing.TB) string {
	tb.Helper()
	download := exec.CommandContext(tb.Context(), "go", "mod", "download", "-json", "k8s.io/api")
	var problems strings.Builder
	download.Stderr = &problems
	out, err := download.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Dir == "" {
		tb.Fatalf("cannot find the module k8s.io/api: %v\n%s%s", err, problems.String(), out)
	}
	return filepath.Join(module.Dir, "testdata", "HEAD")
}

func read(tb testing.TB, file string, p *planter) Object {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	v, err := parse(json.NewDecoder(bytes.NewReader(data)))
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	o := Object{}
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	// The group has dots, the version and the kind have none.
	parts := strings.Split(name, ".")
	if n := len(parts); n > 2 {
		o.GroupVersionKind = schema.GroupVersionKind{Group: strings.Join(parts[:n-2], "."), Version: parts[n-2], Kind: parts[n-1]}
	}
	if o.Group == "core" {
		o.Group = ""
	}
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind)
	o.Resource = plural.Resource

	isObject := false
	if o.tree, isObject = v.(members); !isObject {
		tb.Fatalf("%s has no object", file)
	}
	if kind := o.tree.get("kind"); kind != nil && kind != o.Kind {
		tb.Fatalf("%s has an object of kind %v", file, kind)
	}
	o.Planted = p.plant(o.tree)
	o.JSON = style{}.append(nil, o.tree)
	return o
}
