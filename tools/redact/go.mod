module github.com/k8swatchlist/k8swatchlistreceiver/tools/redact

go 1.26.0

replace github.com/k8swatchlist/k8swatchlistreceiver => ../..

require (
	github.com/k8swatchlist/k8swatchlistreceiver v0.0.0-00010101000000-000000000000
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/go-logr/logr v1.4.4 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	k8s.io/apimachinery v0.37.2 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
)
