package watchlist

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

func TestCrowdLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		crowd := NewCrowd(zap.New(core))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { crowd.Run(ctx) })

		say := func(n int, cause string) {
			for i := range n {
				of := scope.New(schema.GroupResource{Resource: "pods"}, fmt.Sprint("ns-", i), "", "")
				crowd.log(zapcore.WarnLevel, "cannot read resource", cause, of, zap.Error(assert.AnError))
			}
		}
		say(350, "connection 0")
		say(1, "forbidden 403")
		assert.Equal(t, 2, logs.Len(), "the first of each is logged at once: %v", logs.All())
		time.Sleep(crowdWindow + time.Second)
		entries := logs.TakeAll()
		if assert.Len(t, entries, 3) {
			assert.Equal(t, int64(349), entries[2].ContextMap()["more"])
			assert.Len(t, entries[2].ContextMap()["examples"], crowdExamples)
			assert.Equal(t, zapcore.WarnLevel, entries[2].Level)
		}

		say(2, "connection 0")
		cancel()
		running.Wait()
		assert.Equal(t, 2, logs.Len(), "the counted entries are logged at the end")
	})
}
