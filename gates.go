package k8swatchlistreceiver

import "go.opentelemetry.io/collector/featuregate"

// shortRelistGate is registered here and not in metadata.yaml, because mdatagen requires the component's type in a
// gate's name, where the registry does not allow an underscore.
var shortRelistGate = featuregate.GlobalRegistry().MustRegister(
	"receiver.k8swatchlist.shortRelist",
	featuregate.StageAlpha,
	featuregate.WithRegisterDescription("Lifts the minimum of relist.interval (1h) and of relist.rotate_interval (1m), "+
		"for tests that must see many relists in a short time."),
	featuregate.WithRegisterFromVersion("v0.1.0"),
)
