package delivery

// Observer is told what happens, for metrics. Each func may be nil. They are called often and on the way
// of the data, so they must be fast; QueueBytes is called concurrently, the others from one goroutine.
type Observer struct {
	Delivered  func(records int)            // the consumer accepted a batch
	Dropped    func(records int, err error) // the consumer refused a batch for good
	Retried    func(err error)              // the consumer refused a batch for now
	QueueBytes func(delta int)              // bytes that are queued or in flight
}

func (o *Observer) delivered(records int) {
	if o.Delivered != nil {
		o.Delivered(records)
	}
}

func (o *Observer) dropped(records int, err error) {
	if o.Dropped != nil {
		o.Dropped(records, err)
	}
}

func (o *Observer) retried(err error) {
	if o.Retried != nil {
		o.Retried(err)
	}
}

func (o *Observer) queueBytes(delta int) {
	if o.QueueBytes != nil && delta != 0 {
		o.QueueBytes(delta)
	}
}
