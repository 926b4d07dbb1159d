// Package controllers makes a control plane work like a cluster, without containers: it runs a real
// kube-controller-manager and kube-scheduler, and kwok in the place of kubelets.
package controllers

import (
	"context"
	"crypto/tls"
	_ "embed" // the stages
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

// stages is what kwok does in the place of a kubelet.
//
//go:embed stages.yaml
var stages []byte

// running is what the kube-controller-manager runs. Nodes get their taints from the last one.
var running = []string{"deployment-controller", "replicaset-controller", "garbage-collector-controller", "node-lifecycle-controller"}

// stopGrace is how long a program may take to end.
const stopGrace = 5 * time.Second

// program is one of the programs.
type program struct {
	name   string
	health string // the URL that answers when it works
	args   []string
}

// Controllers are the running programs.
type Controllers struct {
	folder   string
	programs []program
	children []*child.Child // one for each program that was started
}

// Start starts the programs, which are in the folder binaries, for the cluster of the kubeconfig file, on free ports of
// loopback. ctx bounds only the start. Stop them.
func Start(ctx context.Context, binaries, kubeconfig string) (*Controllers, error) {
	folder, err := os.MkdirTemp("", "controllers-")
	if err != nil {
		return nil, fmt.Errorf("cannot create the folder of the controllers: %w", err)
	}
	c := &Controllers{folder: folder}
	if err := c.start(ctx, binaries, kubeconfig); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Controllers) start(ctx context.Context, binaries, kubeconfig string) error {
	file := filepath.Join(c.folder, "stages.yaml")
	if err := os.WriteFile(file, stages, 0o600); err != nil {
		return fmt.Errorf("cannot write the stages of kwok: %w", err)
	}
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = child.FreePort(); err != nil {
			return err
		}
	}
	kubernetes := func(port int, more ...string) []string {
		return append([]string{
			"--kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", port),
			"--cert-dir=" + c.folder,
			"--leader-elect=false",
		}, more...)
	}
	c.programs = []program{
		{"kube-controller-manager", fmt.Sprintf("https://127.0.0.1:%d/healthz", ports[0]),
			kubernetes(ports[0], "--controllers="+strings.Join(running, ","))},
		{"kube-scheduler", fmt.Sprintf("https://127.0.0.1:%d/healthz", ports[1]), kubernetes(ports[1])},
		{"kwok", fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[2]), []string{
			"--kubeconfig=" + kubeconfig,
			"--config=" + file,
			"--manage-all-nodes",
			"--node-ip=127.0.0.1",
			fmt.Sprintf("--server-address=127.0.0.1:%d", ports[2]),
			"--node-lease-duration-seconds=40", // as kubelets
		}},
	}
	for _, p := range c.programs {
		cmd := exec.Command(filepath.Join(binaries, p.name), p.args...)
		cmd.Env = append(os.Environ(), "HOME="+c.folder) // where kwok looks for files of its own
		started, err := child.Start(cmd, nil)
		if err != nil {
			return fmt.Errorf("%w: `make %s` builds it", err, filepath.Join("bin", "story", p.name))
		}
		c.children = append(c.children, started)
	}
	for i, p := range c.programs {
		// Their certificates are their own, and nothing is sent to them.
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
		if err := c.children[i].AwaitReady(ctx, transport, p.health); err != nil {
			return fmt.Errorf("cannot start %s: %w", p.name, err)
		}
	}
	return nil
}

// Err returns an error with the last output of each program that has ended, or nil if all run.
func (c *Controllers) Err() error {
	var err error
	for i, started := range c.children {
		if !started.Running() {
			err = errors.Join(err, fmt.Errorf("%s ended (%v); its last output:\n%s", c.programs[i].name, started.Err(), started.Tail()))
		}
	}
	return err
}

// Stop ends the programs, waits for them and removes their folder. How they end does not matter.
func (c *Controllers) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	for _, started := range c.children {
		_ = started.Signal(syscall.SIGTERM)
	}
	var err error
	for i, started := range c.children {
		if ended := started.Stop(ctx, syscall.SIGTERM); started.Running() {
			err = errors.Join(err, fmt.Errorf("cannot stop %s: %w", c.programs[i].name, ended))
		}
	}
	if rm := os.RemoveAll(c.folder); rm != nil {
		err = errors.Join(err, fmt.Errorf("cannot remove the folder of the controllers: %w", rm))
	}
	return err
}
