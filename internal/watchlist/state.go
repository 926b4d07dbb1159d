package watchlist

import (
	"go.uber.org/zap"
)

// setState reports a change of condition: one log line each way, however often the same is met again.
func (r *Reader) setState(condition Condition, err error) {
	if r.state.Condition == condition {
		return
	}
	previous := r.state
	r.state = State{Condition: condition, Err: err}
	switch warning := condition.warning(); {
	case warning != "":
		r.Logger.Warn(warning, resourceFields(&r.Resource, err)...)
	case previous.Condition == Starting:
		r.Logger.Info("reading resource", resourceFields(&r.Resource, nil)...)
	default:
		r.Logger.Info("reading resource again", append(resourceFields(&r.Resource, nil),
			zap.Stringer("after", previous.Condition))...)
	}
	r.Observer.StateChanged(r.state)
}

// String is a short name.
func (c Condition) String() string {
	switch c {
	case Starting:
		return "starting"
	case Reading:
		return "reading"
	case Unreachable:
		return "unreachable"
	case Forbidden:
		return "forbidden"
	case NotServed:
		return "not_served"
	case Refused:
		return "refused"
	case Paused:
		return "paused"
	}
	return "unknown"
}

// warning is what the log says when the condition begins; "" where it is a good one.
func (c Condition) warning() string {
	switch c {
	case Unreachable:
		return "cannot read resource, will try again"
	case Forbidden:
		return "no right to read resource, will try again slowly"
	case NotServed:
		return "server does not serve resource, will look for it"
	case Refused:
		return "server refuses to serve resource, will try again rarely"
	case Paused:
		return "next consumer is too slow, stream is closed until there is room in the queue"
	}
	return ""
}

func resourceFields(r *Resource, err error) []zap.Field {
	fields := []zap.Field{
		zap.String("group", r.Group),
		zap.String("version", r.Version),
		zap.String("resource", r.Plural),
	}
	if r.Namespace != "" {
		fields = append(fields, zap.String("namespace", r.Namespace))
	}
	if r.LabelSelector != "" {
		fields = append(fields, zap.String("label_selector", r.LabelSelector))
	}
	if r.FieldSelector != "" {
		fields = append(fields, zap.String("field_selector", r.FieldSelector))
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	return fields
}
