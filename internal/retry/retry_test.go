package retry

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPausesDoubleUpToTheLongestAndStartOver(t *testing.T) {
	b := NewBackoff(time.Second, 8*time.Second)
	for range 2 {
		for i, want := range []time.Duration{1, 2, 4, 8, 8, 8} {
			want *= time.Second
			if got := b.NextBackOff(); got < want/2 || got > want*3/2 {
				t.Errorf("pause %d is %v, want %v give or take half of it", i, got, want)
			}
		}
		b.Reset()
	}
}
