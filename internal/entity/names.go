package entity

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// names are the names of the events and their attributes.
type names struct {
	event          string // attribute with the name of the event; "": it is the EventName of the record
	state, deleted string // names of the events
	entityType     string
	id             string
	description    string
	relationships  string // "": there are none
	interval       string
	intervalUnit   time.Duration
}

var specification = names{
	state:         "entity.state",
	deleted:       "entity.delete",
	entityType:    "entity.type",
	id:            "entity.id",
	description:   "entity.description",
	relationships: "entity.relationships",
	interval:      "entity.report.interval",
	intervalUnit:  time.Second,
}

// https://github.com/open-telemetry/opentelemetry-collector-contrib/blob/main/pkg/experimentalmetricmetadata/entity_events.go
var legacy = names{
	event:        "otel.entity.event.type",
	state:        "entity_state",
	deleted:      "entity_delete",
	entityType:   "otel.entity.type",
	id:           "otel.entity.id",
	description:  "otel.entity.attributes",
	interval:     "otel.entity.interval",
	intervalUnit: time.Millisecond,
}

func (n *names) setEvent(record plog.LogRecord, event string) {
	if n.event == "" {
		record.SetEventName(event)
	} else {
		record.Attributes().PutStr(n.event, event)
	}
}

// put names an entity.
func (n *names) put(m pcommon.Map, of target) {
	m.PutStr(n.entityType, of.entityType)
	m.PutEmptyMap(n.id).PutStr(of.key, of.value)
}

func (n *names) putInterval(m pcommon.Map, interval time.Duration) {
	m.PutInt(n.interval, int64(interval/n.intervalUnit))
}
