// Command capacity prints what clusters of any size cost, computed from docs/performance-figures.md and
// docs/gateway-figures.md, as tables in Markdown.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/capacity"
)

func main() {
	s := capacity.Default(1, 5000, 150_000)
	figures := flag.String("figures", "docs/performance-figures.md", "the page with the measurements")
	gateways := flag.String("gateway-figures", "docs/gateway-figures.md", "the page with the measurements of compression and a gateway")
	page := flag.String("write", "", "write the examples of this page, docs/scale.md, instead of printing")
	body := flag.String("body", "map", "body of the records: map or json")
	podKB := flag.Int("pod-kb", 8, "size of a pod in KB: 2, 8 or 20")
	flag.IntVar(&s.Clusters, "clusters", s.Clusters, "clusters that send to one gateway")
	flag.IntVar(&s.Nodes, "nodes", s.Nodes, "nodes of each cluster")
	flag.IntVar(&s.Pods, "pods", s.Pods, "pods of each cluster")
	flag.Float64Var(&s.Changes, "changes", s.Changes, "changes that are records, per second and 1,000 pods")
	flag.Float64Var(&s.Others, "others", s.Others, "other objects for each pod")
	flag.Float64Var(&s.StatusSeconds, "status", s.StatusSeconds, "seconds between two statuses of a node without a change; 0: never")
	flag.Float64Var(&s.LeaseSeconds, "leases", s.LeaseSeconds, "seconds between two renewals of the Lease of a node; 0: Leases are not read")
	flag.Float64Var(&s.RelistHours, "relist", s.RelistHours, "hours between two relists; 0: never")
	flag.Float64Var(&s.Compression, "compression", s.Compression, "how many times smaller records are when they are sent; 0: as measured; 1: not compressed")
	flag.BoolVar(&s.Since, "since", s.Since, "add what the receiver costs more than when the figures were measured")
	flag.Parse()
	if flag.NArg() > 0 {
		fail(fmt.Errorf("there is no argument %q, only flags", flag.Arg(0)))
	}
	f, err := capacity.Read(*figures)
	fail(err)
	g, err := capacity.Read(*gateways)
	fail(err)
	if *page != "" {
		text, err := capacity.Examples(f, g)
		fail(err)
		fail(capacity.WritePage(*page, text))
		return
	}
	fail(s.Check())
	m, err := capacity.NewModel(f, g, *body, *podKB)
	fail(err)
	fmt.Print(m.Markdown(s))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
