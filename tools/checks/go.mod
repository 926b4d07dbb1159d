// Tests of the scripts in tools, and of what README.md tells its readers to do. They need the standard library only.
module github.com/k8swatchlist/k8swatchlistreceiver/tools/checks

go 1.26.0
