package watchlist

import (
	"errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Condition is the state of a resource in one word, which is the same in the component status, the log and the metrics.
type Condition uint8

const (
	Starting     Condition = iota // nothing has been read yet, perhaps because other snapshots have to end first
	Initializing                  // the first snapshot is being read
	Reading                       // changes are read as they come
	Paused                        // the consumer is slower than the changes come
	Polling                       // the resource is listed at intervals, because it cannot be watched
	Standby                       // another replica leads, and this one follows it
	Unreachable                   // the server does not answer, or not with a stream
	Forbidden                     // rights are missing, or the credentials are not accepted
	NotServed                     // the server does not know the resource
	Refused                       // the server permanently refuses the request
	Failing                       // streams end again and again without anything new

	conditions
)

var conditionNames = [conditions]string{
	"starting", "initial", "reading", "paused", "polling", "standby", "unreachable", "forbidden", "not_served", "refused", "failing",
}

// Conditions returns every condition.
func Conditions() []Condition {
	all := make([]Condition, conditions)
	for i := range all {
		all[i] = Condition(i)
	}
	return all
}

// String is the word for the condition.
func (c Condition) String() string {
	if c >= conditions {
		return "unknown"
	}
	return conditionNames[c]
}

// IsFault reports whether a resource in this condition is not being read, and something has to change before it is.
func (c Condition) IsFault() bool { return c >= Unreachable }

// IsExpectedOfPattern reports whether the condition is no fault of a resource that only a pattern selects.
func (c Condition) IsExpectedOfPattern() bool { return c == Forbidden || c == NotServed }

// reads reports whether the resource is being read.
func (c Condition) reads() bool { return c == Initializing || c == Reading || c == Polling }

// message is the log message for the beginning of a fault.
func (c Condition) message() string {
	switch c {
	case Unreachable:
		return "cannot read resource, will try again"
	case Forbidden:
		return "no right to read resource, will try again slowly"
	case NotServed:
		return "server does not serve resource, will look for it"
	case Refused:
		return "server refuses to serve resource, will try again rarely"
	case Failing:
		return "reading resource makes no progress, will keep trying"
	}
	return ""
}

// Remedy says what a person can do about a fault; "" if nothing is wrong.
func (s State) Remedy(of scope.Scope) string {
	switch s.Condition {
	case Unreachable:
		if isThrottled(s.Err) {
			return "the API server asks clients to wait; if that lasts, see which flow schema rejects the requests"
		}
		return "check that the API server runs and that the network lets the collector connect to it"
	case Forbidden:
		if isUnauthorized(s.Err) {
			return "the credentials are not accepted: check auth_type, the token or certificate and its time of expiry"
		}
		verbs := []string{"watch", "list"}
		if lacks, ok := errors.AsType[*lacksRights](s.Err); ok {
			verbs = lacks.verbs
		}
		return ruleToAdd(of, verbs...)
	case NotServed:
		return "install the resource's CustomResourceDefinition or API server, or correct the name"
	case Refused:
		return "correct what the error names, such as a selector"
	case Failing:
		return "see why the streams end, for example a proxy or load balancer in between"
	}
	return ""
}

func ruleToAdd(of scope.Scope, verbs ...string) string {
	where := "ClusterRole"
	if of.Namespace != "" {
		where = "Role in namespace " + of.Namespace
	}
	return "add this rule to the collector's " + where + ": " + of.Rule(verbs...)
}
