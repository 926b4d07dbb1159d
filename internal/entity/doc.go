// Package entity turns changes of objects into OpenTelemetry entity events: log records that state which entities exist, how
// they are described and related, and which are gone.
// https://github.com/open-telemetry/opentelemetry-specification/blob/main/specification/entities/entity-events.md
package entity
