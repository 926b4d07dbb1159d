package runner

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/library"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// access is the address and credentials of an API server.
type access struct {
	kubeconfig, server, ca, certificate, key string
}

// setup is the task of a contender.
type setup struct {
	access
	resources []string // paths
	gzip      bool
	metadata  bool   // floor only
	json      bool   // floor only: metadata as JSON
	stamps    string // file
	otlp      string // address of a sink; "": none
	encoding  string // of what is sent to it: gzip; "": none
	queue     bool   // the exporter has its default queue instead of none
	batch     string // our receiver's batch settings, as YAML
	relist    string // our receiver's interval, and the peer's
	storage   string // our receiver's folder
	telemetry string // level of the Collector's own metrics; "": normal
	elects    bool   // our receiver is one of several replicas
	shard     string // our receiver's shard, as YAML
}

// contenderKind is a kind of contender.
type contenderKind struct {
	name  string
	start func(s *Session, of setup) (*process, error)
	// collector: its own metrics count its records; otherwise its final output does.
	collector bool
	// silent: it does not emit existing objects.
	silent bool
}

var (
	theFloor   = contenderKind{name: "floor: read frames, count", start: small("floor")}
	reflector  = contenderKind{name: "client-go reflector", start: small("reflector")}
	ourLibrary = contenderKind{name: "k8s_watchlist, no Collector", start: small("receiver")}
	oursMap    = contenderKind{name: "k8s_watchlist, body map", start: ours("map", now), collector: true}
	oursJSON   = contenderKind{name: "k8s_watchlist, body json", start: ours("json", now), collector: true}
	peerPull   = contenderKind{name: "k8sobjects, pull", start: peer("pull"), collector: true}
	peerWatch  = contenderKind{name: "k8sobjects, watch", start: peer("watch"), collector: true, silent: true}
	toOTLP     = " to OTLP"
	oursOTLP   = contenderKind{name: oursMap.name + "," + toOTLP, start: oursMap.start, collector: true}
	peerOTLP   = contenderKind{name: peerPull.name + "," + toOTLP, start: peerPull.start, collector: true}
)

// small starts one of the small programs.
func small(program string) func(*Session, setup) (*process, error) {
	return func(s *Session, of setup) (*process, error) {
		args := []string{"-kubeconfig", of.kubeconfig, "-server", of.server, "-ca", of.ca, "-certificate", of.certificate, "-key", of.key,
			"-resources", strings.Join(of.resources, ","), "-stamps", of.stamps,
			fmt.Sprintf("-gzip=%t", of.gzip), fmt.Sprintf("-metadata=%t", of.metadata), fmt.Sprintf("-json=%t", of.json),
			fmt.Sprintf("-smallest-batch=%t", of.batch != "")}
		if s.Profiles != "" {
			args = append(args, "-profile", filepath.Join(s.Profiles, program+".pprof"))
		}
		return startProcess(exec.Command(s.binary(program), args...), "")
	}
}

// now and before return the Collector with our receiver that is measured.
func now(s *Session) string    { return s.Collector }
func before(s *Session) string { return s.Before }

func ours(body string, collector func(*Session) string) func(*Session, setup) (*process, error) {
	return func(s *Session, of setup) (*process, error) {
		var names []string
		for _, path := range of.resources {
			names = append(names, "{name: "+library.Resource(path)+"}")
		}
		receiver := fmt.Sprintf(`
  k8s_watchlist:
    auth_type: kubeConfig
    kubeconfig: %s
    kube_api_qps: 1000
    kube_api_burst: 1000
    compression: %t
    body: %s
    resources: [%s]
`, of.kubeconfig, of.gzip, body, strings.Join(names, ", "))
		if of.batch != "" {
			receiver += "    batch: " + of.batch + "\n"
		}
		if of.relist != "" {
			receiver += "    relist: {interval: " + of.relist + ", rotate_interval: 0s}\n"
		}
		if of.telemetry == "detailed" {
			receiver += "    telemetry: {detailed: true}\n"
		}
		if of.elects {
			receiver += "    leader_election: {enabled: true, lease_name: watchlist, lease_namespace: bench}\n"
		}
		if of.shard != "" {
			receiver += "    shard: " + of.shard + "\n"
		}
		extensions := ""
		if of.storage != "" {
			receiver += "    storage: file_storage\n"
			extensions = "extensions: {file_storage: {directory: " + of.storage + "}}\n"
		}
		return s.startCollector(collector(s), "k8s_watchlist", receiver, extensions, of)
	}
}

func peer(mode string) func(*Session, setup) (*process, error) {
	return func(s *Session, of setup) (*process, error) {
		receiver := "\n  k8sobjects:\n    auth_type: kubeConfig\n    objects:\n"
		for _, path := range of.resources {
			name, group, _ := strings.Cut(library.Resource(path), ".")
			receiver += fmt.Sprintf("      - {name: %s, group: %q, mode: %s", name, group, mode)
			if mode == "pull" {
				interval := of.relist
				if interval == "" {
					interval = "24h"
				}
				receiver += ", interval: " + interval
			}
			receiver += "}\n"
		}
		return s.startCollector(s.Peer, "k8sobjects", receiver, "", of)
	}
}

// startCollector starts a Collector with a receiver in the default configuration, except for a short log.
func (s *Session) startCollector(binary, name, receiver, extensions string, of setup) (*process, error) {
	metrics, err := otelcol.FreeAddress()
	if err != nil {
		return nil, err
	}
	exporter, exporters := "nop", "{nop: }"
	if of.otlp != "" {
		exporter = "otlp_grpc"
		exporters = fmt.Sprintf("{%s: {endpoint: %q, tls: {insecure: true}, compression: %s, timeout: 120s, sending_queue: {enabled: %t}}}",
			exporter, of.otlp, cmp.Or(of.encoding, "none"), of.queue)
	}
	pull := otelcol.PullMetrics(metrics)
	switch of.telemetry {
	case "none":
		pull = "{level: none}"
	case "detailed":
		pull = strings.Replace(pull, "level: normal", "level: detailed", 1)
	}
	service := ""
	if extensions != "" {
		service = "  extensions: [file_storage]\n"
	}
	level := "warn"
	if of.elects {
		level = "info" // replicas log what they become
	}
	config := fmt.Sprintf("receivers:%sexporters: %s\n%sservice:\n%s"+`  pipelines:
    logs: {receivers: [%s], exporters: [%s]}
  telemetry:
    logs: {level: %s}
    metrics: %s
`, receiver, exporters, extensions, service, name, exporter, level, pull)
	s.started++ // several may run at once
	path := filepath.Join(s.folder, fmt.Sprintf("%s-%d.yaml", name, s.started))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	args := []string{"--config=" + path}
	if binary != s.Peer && of.relist != "" {
		args = append(args, "--feature-gates=receiver.k8swatchlist.shortRelist")
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+of.kubeconfig)
	return startProcess(cmd, metrics)
}
