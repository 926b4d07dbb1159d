package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// member is one of the Collectors under test: the only one, or one of the replicas.
type member struct {
	number     int // from 0
	collector  *harness.Collector
	life       int  // of the process, from 1
	down       bool // on purpose
	diskFull   bool
	paused     bool
	storage    string // the folder; "": it has none
	metrics    string // the address
	kubeconfig string
	proxy      *harness.Proxy // of its own, which leads to that of all; nil: it is the only one
}

// isolation is a time in which one process could not publish how far its records were accepted.
type isolation struct {
	life     int
	from, to time.Time // to is zero while it lasts
	paused   bool      // the process was stopped; otherwise it was cut off
}

const (
	leaseDuration = 9 * time.Second
	renewDeadline = 6 * time.Second
	// takeoverTimeout is how long a takeover may take after a fault that lasts no longer: the Lease, what its holder and its
	// candidate may be late, and the machine.
	takeoverTimeout = 45 * time.Second
)

func (r *run) isReplicated() bool { return r.settings.Replicas > 1 }

// addMembers adds the Collectors, without starting them.
func (r *run) addMembers() {
	credentials := r.credentials()
	for i := range r.settings.Replicas {
		m := &member{number: i, down: true, metrics: harness.FreeAddress(r.t)}
		if i < r.settings.Storages {
			m.storage = r.t.TempDir()
		}
		way := r.proxy
		if r.isReplicated() {
			m.proxy = harness.StartProxy(r.t, r.proxy.Address())
			way = m.proxy
		}
		m.kubeconfig = r.cluster.KubeconfigVia(r.t, credentials, way.Address())
		r.members = append(r.members, m)
	}
	r.member = r.members[0]
}

// election returns the part of the configuration that makes a Collector one of several replicas.
func (r *run) election(m *member) string {
	if !r.isReplicated() {
		return ""
	}
	return fmt.Sprintf(`
    leader_election: {enabled: true, lease_name: %s, lease_namespace: %s, identity: replica-%d,
      lease_duration: %s, renew_deadline: %s, retry_period: 1s}`, leaseName, namespace, m.number, leaseDuration, renewDeadline)
}

// toLeader makes the following faults concern the replica that leads; if none does, the one that last led, and if that is down,
// any other. Nothing changes if there is only one Collector.
func (r *run) toLeader() {
	if !r.isReplicated() {
		return
	}
	if m, ok := r.leader(); ok {
		r.member = m
		return
	}
	if r.running(r.member) {
		return
	}
	if i := slices.IndexFunc(r.members, r.running); i >= 0 {
		r.member = r.members[i]
	}
}

func (r *run) running(m *member) bool { return !m.down && !m.paused }

// leader returns the running replica that leads according to what it logs: the one with the latest term, if another one has
// not noticed yet that it no longer does.
func (r *run) leader() (*member, bool) {
	var leader *member
	latest := 0
	for _, m := range r.members {
		if !r.running(m) {
			continue
		}
		turns := turnsOf(m.life, m.collector.Log())
		if len(turns) == 0 {
			continue
		}
		if last := turns[len(turns)-1]; last.lost.IsZero() && last.term > latest {
			leader, latest = m, last.term
		}
	}
	return leader, leader != nil
}

// awaitLeader waits until another replica than one leads; nil stands for any.
func (r *run) awaitLeader(other *member) {
	began := time.Now()
	for {
		if m, ok := r.leader(); ok && m != other {
			r.member = m
			r.say("replica %d leads", m.number)
			return
		}
		if time.Since(began) > takeoverTimeout {
			r.say("nobody leads after %s", takeoverTimeout)
			r.toLeader()
			return
		}
		r.waitUntil(time.Now().Add(time.Second / 4))
	}
}

// toStandby makes the following faults concern a replica that does not lead.
func (r *run) toStandby() {
	leader, _ := r.leader()
	var standbys []*member
	for _, m := range r.members {
		if m != leader && r.running(m) {
			standbys = append(standbys, m)
		}
	}
	r.member = standbys[r.random.IntN(len(standbys))]
}

// inflictOnReplicas causes a fault of one or all of them.
func (r *run) inflictOnReplicas(f Fault) {
	r.awaitLeader(nil)
	switch f.Kind {
	case StandbyKilled, StandbyPaused, StandbyCutOff:
		r.toStandby()
	}
	m := r.member
	switch f.Kind {
	case LeaderKilled:
		r.killMember()
		r.awaitLeader(m)
		r.member = m
		r.startCollector()
	case StandbyKilled:
		r.killMember()
		r.hold(f)
		r.member = m
		r.startCollector()
	case LeaderPaused, StandbyPaused:
		resume := r.pause(m)
		r.hold(f)
		resume()
	case LeaderCutOff, StandbyCutOff:
		restore := r.cutOff(m)
		r.hold(f)
		restore()
	case AllKilled:
		for _, m := range r.members {
			r.member = m
			r.killMember()
		}
		r.hold(f)
		for _, m := range r.members {
			r.member = m
			r.startCollector()
		}
	case RolledOut:
		for _, m := range r.members {
			r.member = m
			r.sink.AwaitStored(r.t.Context(), startTimeout)
			r.stopMember()
			r.startCollector()
			r.awaitLeader(nil)
		}
	}
}

// pause stops a process without ending it, until the returned function is called.
func (r *run) pause(m *member) (resume func()) {
	pid := m.collector.PID()
	send := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			r.t.Errorf("cannot send %s to replica %d: %v", s, m.number, err)
		}
	}
	r.result.Done["pauses"]++
	over := r.isolate(m, true)
	m.paused = true
	send(syscall.SIGSTOP)
	resume = func() {
		if m.paused {
			m.paused = false
			over() // before it does anything
			send(syscall.SIGCONT)
		}
	}
	r.t.Cleanup(resume) // it could not end otherwise
	return resume
}

// cutOff cuts a replica's connections to the API server, and refuses new ones, until the returned function is called.
func (r *run) cutOff(m *member) (restore func()) {
	r.result.Done["cuts of one replica"]++
	over := r.isolate(m, false)
	m.proxy.Cut()
	return func() {
		m.proxy.Restore(r.t)
		over()
	}
}

func (r *run) isolate(m *member, paused bool) (over func()) {
	i := len(r.isolations)
	r.isolations = append(r.isolations, isolation{life: m.life, from: time.Now(), paused: paused})
	return func() { r.isolations[i].to = time.Now() }
}

// stopAll ends all Collectors in order, the leader last: nobody takes over, so its storage has everything.
func (r *run) stopAll() {
	r.toLeader()
	leader := r.member
	for _, m := range r.members {
		if m != leader {
			r.member = m
			r.stopMember()
		}
	}
	r.member = leader
	r.stopMember()
}

// turn is a term in which a process led, as it logged it.
type turn struct {
	term   int
	life   int       // of the process
	begun  time.Time // nothing was emitted before
	logged time.Time // the term had certainly begun
	lost   time.Time // when it found that it no longer led; zero if it led until its end
}

// turnsOf returns the terms in the log of a process, in order.
func turnsOf(life int, log string) []turn {
	var turns []turn
	for line := range strings.Lines(log) {
		switch {
		case strings.Contains(line, "this replica leads"):
			at, fields := parseLine(line)
			turns = append(turns, turn{term: fields.Term, life: life, begun: at.Add(-fields.took()), logged: at})
		case strings.Contains(line, "this replica no longer leads") && len(turns) > 0:
			turns[len(turns)-1].lost, _ = parseLine(line)
		}
	}
	return turns
}

// allTurns returns the terms of all processes, in order.
func (r *run) allTurns() []turn {
	var all []turn
	for i, process := range r.processes {
		all = append(all, turnsOf(i+1, process.Log())...)
	}
	slices.SortFunc(all, func(a, b turn) int { return cmp.Compare(a.term, b.term) })
	return all
}

// terms returns the terms as the lives of the Collector, and the batches of each.
func (r *run) terms() ([]Life, []*Batch) {
	turns := r.allTurns()
	var lives []Life
	for _, of := range turns {
		lives = append(lives, r.lifeOf(of))
	}
	var batches []*Batch
	newest := 0
	for _, batch := range r.sink.Batches() {
		of, ok := turnOf(turns, batch)
		if !ok {
			r.t.Errorf("seed %d: process %d has emitted something at %s and never led", r.seed, batch.Life, batch.At.Format(clock))
		}
		copied := *batch
		copied.Life = of.term
		newest = max(newest, of.term)
		copied.Late = of.term < newest || len(laterThan(turns, of, batch.At)) > 0
		batches = append(batches, &copied)
	}
	r.result.Terms = len(turns)
	return lives, batches
}

// turnOf returns the term in which a batch was emitted.
func turnOf(turns []turn, batch *Batch) (of turn, ok bool) {
	for _, t := range turns {
		if t.life == batch.Life && !t.begun.After(batch.Begun) {
			of, ok = t, true
		}
	}
	return of, ok
}

// laterThan returns the later terms that had begun by a time.
func laterThan(turns []turn, of turn, at time.Time) []turn {
	var later []turn
	for _, t := range turns {
		if t.term > of.term && t.logged.Before(at) {
			later = append(later, t)
		}
	}
	return later
}

// lifeOf returns when a term ended, and whether in order. If its leader could not publish anything before that, the time is
// that since when it could not.
func (r *run) lifeOf(of turn) Life {
	process := r.lives[of.life-1]
	life := Life{Number: of.term, Ended: process.Ended, Killed: process.Killed}
	if !of.lost.IsZero() {
		life.Ended, life.Killed = of.lost, true
	}
	if !life.Killed {
		return life
	}
	end := life.Ended
	silent := func(from, to time.Time) {
		if !from.After(end) && (to.IsZero() || !to.Add(renewDeadline+causeSlack).Before(end)) && from.Before(life.Ended) {
			life.Ended = from
		}
	}
	for _, i := range r.isolations {
		if i.life == of.life {
			silent(i.from, i.to)
		}
	}
	for _, c := range r.caused {
		if c.Kind.silences() {
			silent(c.From, c.To)
		}
	}
	if !of.lost.IsZero() && life.Ended.Equal(of.lost) { // nothing explains it, such as a machine that is too slow
		r.result.Done["terms lost without a fault"]++
		life.Ended = of.lost.Add(-renewDeadline)
	}
	return life
}

// silences reports whether the leader may be unable to publish anything during this.
func (k Kind) silences() bool {
	switch k {
	case APIServerKilled, APIServerStopped, HistoryLost, HistoryLostDown, ConnectionsCut, ConnectionsReset, ConnectionsSlow,
		ConnectionsHalfOpen, NotFoundPages:
		return true
	}
	return false
}

// arrival is how long a batch may take from its beginning to the sink.
const arrival = 2 * time.Second

// secondLeaders returns the batches that were begun after a later term.
func (r *run) secondLeaders() []string {
	if !r.isReplicated() {
		return nil
	}
	found, interrupted := begunLate(r.allTurns(), r.sink.Batches(), r.isolations)
	r.result.Done["batches that a pause interrupted"] += interrupted
	return found
}

// begunLate returns the batches that were begun after a later term. One that was about to begin when its process was stopped
// arrives when that goes on, and is only counted.
func begunLate(turns []turn, batches []*Batch, isolations []isolation) (found []string, interrupted int) {
	afterPause := map[int]bool{} // isolations, by index
	for _, batch := range batches {
		of, _ := turnOf(turns, batch)
		later := laterThan(turns, of, batch.Begun)
		if len(later) == 0 {
			continue
		}
		i := slices.IndexFunc(isolations, func(i isolation) bool {
			return i.paused && i.life == batch.Life && batch.Begun.After(i.from) && (i.to.IsZero() || batch.Begun.Before(i.to.Add(arrival)))
		})
		if i >= 0 && !afterPause[i] {
			afterPause[i] = true
			interrupted++
			continue
		}
		found = append(found, fmt.Sprintf("a batch of term %d arrived at %s, after term %d had begun at %s",
			of.term, batch.Begun.Format(clock), later[0].term, later[0].logged.Format(clock)))
	}
	return found, interrupted
}

const reasonTakeover = "takeover"

// restated reports whether the initial state of a namespace was emitted again after a batch, because of a takeover by a
// replica that did not know what was emitted.
func (e Evidence) restated(namespace string, after *Batch) bool {
	if !e.Replicas {
		return false
	}
	for _, batch := range e.Batches {
		if batch.At.Before(after.At) {
			continue
		}
		for _, record := range batch.Records {
			if record.Resource != e.Resource || record.Event != gapEvent {
				continue
			}
			if g := newGap(record, batch.At); g.Reason == reasonTakeover && (g.Namespace == "" || g.Namespace == namespace) {
				return true
			}
		}
	}
	return false
}
