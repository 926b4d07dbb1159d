package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A second of the pages is a minute for the rules: an alert that waits for five minutes fires after five pages, and nothing
// has been read for 15 minutes when last_progress is 15 seconds.
func TestAlertsOfPages(t *testing.T) {
	began := time.UnixMilli(1_700_000_000_000)
	var pages strings.Builder
	for second := range 60 {
		unreachable, progress := 0, 1
		if second >= 12 && second < 40 {
			unreachable, progress = 2, second-12
		}
		fmt.Fprintf(&pages, "# at %d\n# TYPE otelcol_k8s_watchlist_readers gauge\n", began.Add(time.Duration(second)*time.Second).UnixMilli())
		fmt.Fprintf(&pages, "otelcol_k8s_watchlist_readers{receiver=\"r\",state=\"unreachable\"} %d\n", unreachable)
		fmt.Fprintf(&pages, "# TYPE otelcol_k8s_watchlist_last_progress gauge\notelcol_k8s_watchlist_last_progress{%s} %d\n", pods, progress)
		if second < 20 { // what the endpoint no longer has does not fire
			fmt.Fprintf(&pages, "otelcol_k8s_watchlist_readers{receiver=\"r\",state=\"forbidden\"} 1\n")
		}
	}
	var printed bytes.Buffer
	require.NoError(t, printAlerts(t.Context(), "../..", strings.NewReader(pages.String()), &printed))
	lines := bytes.Split(bytes.TrimSpace(printed.Bytes()), []byte("\n"))
	require.Len(t, lines, 60)
	assert.Equal(t, "[]", string(lines[0]))
	var notices []Notice
	require.NoError(t, json.Unmarshal(lines[59], &notices))
	require.Len(t, notices, 3)

	assert.Equal(t, "K8sWatchlistForbidden", notices[0].Alert)
	assert.Equal(t, began.Add(20*time.Second).UTC(), notices[0].ClearAt.UTC())

	assert.Equal(t, "K8sWatchlistNotReading", notices[1].Alert)
	assert.Equal(t, "critical", notices[1].Severity)
	assert.Equal(t, map[string]string{"receiver": "r"}, notices[1].Labels)
	assert.Equal(t, "Resources that are not being read: 2", notices[1].Summary)
	assert.True(t, strings.HasSuffix(notices[1].Runbook, "docs/troubleshooting.md#k8swatchlistnotreading"))
	assert.Equal(t, began.Add(17*time.Second).UTC(), notices[1].FiredAt.UTC())
	assert.Equal(t, began.Add(40*time.Second).UTC(), notices[1].ClearAt.UTC())
	assert.False(t, notices[1].Firing)

	assert.Equal(t, "K8sWatchlistStalled", notices[2].Alert)
	assert.Equal(t, began.Add(33*time.Second).UTC(), notices[2].FiredAt.UTC()) // above 900 from the 28th second on
	assert.Equal(t, "Nothing was read of pods for 21m 0s", notices[2].Summary)
}
