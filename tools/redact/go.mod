module github.com/k8swatchlist/k8swatchlistreceiver/tools/redact

go 1.26.0

replace github.com/k8swatchlist/k8swatchlistreceiver => ../..

require (
	github.com/k8swatchlist/k8swatchlistreceiver v0.0.0-00010101000000-000000000000
	sigs.k8s.io/yaml v1.6.0
)

require go.yaml.in/yaml/v2 v2.4.4 // indirect
