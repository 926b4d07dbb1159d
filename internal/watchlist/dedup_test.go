package watchlist

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// dedupQueue notes what comes out and when, since the start.
type dedupQueue struct {
	began      time.Time
	from, full time.Duration // takes nothing from one to the other

	mu    sync.Mutex
	lines []string
}

func (q *dedupQueue) note(line string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, line)
}

func (q *dedupQueue) Offer(c Change) bool {
	if since := time.Since(q.began); q.from <= since && since < q.full {
		return false
	}
	names := map[Type]string{Snapshot: "SNAPSHOT", Added: "ADDED", Modified: "MODIFIED", Deleted: "DELETED", Gap: "GAP",
		SnapshotEnd: "END", Known: "known", Forgotten: "forgotten", Advanced: "advanced", Verified: "verified", Restated: "restated"}
	line := fmt.Sprintf("%s %s %s@%s", time.Since(q.began), names[c.Type], c.Object.Name, c.ReachedVersion())
	if c.Suppressed > 0 {
		line += fmt.Sprintf(" suppressed %d", c.Suppressed)
	}
	if c.Advances {
		line += " advances"
	}
	q.note(line)
	return true
}

func (q *dedupQueue) WaitForRoom(ctx context.Context) error {
	return sleep(ctx, q.full-time.Since(q.began))
}

// playDedup plays lines such as "10s MODIFIED live a@9": when, the type, the origin unless it is live, and the object.
func playDedup(t *testing.T, o Options, q *dedupQueue, script string) []string {
	t.Helper()
	types := map[string]Type{"SNAPSHOT": Snapshot, "ADDED": Added, "MODIFIED": Modified, "DELETED": Deleted, "GAP": Gap, "END": SnapshotEnd,
		"KNOWN": Known, "FORGOTTEN": Forgotten, "ADVANCED": Advanced, "VERIFIED": Verified, "RESTATED": Restated}
	synctest.Test(t, func(t *testing.T) {
		q.began = time.Now()
		o.Emitter, o.DedupInterval, o.Logger, o.Observer, o.Now = q, time.Minute, zap.NewNop(), NopObserver{}, time.Now
		d := newDedup(&o)
		stop := d.start(t.Context())
		for line := range strings.Lines(strings.TrimSpace(script)) {
			fields := strings.Fields(line)
			at, err := time.ParseDuration(fields[0])
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(q.began.Add(at)))
			synctest.Wait()
			c := Change{Type: types[fields[1]], Origin: Live}
			for _, field := range fields[2:] {
				switch field {
				case "recovered":
					c.Origin = Recovered
				case "closes":
					c.Closes = true
				default:
					c.Object.Name, c.Object.ResourceVersion, _ = strings.Cut(field, "@")
				}
			}
			switch c.Type {
			case 0:
				if fields[1] != "STOP" {
					t.Fatalf("unknown type: %s", line)
				}
				stop()
				stop = func() {}
				continue
			case Added, Modified, Deleted, Forgotten:
				c.Advances = c.Origin == Live
			}
			c.Object.UID = c.Object.Name
			c.Key = keyOf(redact.Identity{Name: c.Object.Name})
			if concernsObject(c.Type) {
				c.Object.JSON = "{}"
			} else {
				c.Key = Key{}
			}
			if !d.Offer(c) {
				q.note(fmt.Sprintf("%s refused %s@%s", time.Since(q.began), c.Object.Name, c.Object.ResourceVersion))
			}
		}
		stop()
	})
	return q.lines
}

func TestDedup(t *testing.T) {
	kept := Options{Holding: NewHolding(1 << 20), Restore: func(context.Context, *scope.Scope, func(Stored)) (Progress, error) { return Progress{}, nil }}
	for _, tt := range []struct {
		name   string
		o      Options
		q      *dedupQueue
		script string
		want   string
	}{
		{
			name: "first and last state", o: Options{Holding: NewHolding(1 << 20)},
			script: `
				0s ADDED a@1
				10s MODIFIED a@2
				20s MODIFIED a@3
				59s MODIFIED a@4
				61s MODIFIED a@5
				62s MODIFIED a@6
				10m ADDED b@7`,
			want: `
				0s ADDED a@1 advances
				1m0s MODIFIED a@4 suppressed 2
				1m1s MODIFIED a@5 advances
				2m1s MODIFIED a@6
				10m0s ADDED b@7 advances`,
		},
		{
			name: "only one state follows", o: Options{Holding: NewHolding(1 << 20)},
			script: "0s SNAPSHOT a@1\n1s MODIFIED a@2\n5m STOP",
			want:   "0s SNAPSHOT a@1\n1m0s MODIFIED a@2",
		},
		{
			name: "nothing follows", o: Options{Holding: NewHolding(1 << 20)},
			script: "0s ADDED a@1\n61s MODIFIED a@2\n90s MODIFIED a@3\n5m STOP",
			want:   "0s ADDED a@1 advances\n1m1s MODIFIED a@2 advances\n2m1s MODIFIED a@3",
		},
		{
			name: "what was known before has no window", o: Options{Holding: NewHolding(1 << 20)},
			script: "0s MODIFIED a@1\n1s MODIFIED a@2\n5m STOP",
			want:   "0s MODIFIED a@1 advances\n1m0s MODIFIED a@2",
		},
		{
			name: "the last state goes before the deletion", o: Options{Holding: NewHolding(1 << 20)},
			script: "0s ADDED a@1\n1s MODIFIED a@2\n2s MODIFIED a@3\n3s DELETED a@4\n5m STOP",
			want:   "0s ADDED a@1 advances\n3s MODIFIED a@3 suppressed 1\n3s DELETED a@4 advances",
		},
		{
			name: "and before what is not emitted", o: Options{Holding: NewHolding(1 << 20)},
			script: "0s ADDED a@1\n1s MODIFIED a@2\n3s FORGOTTEN a@4\n5m STOP",
			want:   "0s ADDED a@1 advances\n3s MODIFIED a@2",
		},
		{
			name: "what a comparison finds does not wait", o: Options{Holding: NewHolding(1 << 20)},
			script: "0s ADDED a@1\n1s MODIFIED a@2\n2s MODIFIED recovered a@5\n5m STOP",
			want:   "0s ADDED a@1 advances\n2s MODIFIED a@2\n2s MODIFIED a@5",
		},
		{
			name: "the bound", o: Options{Holding: NewHolding(2*heldOverhead + 10)},
			script: `
				0s ADDED a@1
				0s ADDED b@2
				0s ADDED c@3
				1s MODIFIED a@4
				2s MODIFIED b@5
				3s MODIFIED c@6
				4s MODIFIED c@7
				5s MODIFIED a@8
				5m STOP`,
			want: `
				0s ADDED a@1 advances
				0s ADDED b@2 advances
				0s ADDED c@3 advances
				3s MODIFIED c@6
				4s MODIFIED c@7
				1m0s MODIFIED a@8 suppressed 1
				1m0s MODIFIED b@5`,
		},
		{
			name: "at the end", o: Options{Holding: NewHolding(1 << 20)},
			script: "0s ADDED a@1\n0s ADDED b@2\n1s MODIFIED a@3\n2s MODIFIED b@4\n3s MODIFIED a@5\n4s STOP",
			want:   "0s ADDED a@1 advances\n0s ADDED b@2 advances\n4s MODIFIED b@4\n4s MODIFIED a@5 suppressed 1",
		},
		{
			name: "the queue is full when the interval is over", o: Options{Holding: NewHolding(1 << 20)}, q: &dedupQueue{from: 30 * time.Second, full: 3 * time.Minute},
			script: "0s ADDED a@1\n1s MODIFIED a@2\n40s ADDED b@3\n41s MODIFIED a@4\n70s MODIFIED a@5\n181s MODIFIED a@6\n5m STOP",
			want: `
				0s ADDED a@1 advances
				40s refused b@3
				1m10s refused a@5
				3m0s MODIFIED a@4 suppressed 1
				3m1s MODIFIED a@6 advances`,
		},
		{
			name: "the checkpoint", o: kept,
			script: `
				0s ADDED a@1
				0s ADDED b@2
				1s MODIFIED a@3
				2s ADDED c@4
				3s MODIFIED b@5
				4s MODIFIED a@6
				5s DELETED c@7
				5m STOP`,
			want: `
				0s ADDED a@1 advances
				0s ADDED b@2 advances
				1s advanced @2
				2s ADDED c@4
				4s advanced @4
				5s DELETED c@7
				1m0s MODIFIED a@6 suppressed 1
				1m0s MODIFIED b@5
				1m0s advanced @6
				1m0s forgotten c@7 advances`,
		},
		{
			name: "the checkpoint, and bookmarks", o: kept,
			script: "0s ADDED a@1\n1s MODIFIED a@3\n2s ADVANCED @9\n3s VERIFIED @10\n4s GAP @10\n61s ADVANCED @12",
			want:   "0s ADDED a@1 advances\n1s advanced @1\n3s verified @10\n4s GAP @10\n1m0s MODIFIED a@3\n1m0s advanced @9\n1m1s advanced @12",
		},
		{
			name: "what moves the position lets everything go", o: kept,
			script: "0s ADDED a@1\n0s ADDED b@2\n1s MODIFIED b@3\n1s MODIFIED a@4\n2s GAP closes @9\n3s MODIFIED b@11\n5m STOP",
			want: `
				0s ADDED a@1 advances
				0s ADDED b@2 advances
				1s advanced @2
				2s MODIFIED b@3
				2s advanced @3
				2s MODIFIED a@4
				2s known a@4 advances
				2s GAP @9
				3s advanced @9
				1m0s MODIFIED b@11
				1m0s known b@11 advances`,
		},
		{
			name: "what is known is emitted first", o: kept,
			script: "0s ADDED a@1\n1s MODIFIED a@3\n2s KNOWN a@3\n2s RESTATED @3\n5m STOP",
			want:   "0s ADDED a@1 advances\n1s advanced @1\n2s MODIFIED a@3\n2s known a@3 advances\n2s known a@3\n2s restated @3",
		},
		{
			name: "several at one version", o: kept,
			script: "0s ADDED a@1\n1s MODIFIED a@2\n2s FORGOTTEN x@3\n2s FORGOTTEN y@3\n5m STOP",
			want:   "0s ADDED a@1 advances\n1s advanced @1\n2s forgotten x@3\n2s forgotten y@3\n1m0s MODIFIED a@2\n1m0s advanced @2\n1m0s forgotten x@3 advances\n1m0s forgotten y@3 advances",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := tt.q
			if q == nil {
				q = &dedupQueue{}
			}
			lines := playDedup(t, tt.o, q, tt.script)
			var want []string
			for line := range strings.Lines(strings.TrimSpace(tt.want)) {
				want = append(want, strings.TrimSpace(line))
			}
			assert.Equal(t, want, lines)
			if tt.o.Holding != nil {
				assert.Contains(t, []int64{1 << 20, 2*heldOverhead + 10}, tt.o.Holding.left.Load(), "what waited is given back")
			}
		})
	}
}

// A reader that is stopped while the queue is full does not wait for long. The checkpoint is before what is left.
func TestDedupEndsThoughTheQueueIsFull(t *testing.T) {
	q := &dedupQueue{}
	holding := NewHolding(1 << 20)
	synctest.Test(t, func(t *testing.T) {
		q.began = time.Now()
		d := newDedup(&Options{Emitter: q, DedupInterval: time.Minute, Logger: zap.NewNop(), Observer: NopObserver{}, Now: time.Now, Holding: holding})
		stop := d.start(t.Context())
		for i, kind := range []Type{Added, Modified} {
			d.Offer(Change{Type: kind, Origin: Live, Advances: true, Key: Key{1}, Object: redact.Object{Identity: redact.Identity{Name: "a", ResourceVersion: fmt.Sprint(i + 1)}}})
		}
		q.full = time.Hour
		began := time.Now()
		stop()
		assert.LessOrEqual(t, time.Since(began), 2*liveEmitTimeout)
	})
	assert.Equal(t, []string{"0s ADDED a@1 advances"}, q.lines)
	assert.EqualValues(t, 1<<20, holding.left.Load())
}
