// Package testobjects provides tests with an object of every kind in k8s.io/api, with secrets planted in it, in every
// form in which an object may be encoded. Only tests import it.
//
// The objects were not captured from a cluster: they are the compatibility test data of k8s.io/api, in which every
// field of a kind is filled with a value derived from its name. So they cover the whole shape of each kind, more than
// any real object has at once, but their values are not realistic. The kinds of apiextensions.k8s.io and
// apiregistration.k8s.io live in other modules and are not among them.
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

// Object is one of them, as a server would encode it, except for the planted secrets.
type Object struct {
	schema.GroupVersionKind
	Resource string // plural name
	JSON     []byte
	Planted  []Planted

	tree members
}

// Name returns the group, version and kind in one word, as in the name of the object's file in k8s.io/api.
func (o Object) Name() string {
	group := o.Group
	if group == "" {
		group = "core"
	}
	return group + "." + o.Version + "." + o.Kind
}

// fewest is the minimum number of kinds: versions of Kubernetes add some and rarely remove one.
const fewest = 180

// indispensable lists kinds whose absence would mean that the wrong files were read.
var indispensable = []string{
	"core.v1.Pod", "core.v1.Secret", "core.v1.ConfigMap", "core.v1.Node", "core.v1.Service", "core.v1.Namespace",
	"core.v1.Event", "events.k8s.io.v1.Event", "apps.v1.Deployment", "apps.v1.ReplicaSet", "apps.v1.StatefulSet",
	"apps.v1.DaemonSet", "batch.v1.Job", "batch.v1.CronJob", "coordination.k8s.io.v1.Lease",
	"discovery.k8s.io.v1.EndpointSlice", "networking.k8s.io.v1.Ingress", "rbac.authorization.k8s.io.v1.ClusterRole",
	"resource.k8s.io.v1.ResourceSlice",
}

// All returns an object of every kind, in the order of their names. It fails the test if there are none, or few.
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

// folder returns the test data folder of the module k8s.io/api, in the version that client-go needs. The module is
// downloaded if necessary, since the receiver does not compile all of it in; go.sum verifies it.
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
