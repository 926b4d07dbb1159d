package shard

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/sharding"
)

func uid(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&0xffffffffffff)
}

// The package of the API machinery decides what the API server does.
func TestObjectsBelongToTheShardThatTheAPIServerChooses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, total := range []int{2, 3, 4, 5, 7, 16, 100} {
		counts := make([]int, total)
		for range 2000 {
			value, owners := uid(r), 0
			for index := range total {
				s := Shard{Index: index, Total: total}
				owns := s.Owns(value, "ignored")
				assert.Equal(t, requirement(t, s).owns(value), owns, "%s: %s", s, value)
				assert.Equal(t, owns, s.OwnsBytes([]byte(value), nil))
				if owns {
					counts[index]++
					owners++
				}
			}
			require.Equal(t, 1, owners, value)
		}
		if total <= 7 {
			for index, n := range counts {
				assert.InDelta(t, 2000/total, n, 200, "shard %d of %d", index, total)
			}
		}
	}
}

// requirement is the range of hashes that a selector names.
func requirement(t *testing.T, s Shard) hashes {
	var field, start, end string
	_, err := fmt.Sscanf(strings.NewReplacer("(", " ", ")", " ", ",", " ", "'", " ").Replace(s.Selector()), "shardRange %s %s %s", &field, &start, &end)
	require.NoError(t, err, s.Selector())
	require.Equal(t, "object.metadata."+s.By.String(), field)
	require.Len(t, start, len("0x")+16)
	return hashes{start, end}
}

type hashes struct{ start, end string }

func (h hashes) owns(value string) bool {
	hash := "0x" + strings.TrimPrefix(sharding.HashField(value), "0x")
	return !sharding.HexLess(hash, h.start) && sharding.HexLess(hash, h.end)
}

func TestShardsMeetWithoutAGap(t *testing.T) {
	whole := new(big.Int).Lsh(big.NewInt(1), 64)
	for total := 2; total <= 64; total++ {
		for index := range total {
			want := new(big.Int).Mul(big.NewInt(int64(index)), whole)
			assert.Equal(t, want.Div(want, big.NewInt(int64(total))).Uint64(), bound(index, total))
			if index > 0 {
				assert.Equal(t, Shard{Index: index - 1, Total: total}.last()+1, bound(index, total))
			}
		}
		assert.Equal(t, ^uint64(0), Shard{Index: total - 1, Total: total}.last())
	}
	assert.Equal(t, "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')", Shard{Total: 2}.Selector())
	assert.Equal(t, "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
		Shard{Index: 1, Total: 2, By: Namespace}.Selector())
}

func TestNothingIsDivided(t *testing.T) {
	for _, s := range []Shard{{}, {Total: 1}} {
		assert.True(t, s.Owns("a", "b"))
		assert.Empty(t, s.Selector())
		assert.Empty(t, s.String())
	}
}

func TestNamespacesStayTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, namespace := range []string{"shop", "pay", "kube-system", ""} {
		owner := -1
		for range 50 {
			for index := range 3 {
				if (Shard{Index: index, Total: 3, By: Namespace}).Owns(uid(r), namespace) {
					if owner < 0 {
						owner = index
					}
					assert.Equal(t, owner, index, namespace)
				}
			}
		}
		assert.GreaterOrEqual(t, owner, 0)
	}
}

func TestRelationsOfShards(t *testing.T) {
	of := func(index, total int) Shard { return Shard{Index: index, Total: total} }
	for _, c := range []struct {
		a, b             Shard
		covers, overlaps bool
	}{
		{Shard{}, of(3, 4), true, true},
		{of(3, 4), Shard{}, false, true},
		{of(0, 2), of(0, 4), true, true},
		{of(0, 2), of(1, 4), true, true},
		{of(0, 2), of(2, 4), false, false},
		{of(1, 4), of(0, 2), false, true},
		{of(1, 3), of(1, 2), false, true},
		{of(2, 3), of(0, 2), false, false},
		{of(1, 4), Shard{Index: 1, Total: 4, By: Namespace}, false, true},
	} {
		assert.Equal(t, c.covers, c.a.Covers(c.b), "%v covers %v", c.a, c.b)
		assert.Equal(t, c.overlaps, c.a.Overlaps(c.b), "%v overlaps %v", c.a, c.b)
		assert.Equal(t, c.overlaps, c.b.Overlaps(c.a), "%v overlaps %v", c.b, c.a)
	}
}

func TestOwnsAllocatesNothing(t *testing.T) {
	s, value := Shard{Index: 1, Total: 3}, uid(rand.New(rand.NewPCG(5, 6)))
	bytes := []byte(value)
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Owns(value, "shop"); s.OwnsBytes(bytes, nil) }))
}
