package harness

// Span is a span that has ended.
type Span struct {
	Attributes map[string]any
	Failure    string // why, if its status is an error
	Seconds    float64
}

// Spans returns the receiver's spans of that name, in the order in which they ended.
func (r *Receiver) Spans(name string) []Span {
	var all []Span
	for _, span := range r.telemetry.SpanRecorder.Ended() {
		if span.Name() != name {
			continue
		}
		s := Span{Attributes: make(map[string]any), Failure: span.Status().Description, Seconds: span.EndTime().Sub(span.StartTime()).Seconds()}
		for _, a := range span.Attributes() {
			s.Attributes[string(a.Key)] = a.Value.AsInterface()
		}
		all = append(all, s)
	}
	return all
}

// OpenSpans returns how many spans have begun and not ended.
func (r *Receiver) OpenSpans() int {
	return len(r.telemetry.SpanRecorder.Started()) - len(r.telemetry.SpanRecorder.Ended())
}
