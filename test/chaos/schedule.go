package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Faults that last for a while, and instantaneous ones, which may also occur during a lasting one.
const (
	CollectorKilled      Kind = "collector killed"                     // and started again after the hold
	CollectorRestarted   Kind = "collector restarted"                  // normally
	CollectorKilledOften Kind = "collector killed many times"          // each time shortly after its start
	APIServerKilled      Kind = "API server killed"                    // and started again after the hold
	APIServerStopped     Kind = "API server stopped"                   // with SIGTERM, and started again
	HistoryLost          Kind = "history lost"                         // cut off while etcd is compacted and the API server restarted
	HistoryLostDown      Kind = "history lost with the collector down" // the same while the collector is down
	EtcdRestored         Kind = "etcd restored"                        // to its state before the hold, with bumped revisions
	VersionMoved         Kind = "API version moved"                    // both are served during the hold, then only the new one
	SinkKilled           Kind = "sink killed"                          // and started again after the hold
	SinkKilledUnanswered Kind = "sink killed before its answer"        // it has stored a batch but not answered
	SinkRefuses          Kind = "sink unavailable"
	SinkExhausted        Kind = "sink exhausted"
	SinkBlocks           Kind = "sink blocks"
	SinkLosesAnswers     Kind = "sink loses answers" // it stores, and reports failure
	SinkDenies           Kind = "sink denies"        // permanently
	ConnectionsCut       Kind = "connections cut"    // and refused during the hold
	ConnectionsReset     Kind = "connections reset"  // whenever the server sends something
	ConnectionsSlow      Kind = "connections slow"
	ConnectionsHalfOpen  Kind = "connections half open"
	NotFoundPages        Kind = "404 pages" // text/html to every request, from a proxy
	DiskFull             Kind = "disk full" // no checkpoint can be written
	SelectorEdited       Kind = "selector spelled differently"
	NamespacesEdited     Kind = "namespaces edited"
	VersionEdited        Kind = "version edited"
	ClusterUIDEdited     Kind = "right to the cluster UID edited"

	// Of several replicas. The others go on.
	LeaderKilled  Kind = "leader killed" // and started again when another one leads
	LeaderPaused  Kind = "leader paused" // SIGSTOP and SIGCONT
	LeaderCutOff  Kind = "leader cut off from the API server"
	StandbyKilled Kind = "standby killed"
	StandbyPaused Kind = "standby paused"
	StandbyCutOff Kind = "standby cut off from the API server"
	AllKilled     Kind = "all replicas killed"
	RolledOut     Kind = "rolling update" // an orderly stop of each of them, one after the other

	// These begin, and continue during the following faults.
	SlowFirstAnswers Kind = "slow first answers" // the headers of the first answer to each watch
	LaggingReplica   Kind = "lagging replica"    // some streams are late
	IdleCutter       Kind = "idle cutter"        // a proxy ends idle streams
	InitialCuts      Kind = "initial streams cut"
	PoisonRecord     Kind = "poison record" // the sink permanently refuses records of one object

	Compacted      Kind = "etcd compacted"
	DefinitionEdit Kind = "CRD edited"
	KilledMeantime Kind = "collector killed and started"
	Nothing        Kind = ""
)

// Fault is one entry of a schedule.
type Fault struct {
	At   time.Duration // since the start of the schedule; later if the previous one is not over
	Kind Kind
	Hold time.Duration // its duration
	Also Kind          // a fault in the middle of it

	Milliseconds int64 // of latency, if connections are slow
	Rate         int64 // kilobytes per second, if connections are slow
	Times        int   // number of repetitions, if any
	Killed       bool  // the restart with an edited configuration is a kill
}

func (f Fault) String() string {
	s := fmt.Sprintf("%7.1fs %s", f.At.Seconds(), f.Kind)
	if f.Hold > 0 {
		s += fmt.Sprintf(" for %.1fs", f.Hold.Seconds())
	}
	if f.Rate > 0 {
		s += fmt.Sprintf(" (%d ms, %d kB/s)", f.Milliseconds, f.Rate)
	}
	if f.Times > 0 {
		s += fmt.Sprintf(" (%d times)", f.Times)
	}
	if f.Killed {
		s += " (kill -9)"
	}
	if f.Also != Nothing {
		s += ", with " + string(f.Also)
	}
	return s
}

// Settings of the Collector, also determined by the seed.
type Settings struct {
	RelistInterval time.Duration
	RotateInterval time.Duration
	Body           string
	QueueBytes     int
	BatchRecords   int

	OperationRate int // of the writer, per second
	Replicas      int
	Storages      int // how many of the replicas have one
}

func (s Settings) String() string {
	text := fmt.Sprintf("relist.interval %s, relist.rotate_interval %s, body %s, queue.max_bytes %d, batch.max_records %d",
		s.RelistInterval, s.RotateInterval, s.Body, s.QueueBytes, s.BatchRecords)
	if s.Replicas > 1 {
		text += fmt.Sprintf(", %d replicas, %d with a storage", s.Replicas, s.Storages)
	}
	return text
}

type weighted struct {
	kind        Kind
	weight      int
	least, most float64
}

// weights of the faults, with the minimum and maximum duration of each, in seconds.
var weights = []weighted{
	{CollectorKilled, 12, 0, 4},
	{CollectorRestarted, 3, 0, 2},
	{CollectorKilledOften, 3, 0, 0},
	{APIServerKilled, 5, 0, 3},
	{APIServerStopped, 2, 0, 1},
	{HistoryLost, 4, 1, 4},
	{HistoryLostDown, 4, 0, 2},
	{EtcdRestored, 4, 2, 10},
	{VersionMoved, 4, 2, 15},
	{SinkKilled, 5, 0, 5},
	{SinkKilledUnanswered, 5, 0, 4},
	{SinkRefuses, 4, 2, 10},
	{SinkExhausted, 3, 2, 8},
	{SinkBlocks, 4, 4, 18},
	{SinkLosesAnswers, 4, 1, 4},
	{SinkDenies, 5, 1, 12},
	{ConnectionsCut, 6, 0, 6},
	{ConnectionsReset, 4, 1, 6},
	{ConnectionsSlow, 4, 3, 10},
	{ConnectionsHalfOpen, 4, 5, 60},
	{NotFoundPages, 3, 5, 60},
	{DiskFull, 4, 3, 20},
	{SelectorEdited, 3, 0, 0},
	{NamespacesEdited, 4, 0, 0},
	{VersionEdited, 3, 0, 0},
	{ClusterUIDEdited, 2, 0, 0},
	{SlowFirstAnswers, 3, 35, 60},
	{LaggingReplica, 3, 10, 40},
	{IdleCutter, 3, 35, 90},
	{InitialCuts, 3, 10, 40},
	{PoisonRecord, 3, 10, 60},
	{Compacted, 5, 0, 0},
	{DefinitionEdit, 4, 0, 0},
}

// weightsOfReplicas are those of a run with several replicas. It has all faults that the rules of docs/takeover.md cover:
// an etcd that is set back is not among them. An edit of the configuration is no fault of its own, because that is what
// the restarts of TestChaos have.
var weightsOfReplicas = append([]weighted{
	{LeaderKilled, 14, 0, 0},
	{LeaderPaused, 12, 1, 20},
	{LeaderCutOff, 10, 1, 20},
	{StandbyKilled, 4, 0, 4},
	{StandbyPaused, 4, 1, 20},
	{StandbyCutOff, 4, 1, 20},
	{AllKilled, 4, 0, 2},
	{RolledOut, 5, 0, 0},
}, slices.DeleteFunc(slices.Clone(weights), func(w weighted) bool {
	return w.kind.edits() || w.kind == EtcdRestored || w.kind == CollectorKilledOften
})...)

// ofReplicas reports whether only a run with several replicas has faults of this kind.
func (k Kind) ofReplicas() bool {
	return !slices.ContainsFunc(weights, func(w weighted) bool { return w.kind == k })
}

// known reports whether the kind exists as an entry of its own.
func known(k Kind) bool {
	return slices.ContainsFunc(slices.Concat(weights, weightsOfReplicas), func(w weighted) bool { return w.kind == k }) || k == KilledMeantime
}

// beside reports whether a fault of this kind continues during the following ones.
func (k Kind) beside() bool {
	switch k {
	case SlowFirstAnswers, LaggingReplica, IdleCutter, InitialCuts, PoisonRecord:
		return true
	}
	return false
}

// edits reports whether the kind is an edit of the configuration between two lives of the Collector.
func (k Kind) edits() bool {
	switch k {
	case SelectorEdited, NamespacesEdited, VersionEdited, ClusterUIDEdited:
		return true
	}
	return false
}

// allows reports whether another fault can occur in the middle of one of this kind: a part that is down can be neither
// killed nor edited.
func (k Kind) allows(also Kind) bool {
	switch k {
	case CollectorKilled, CollectorRestarted, StandbyKilled, StandbyPaused:
		return also != KilledMeantime
	case HistoryLostDown, LeaderKilled, AllKilled, RolledOut:
		return false
	case APIServerKilled, APIServerStopped, HistoryLost, EtcdRestored, VersionMoved:
		return also != DefinitionEdit
	}
	return !k.beside()
}

// A short run has every kind at least once; those that do not continue during others are shorter, with shorter pauses.
// An even shorter run has what its time allows.
const (
	longRun     = 5 * time.Minute
	shortestRun = 90 * time.Second
)

// Draw computes the schedule and the settings of a seed. The same seed and duration always give the same result. If
// kinds are given, only these occur.
func Draw(seed uint64, duration time.Duration, replicas int, only ...Kind) (Settings, []Fault) {
	weights := weights
	if replicas > 1 {
		weights = weightsOfReplicas
	}
	wanted := func(k Kind) bool { return len(only) == 0 || slices.Contains(only, k) }
	random := rand.New(rand.NewPCG(seed, 0xC4A05))
	between := func(least, most float64) time.Duration {
		return time.Duration((least+random.Float64()*(most-least))*10) * (time.Second / 10)
	}
	rotateInterval := between(3, 15)
	if seed%2 == 1 {
		rotateInterval = between(40, 60) // so that a stream can be idle for long enough
	}
	settings := Settings{
		RelistInterval: between(2, 6),
		RotateInterval: rotateInterval,
		Body:           []string{"map", "json"}[random.IntN(2)],
		QueueBytes:     []int{512 << 10, 1 << 20, 4 << 20, 16 << 20}[random.IntN(4)],
		BatchRecords:   []int{20, 100, 500}[random.IntN(3)],

		OperationRate: 300, Replicas: replicas, Storages: 1,
	}
	if replicas > 1 { // each of which reads everything
		settings.OperationRate, settings.Storages = 100, int(seed)%(replicas+1)
	}
	total := 0
	for _, w := range weights {
		if wanted(w.kind) {
			total += w.weight
		}
	}
	short := duration < longRun
	var faults []Fault
	deck := deal(random, weights, short) // each kind once before the weights apply, so that none is left out
	for at := between(1, 3); at < duration || len(deck) > 0 && duration >= shortestRun && replicas == 1; {
		var i int
		if len(deck) > 0 {
			i, deck = deck[0], deck[1:]
		} else {
			for n := random.IntN(total); !wanted(weights[i].kind) || n >= weights[i].weight; i++ {
				if wanted(weights[i].kind) {
					n -= weights[i].weight
				}
			}
		}
		w := weights[i]
		if !wanted(w.kind) {
			continue
		}
		most := w.most
		if short && !w.kind.beside() && !w.kind.ofReplicas() {
			most = min(most, duration.Seconds()/25)
		}
		f := Fault{At: at, Kind: w.kind, Hold: between(w.least, max(w.least, most))}
		switch {
		case w.kind == ConnectionsSlow:
			f.Milliseconds, f.Rate = 20+random.Int64N(400), 20+random.Int64N(400)
		case w.kind == CollectorKilledOften:
			f.Times = 3 + random.IntN(5)
		case w.kind.edits():
			f.Killed = random.IntN(3) == 0
		}
		// Drawn in any case, so that one fault's kind does not change all later ones.
		also := []Kind{Nothing, Nothing, Compacted, KilledMeantime, KilledMeantime, DefinitionEdit}[random.IntN(6)]
		if f.Hold > 0 && w.kind.allows(also) && wanted(also) {
			f.Also = also
		}
		faults = append(faults, f)
		switch {
		case w.kind == IdleCutter:
			at += 2 * idleCut
		case !w.kind.beside():
			at += f.Hold
		}
		switch rest := random.IntN(5); {
		case short:
			at += between(0.3, 1.5)
		case rest == 0: // time to catch up
			at += between(8, 15)
		default:
			at += between(1, 5)
		}
	}
	return settings, faults
}

// deal returns the indexes of all kinds in random order. In a short run those that continue during others come early,
// spread among the rest.
func deal(random *rand.Rand, weights []weighted, short bool) []int {
	deck := random.Perm(len(weights))
	if !short {
		return deck
	}
	if weights[0].kind.ofReplicas() {
		return alternately(deck, func(i int) bool { return weights[i].kind.ofReplicas() })
	}
	const others = 3 // between two of them
	var beside, rest, dealt []int
	for _, i := range deck {
		if weights[i].kind.beside() {
			beside = append(beside, i)
		} else {
			rest = append(rest, i)
		}
	}
	for len(beside) > 0 {
		n := min(others, len(rest))
		dealt = append(append(dealt, beside[0]), rest[:n]...)
		beside, rest = beside[1:], rest[n:]
	}
	return append(dealt, rest...)
}

// alternately puts one of the chosen before each of the others, as long as there are any.
func alternately(all []int, chosen func(int) bool) []int {
	others := slices.DeleteFunc(slices.Clone(all), chosen)
	first := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !chosen(i) })
	var mixed []int
	for len(first) > 0 && len(others) > 0 {
		mixed = append(mixed, first[0], others[0])
		first, others = first[1:], others[1:]
	}
	return slices.Concat(mixed, first, others)
}
