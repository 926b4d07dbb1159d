package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Usage is the resources that a process has used so far.
type Usage struct {
	Resident     int64 // bytes, now
	PeakResident int64 // bytes
	CPU          time.Duration
}

// clockTick is the unit of times in /proc on every current Linux.
const clockTick = 10 * time.Millisecond

// UsageOf reads the resources that a process has used so far. It works only on Linux.
func UsageOf(t testing.TB, pid int) Usage {
	t.Helper()
	var u Usage
	status := readProc(t, pid, "status")
	for line := range strings.Lines(status) {
		key, kilobytes, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &u.Resident, "VmHWM": &u.PeakResident}[key]
		if into == nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kilobytes), "kB")), 10, 64)
		if err != nil {
			t.Fatalf("cannot read %s: %v", key, err)
		}
		*into = n << 10
	}
	stat := readProc(t, pid, "stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // from the third field on
	for _, field := range fields[11:13] {                               // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatalf("cannot read the time of the processor: %v", err)
		}
		u.CPU += time.Duration(n) * clockTick
	}
	return u
}

func readProc(t testing.TB, pid int, name string) string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
