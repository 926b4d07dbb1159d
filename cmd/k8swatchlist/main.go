// Command k8swatchlist helps to run the k8s_watchlist receiver: it shows what a Collector configuration reads and what is
// missing for that, prints the rights that it needs, prints changes, and compares emitted records with the cluster. Named kubectl-watchlist and in $PATH, it is
// `kubectl watchlist`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}
