// Command reflector reads with client-go's reflector.
package main

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/reflection"
)

func main() { contender.Run(contender.Flags(), reflection.Run) }
