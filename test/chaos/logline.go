package chaos

import (
	"encoding/json"
	"strings"
	"time"
)

// lineFields are fields of a line that the Collector logs.
type lineFields struct {
	Term int             `json:"term"`
	Took json.RawMessage `json:"took"` // text or seconds, depending on the encoding
}

func (f lineFields) took() time.Duration {
	var seconds float64
	if json.Unmarshal(f.Took, &seconds) == nil {
		return time.Duration(seconds * float64(time.Second))
	}
	var text string
	_ = json.Unmarshal(f.Took, &text)
	took, _ := time.ParseDuration(text)
	return took
}

// parseLine returns the time and the fields of a line that the Collector logs, which has columns.
func parseLine(line string) (at time.Time, fields lineFields) {
	columns := strings.Split(strings.TrimSpace(line), "\t")
	at, _ = time.Parse("2006-01-02T15:04:05.000Z0700", columns[0])
	_ = json.Unmarshal([]byte(columns[len(columns)-1]), &fields)
	return at, fields
}
