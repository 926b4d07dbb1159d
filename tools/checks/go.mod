// Tests of the scripts in tools, and of the instructions in README.md. They need only the standard library.
module github.com/k8swatchlist/k8swatchlistreceiver/tools/checks

go 1.26.0
