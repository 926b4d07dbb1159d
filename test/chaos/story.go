package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// maxStories is the number of findings whose whole story is printed.
const maxStories = 5

// Stories returns what the sink has stored about the objects that findings name by UID, with the gaps of the resource
// and the lives of the Collector: everything needed to explain a finding.
func (v Verdict) Stories(e Evidence) []string {
	var stories []string
	for _, finding := range slices.Concat(v.Differences, v.Lost) {
		uid := finding
		if _, after, ok := strings.Cut(finding, "uid="); ok {
			uid = after
		}
		uid, _, _ = strings.Cut(strings.TrimRight(uid, ","), " ")
		uid = strings.TrimRight(uid, ",")
		var lines []string
		for _, event := range e.Events {
			if event.UID == uid {
				lines = append(lines, fmt.Sprintf("etcd: %s %s@%d", event.Type, event.Key, event.Revision))
			}
		}
		for _, batch := range e.Batches {
			for _, record := range batch.Records {
				if record.Object != nil && record.Object.UID == uid {
					lines = append(lines, fmt.Sprintf("%s life %d: %s %s", batch.At.Format(clock), batch.Life, record.Object, batch.Doubt))
				}
			}
		}
		if stories = append(stories, finding+"\n"+strings.Join(lines, "\n")); len(stories) == maxStories {
			break
		}
	}
	if len(stories) == 0 {
		return nil
	}
	var all []string
	for _, life := range e.Lives {
		all = append(all, fmt.Sprintf("life %d ended at %s, killed: %t", life.Number, life.Ended.Format(clock), life.Killed))
	}
	for _, batch := range e.Batches {
		for _, record := range batch.Records {
			if record.Resource == e.Resource && record.Object == nil {
				all = append(all, fmt.Sprintf("%s life %d: %s %v %s", batch.At.Format(clock), batch.Life, record.Event, record.Stream, batch.Doubt))
			}
		}
	}
	for _, g := range e.DeniedGaps {
		all = append(all, "refused permanently: "+g.String())
	}
	return append(stories, strings.Join(all, "\n"))
}
