package chaos

import (
	"reflect"
	"testing"
	"time"
)

func TestSeedDecidesTheSchedule(t *testing.T) {
	settings, faults := Draw(7, 5*time.Minute, 1)
	again, same := Draw(7, 5*time.Minute, 1)
	if settings != again || !reflect.DeepEqual(faults, same) {
		t.Error("the same seed gives another schedule")
	}
	if _, other := Draw(8, 5*time.Minute, 1); reflect.DeepEqual(faults, other) {
		t.Error("another seed gives the same schedule")
	}
}

func TestLongScheduleHasEveryFault(t *testing.T) {
	_, faults := Draw(1, 6*time.Minute, 1)
	met := map[Kind]bool{}
	for _, f := range faults {
		met[f.Kind] = true
	}
	for _, w := range weights {
		if !met[w.kind] {
			t.Errorf("no %s in six minutes", w.kind)
		}
	}
}
