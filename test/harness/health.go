package harness

import (
	"encoding/json"
	"testing"
)

// Health is a component's status, as the Collector's extension health_check shows it.
type Health struct {
	Status     string `json:"status"` // StatusOK, StatusRecoverableError ...
	Error      string `json:"error"`
	Attributes struct {
		Readers   map[string]int    `json:"readers"`   // by state
		Resources map[string]string `json:"resources"` // the states of those that are not simply being read
	} `json:"attributes"`
	Components map[string]Health `json:"components"`
}

// ReadHealth returns the status of the Collector. It is zero if the Collector does not answer. The configuration of
// health_check is HealthCheck.
func ReadHealth(t testing.TB, address string) Health {
	t.Helper()
	var h Health
	_, body, err := get(t.Context(), "http://"+address+"/status?verbose")
	if err != nil {
		return h
	}
	if err := json.Unmarshal(body, &h); err != nil {
		t.Fatalf("cannot read the health of the collector: %v\n%s", err, body)
	}
	return h
}

// Probe asks the Collector as a readiness probe of Kubernetes does, and returns the status code of the answer, or 0 if there is
// none. The configuration of health_check is HealthCheck.
func Probe(t testing.TB, address string) int {
	t.Helper()
	code, _, err := get(t.Context(), "http://"+address+"/status")
	if err != nil {
		return 0
	}
	return code
}

// ComponentStatusGate is the feature gate with which health_check shows the status of every component.
const ComponentStatusGate = "extension.healthcheck.useComponentStatus"

// HealthCheck returns the configuration of the extension health_check.
func HealthCheck(address string) string {
	return "{http: {endpoint: '" + address + "', status: {enabled: true, path: /status, include_attributes: true}}, " +
		"component_health: {include_permanent_errors: true, include_recoverable_errors: true}}"
}
