package watchlist

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

const stillReading = "still reading initial state"

// withCrowd runs f with a Crowd that logs what is returned.
func withCrowd(t *testing.T, f func(*Crowd)) *observer.ObservedLogs {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	crowd := NewCrowd(zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { crowd.Run(ctx) })
	f(crowd)
	cancel()
	running.Wait()
	return logs.FilterMessage(stillReading)
}

// An initial state that takes 29 seconds is reported twice, and never again once it is complete. The next one, which
// recovers an expired history, is not an initial state.
func TestProgressOfALongInitialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []fakeStep
		var size int64
		for n := range 9 { // every three seconds, until 27
			line := added(fmt.Sprint("pod-", n), n+1)
			size = int64(len(line) + 1)
			steps = append(steps, after(3*time.Second, line))
		}
		again := append([]fakeStep(nil), steps...)
		steps = append(steps, after(2*time.Second, markerLine(9)))
		s := &fakeServer{answers: func(n int, req Request) fakeAnswer {
			switch {
			case n == 0:
				return fakeAnswer{steps: append(steps, after(time.Minute, errorLine(410, "Expired")))}
			case req.SendInitialEvents:
				return fakeAnswer{steps: append(again, append(lines(markerLine(20)), minutely(20, 20)...)...)}
			}
			return fakeAnswer{steps: lines(errorLine(410, "Expired")), end: io.EOF}
		}}
		logs := withCrowd(t, func(crowd *Crowd) {
			s.read(t, 5*time.Minute, func(o *Options) { o.Crowd = crowd })
		})
		snapshots := 0
		for _, request := range s.requests {
			if request.SendInitialEvents {
				snapshots++
			}
		}
		require.Equal(t, 2, snapshots)
		require.Equal(t, 2, logs.Len(), "%v", logs.All())
		for i, entry := range logs.All() {
			objects := int64(3 * (i + 1)) // at 10 and at 20 seconds
			fields := entry.ContextMap()
			assert.Equal(t, zapcore.InfoLevel, entry.Level)
			assert.Equal(t, "pods", fields["resource"])
			assert.Equal(t, time.Duration(i+1)*progressInterval, fields["for"])
			assert.Equal(t, objects, fields["objects"])
			assert.Equal(t, objects*size, fields["bytes"])
			assert.Equal(t, int64(0), fields["objects_per_second"], "three in ten seconds")
			assert.Equal(t, (3*size+5)/10, fields["bytes_per_second"])
		}
	})
}

// Initial states that are read at the same time are in one entry, with those that have been read for long. The rate is
// that since the last entry.
func TestProgressOfACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := withCrowd(t, func(crowd *Crowd) {
			var all []*initialProgress
			for i := range 7 {
				all = append(all, crowd.beginInitial(scope.New(schema.GroupResource{Resource: "pods"}, fmt.Sprint("ns-", i), "", "")))
				all[i].note(100, 5000)
			}
			time.Sleep(5 * time.Second)
			late := crowd.beginInitial(scope.New(schema.GroupResource{Resource: "secrets"}, "", "", ""))
			late.note(1_000_000, 1)
			time.Sleep(6 * time.Second)
			crowd.endInitial(late)
			for _, p := range all[1:] {
				crowd.endInitial(p)
			}
			all[0].note(400, 15_000)
			time.Sleep(10 * time.Second)
			crowd.endInitial(all[0])
			time.Sleep(time.Minute)
		})
		require.Equal(t, 2, logs.Len(), "%v", logs.All())
		crowd, one := logs.All()[0].ContextMap(), logs.All()[1].ContextMap()
		assert.Equal(t, int64(7), crowd["resources"])
		assert.Len(t, crowd["examples"], crowdExamples)
		assert.Equal(t, int64(700), crowd["objects"])
		assert.Equal(t, int64(35_000), crowd["bytes"])
		assert.Equal(t, int64(70), crowd["objects_per_second"])
		assert.Equal(t, int64(3500), crowd["bytes_per_second"])
		assert.NotContains(t, one, "resources")
		assert.Equal(t, "ns-0", one["namespace"])
		assert.Equal(t, int64(400), one["objects"])
		assert.Equal(t, int64(20_000), one["bytes"])
		assert.Equal(t, int64(30), one["objects_per_second"])
		assert.Equal(t, int64(1500), one["bytes_per_second"])
	})
}
