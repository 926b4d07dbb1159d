package watchlist

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// Who leaves out the objects of other shards is logged once, and again when it changes. Many events of a few objects prove
// nothing.
func TestWhoDividesIsLogged(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	pods := schema.GroupResource{Resource: "pods"}
	r := NewReader(Options{
		Scope: scope.New(pods, "", "", "").Of(shard.Shard{Index: 1, Total: 2}), Plan: redact.NewPlan("", "pods"), Logger: zap.New(core),
	})
	next := 0
	deliver := func(own bool, times int) {
		for {
			uid := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, next)).String()
			next++
			if r.Scope.Shard.Owns(uid, "") != own {
				continue
			}
			for range times {
				_, foreign := r.foreign(fmt.Appendf(nil, `{"metadata":{"name":"a","uid":%q,"resourceVersion":"%d"}}`, uid, next))
				assert.NotEqual(t, own, foreign)
			}
			return
		}
	}
	said := func() []string {
		var messages []string
		for _, entry := range logs.TakeAll() {
			messages = append(messages, entry.Message)
		}
		return messages
	}
	const byServer, byReader = "the API server sends only the objects of this shard", "the API server sends the objects of all shards, passing over those of others"

	deliver(true, 1000)
	assert.Empty(t, said())
	for range 200 {
		deliver(true, 2)
	}
	assert.Equal(t, []string{byServer}, said())
	r.divider.begin() // the same server
	for range 200 {
		deliver(true, 1)
	}
	assert.Empty(t, said())
	r.divider.begin() // another one
	deliver(false, 1)
	assert.Equal(t, []string{byReader}, said())
	for range 200 {
		deliver(true, 1)
	}
	assert.Empty(t, said(), "the stream has all shards")
	r.divider.begin()
	for range 200 {
		deliver(true, 1)
	}
	assert.Equal(t, []string{byServer}, said())
}
