package record

import (
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// severity returns INFO, so that a filter by severity keeps normal records, or WARN for gaps. The severity text is left
// unset: it would have to be the source's own term, and only Events have one; see setEventSeverity.
func severity(c *watchlist.Change) plog.SeverityNumber {
	if c.Type == watchlist.Gap {
		return plog.SeverityNumberWarn
	}
	return plog.SeverityNumberInfo
}
