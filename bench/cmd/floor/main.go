// Command floor reads a watch and does nothing with it.
package main

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/floor"
)

func main() { contender.Run(contender.Flags(), floor.Run) }
