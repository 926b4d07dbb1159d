// Command receiver runs the receiver without a Collector.
package main

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/library"
)

func main() { contender.Run(contender.Flags(), library.Run) }
