package delivery

import "time"

// Config limits what waits and says how it is cut into batches.
type Config struct {
	// MaxBytes bounds the items that are queued and in flight.
	MaxBytes int

	// A batch is delivered as soon as it has BatchMaxRecords items or BatchMaxBytes bytes, or when its
	// first item has waited for BatchTimeout. A batch never exceeds the two limits, except that an item
	// larger than BatchMaxBytes travels alone. A limit of zero does not limit; a BatchTimeout of zero
	// does not wait.
	BatchMaxRecords int
	BatchMaxBytes   int
	BatchTimeout    time.Duration

	// DrainTimeout bounds how long Shutdown waits for the consumer to take what is queued, since the
	// collector often gives Shutdown a context without a deadline.
	DrainTimeout time.Duration
}
