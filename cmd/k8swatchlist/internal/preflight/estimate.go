package preflight

import (
	"fmt"
	"math"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
)

// What a resource costs, according to docs/performance-figures.md. "What the initial state costs a real kube-apiserver"
// has 50,000 pods in a stream of 395 MB: 5.76 s of CPU time of the Collector with body map, 4.53 s with body json, and
// 11.23 s of kube-apiserver. "Memory per object" has the bytes of the inventory.
const (
	streamGB             = 0.395
	collectorSecondsMap  = 5.76 / streamGB
	collectorSecondsJSON = 4.53 / streamGB
	serverSeconds        = 11.23 / streamGB
	inventoryBytes       = 105
	streamsOnConnection  = 100 // that kube-apiserver allows, as in "Many resources" of docs/performance.md
)

// manyObjects of one resource are worth a warning.
const manyObjects = 100_000

// Estimate is about what reading costs.
type Estimate struct {
	Streams     int   `json:"streams"`
	Connections int   `json:"connections"`
	Objects     int64 `json:"objects"`
	// Complete is false if some objects could not be counted or measured, so that everything is more.
	Complete bool `json:"complete"`
	// InventoryBytes is the memory for what is known of the objects, and DiffBytes the most that diffs may take in addition.
	InventoryBytes int64 `json:"inventory_bytes"`
	DiffBytes      int64 `json:"diff_bytes,omitempty"`
	// InitialBytes are those of the objects as JSON, which the first start reads.
	InitialBytes int64 `json:"initial_bytes"`
	// CPU time of the first start, in seconds on one core.
	CollectorCPU float64 `json:"collector_cpu_seconds"`
	ServerCPU    float64 `json:"server_cpu_seconds"`
}

func estimate(r *Report, config *k8swatchlistreceiver.Config, followsDefinitions bool) Estimate {
	e := Estimate{Complete: true}
	if followsDefinitions {
		e.Streams += 2 // of CRDs and of APIServices
	}
	for _, resource := range r.Resources {
		e.Streams += resource.Streams
		if resource.Streams == 0 {
			continue
		}
		if resource.Objects != nil {
			e.Objects += *resource.Objects
		}
		if resource.Bytes != nil {
			e.InitialBytes += *resource.Bytes
		}
		e.Complete = e.Complete && resource.Objects != nil && resource.Bytes != nil && !resource.More
	}
	e.Connections = int(math.Ceil(float64(e.Streams) / streamsOnConnection))
	e.InventoryBytes = e.Objects * inventoryBytes
	for _, entry := range config.Resources {
		if entry.Diff {
			e.DiffBytes = int64(config.DiffMaxBytes)
		}
	}
	perGB := collectorSecondsMap
	if config.Body == "json" {
		perGB = collectorSecondsJSON
	}
	e.CollectorCPU = perGB * float64(e.InitialBytes) / 1e9
	e.ServerCPU = serverSeconds * float64(e.InitialBytes) / 1e9
	return e
}

// warnAboutCost warns of resources with very many objects.
func (c *check) warnAboutCost() {
	for _, r := range c.Resources {
		if r.Objects == nil || *r.Objects < manyObjects {
			continue
		}
		text := fmt.Sprintf("%s has %s objects", r.Resource, Thousands(*r.Objects))
		if r.Bytes != nil {
			gb := float64(*r.Bytes) / 1e9
			text += fmt.Sprintf(": expect about %.0f CPU seconds here and %.0f in kube-apiserver at the first start", collectorSecondsMap*gb, serverSeconds*gb)
		}
		c.warn("%s", text)
	}
}

// Thousands returns a number with separators.
func Thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
