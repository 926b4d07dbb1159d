package chaos

import (
	"fmt"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// Cause is a fault that may explain a gap.
type Cause struct {
	Kind     Kind
	From, To time.Time
	// Revision of etcd when it was over. A reader at an earlier revision may need history that is gone.
	Revision int64
}

const gapEvent = "k8s.watch.gap"

// Gap is a gap record.
type Gap struct {
	Reason            string
	Namespace         string // "": the gap covers all namespaces
	From, To          int64  // revisions
	FromTime, ToTime  time.Time
	At                time.Time // when it was stored
	Found             int64     // differences
	fromText, endText string
}

func newGap(record harness.Record, at time.Time) Gap {
	g := Gap{
		Reason: streamText(record, "k8s.gap.reason"), Namespace: streamText(record, "k8s.namespace.name"), At: at,
		fromText: streamText(record, "k8s.gap.from_resource_version"), endText: streamText(record, "k8s.gap.to_resource_version"),
	}
	g.From, g.To = number(g.fromText), number(g.endText)
	// Without times, the gap is assumed to be as long as possible.
	g.ToTime = at
	if t, err := time.Parse(time.RFC3339Nano, streamText(record, "k8s.gap.from_time")); err == nil {
		g.FromTime = t
	}
	if t, err := time.Parse(time.RFC3339Nano, streamText(record, "k8s.gap.to_time")); err == nil {
		g.ToTime = t
	}
	for _, kind := range []string{"added", "modified", "deleted"} {
		n, _ := record.Stream["k8s.gap."+kind].(int64)
		g.Found += n
	}
	return g
}

func streamText(record harness.Record, key string) string {
	s, _ := record.Stream[key].(string)
	return s
}

func (g Gap) String() string {
	namespace := g.Namespace
	if namespace == "" {
		namespace = "all namespaces"
	}
	return fmt.Sprintf("%s in %s from %s at %s to %s at %s, %d differences, stored at %s", g.Reason, namespace,
		g.fromText, g.FromTime.Format(clock), g.endText, g.ToTime.Format(clock), g.Found, g.At.Format(clock))
}

// covers reports whether the gap includes a namespace's revision.
func (g Gap) covers(namespace string, revision int64) bool {
	return (g.Namespace == "" || g.Namespace == namespace) && g.From < revision && revision <= g.To
}

const (
	// windowOfCache is how far the API server's watch cache reaches back at least.
	// https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go, eventFreshDuration
	windowOfCache = 75 * time.Second
	// causeSlack is how much later the effects of a cause may begin.
	causeSlack = 5 * time.Second
	// replacement is how long the API server may take, on a busy machine, to replace the watch cache of an edited CRD.
	replacement = 15 * time.Second
)

// uncached reports whether the API server serves a resource's watches from etcd, so that a compaction removes their
// history.
func uncached(resource string) bool { return resource == "events" }

// takesHistory reports whether the API server loses the earlier history of a resource.
func (k Kind) takesHistory(resource string) bool {
	switch k {
	case APIServerKilled, APIServerStopped, HistoryLost, HistoryLostDown, EtcdRestored:
		return true
	case Compacted:
		return uncached(resource)
	case DefinitionEdit, VersionMoved:
		return resource == gadgets.GroupResource().String()
	}
	return false
}

// blinds reports whether a reader may be cut off while this lasts.
func (k Kind) blinds() bool {
	switch k {
	case LeaderKilled, LeaderPaused, LeaderCutOff, StandbyKilled, StandbyPaused, StandbyCutOff, AllKilled, RolledOut:
		return true
	case CollectorKilled, CollectorRestarted, CollectorKilledOften, KilledMeantime, APIServerKilled, APIServerStopped, HistoryLost,
		HistoryLostDown, EtcdRestored, VersionMoved, SinkKilled, SinkKilledUnanswered, SinkRefuses, SinkExhausted, SinkBlocks, SinkLosesAnswers,
		ConnectionsCut, ConnectionsReset, ConnectionsSlow, ConnectionsHalfOpen, NotFoundPages, SlowFirstAnswers, LaggingReplica, InitialCuts,
		SelectorEdited, NamespacesEdited, VersionEdited, ClusterUIDEdited:
		return true
	}
	return false
}

// overlaps reports whether the cause was active during a gap.
func (c Cause) overlaps(g Gap) bool {
	return !c.From.After(g.ToTime) && !c.To.Add(causeSlack).Before(g.FromTime)
}

// denies reports whether the sink refuses records permanently.
func (c Cause) denies() bool { return c.Kind == SinkDenies || c.Kind == PoisonRecord }

// justified returns the kind of fault that explains a gap, or "" if the schedule has none.
func (e Evidence) justified(g Gap) Kind {
	switch g.Reason {
	case "expired", reasonTakeover:
		return e.justifiedExpiry(g)
	case "history_reset":
		return e.causedBy(g, func(c Cause) bool { return c.Kind == EtcdRestored && g.From < c.Revision })
	case "dropped", "set_refused":
		if e.Refused > 0 {
			return e.causedBy(Gap{ToTime: g.At}, Cause.denies)
		}
	case "scope_changed":
		return e.causedBy(g, func(c Cause) bool { return c.Kind == NamespacesEdited && rescopes(e.Resource) })
	case "silent", "unverified":
		return e.causedBy(g, func(c Cause) bool { return c.Kind == ConnectionsHalfOpen || c.Kind == EtcdRestored })
	case "closed_repeatedly", "server_error":
		return e.causedBy(g, func(c Cause) bool {
			switch c.Kind {
			case APIServerKilled, APIServerStopped, HistoryLost, HistoryLostDown, EtcdRestored, ConnectionsReset, ConnectionsCut, InitialCuts, NotFoundPages,
				LeaderCutOff, StandbyCutOff:
				return true
			}
			return false
		})
	}
	return Nothing
}

func (e Evidence) causedBy(g Gap, is func(Cause) bool) Kind {
	for _, c := range e.Causes {
		if c.overlaps(g) && is(c) {
			return c.Kind
		}
	}
	return Nothing
}

// justifiedExpiry looks for the loss of the history that a reader needed. A compaction alone is not enough for a stream
// that was alive until its end and has had no events since: such a stream has delivered everything.
func (e Evidence) justifiedExpiry(g Gap) Kind {
	if at := e.reached(g); g.Reason == reasonTakeover && !at.IsZero() && (g.FromTime.IsZero() || at.Before(g.FromTime)) {
		g.FromTime = at // whoever takes over does not know it
	}
	blinded := e.causedBy(g, func(c Cause) bool { return c.Kind.blinds() })
	for _, c := range e.Causes {
		if !c.Kind.takesHistory(e.Resource) || !c.comesBefore(g) || c.From.After(g.At) {
			continue
		}
		if c.Kind == Compacted && blinded == Nothing && !e.happenedIn(g) {
			continue
		}
		return c.Kind
	}
	if !g.FromTime.IsZero() && g.ToTime.Sub(g.FromTime) >= windowOfCache {
		return blinded
	}
	return Nothing
}

// comesBefore reports whether a cause may have taken the history that begins where a gap does. The API server replaces a watch
// cache some time after it has answered the edit of a CRD, and until then goes on to deliver changes.
func (c Cause) comesBefore(g Gap) bool {
	switch c.Kind {
	case DefinitionEdit, VersionMoved:
		return g.From < c.Revision || !g.FromTime.IsZero() && g.FromTime.Before(c.To.Add(replacement))
	}
	return g.From < c.Revision
}

// happenedIn reports whether etcd has any event in the gap.
func (e Evidence) happenedIn(g Gap) bool {
	for _, event := range e.Events {
		if g.covers(e.namespaceOf(event), event.Revision) {
			return true
		}
	}
	return false
}
