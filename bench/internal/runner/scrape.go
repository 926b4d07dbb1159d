package runner

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
)

// The Collector's own metrics.
const (
	acceptedRecords = "otelcol_receiver_accepted_log_records"
	allocatedBytes  = "otelcol_process_runtime_total_alloc_bytes"
	heapBytes       = "otelcol_process_runtime_heap_alloc_bytes"
)

// scrape sums the series of each metric of a Collector. One that has no series yet is missing.
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	sums := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ') // label values may hold spaces
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			sums[strings.TrimSuffix(name, "_total")] += value
		}
	}
	return sums, lines.Err()
}
