package otelcol

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const exposition = `# TYPE otelcol_receiver_accepted_log_records_total counter
otelcol_receiver_accepted_log_records_total{receiver="k8s_watchlist",transport=""} 12
otelcol_receiver_accepted_log_records_total{receiver="k8s_watchlist/other",transport="a b"} 3
# TYPE otelcol_process_memory_rss gauge
otelcol_process_memory_rss 4.5e+07
`

func TestSums(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, exposition)
	}))
	defer server.Close()
	metrics, err := ReadMetrics(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	const accepted = "otelcol_receiver_accepted_log_records"
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{accepted, nil, 15},
		{accepted + "_total", nil, 15},
		{accepted, []string{"receiver", "k8s_watchlist"}, 12},
		{accepted, []string{"receiver", "k8s_watchlist/other", "transport", "a b"}, 3},
		{accepted, []string{"receiver", "nobody"}, 0},
		{"otelcol_process_memory_rss", nil, 4.5e7},
		{"unknown", nil, 0},
	} {
		if sum := metrics.Sum(test.name, test.labels...); sum != test.want {
			t.Errorf("%s %q: %v, want %v", test.name, test.labels, sum, test.want)
		}
	}
}

func TestUnreadableMetrics(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"503":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"not a page": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
	}
	for name, answer := range answers {
		server := httptest.NewServer(answer)
		if metrics, err := ReadMetrics(t.Context(), strings.TrimPrefix(server.URL, "http://")); err == nil {
			t.Errorf("%s: %v", name, metrics)
		}
		server.Close()
	}
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if metrics, err := ReadMetrics(t.Context(), address); err == nil {
		t.Errorf("nobody answers: %v", metrics)
	}
}
