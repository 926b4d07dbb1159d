package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const emitted = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[
{"observedTimeUnixNano":"1000000000","eventName":"k8s.snapshot.end","body":{"stringValue":"initial state of pods ends"},"attributes":[{"key":"k8s.resource.name","value":{"stringValue":"pods"}}]},
{"observedTimeUnixNano":"2000000000","eventName":"k8s.object.added","body":{"stringValue":"Pod shop/old added"},"attributes":[{"key":"k8s.object.resource_version","value":{"stringValue":"9"}}]}
]}]}]}
{"resourceLogs":[{"scopeLogs":[{"logRecords":[
{"observedTimeUnixNano":"3200000000","eventName":"k8s.event","body":{"stringValue":"Deployment shop/web ScalingReplicaSet: up"},"attributes":[{"key":"k8s.object.resource_version","value":{"stringValue":"2"}},{"key":"k8s.event.resource_version","value":{"stringValue":"12"}}]},
{"observedTimeUnixNano":"3000000000","eventName":"k8s.object.added","body":{"stringValue":"Deployment shop/web added (kubectl-create)"},"attributes":[{"key":"k8s.object.generation","value":{"intValue":"1"}},{"key":"k8s.object.resource_version","value":{"stringValue":"11"}}]},
{"observedTimeUnixNano":"3150000000","eventName":"k8s.object.deleted","body":{"stringValue":"Deployment shop/web deleted"},"attributes":[{"key":"k8s.object.resource_version","value":{"stringValue":"21"}}]}
]}]}]}
`

func TestRender(t *testing.T) {
	lines := strings.ReplaceAll(emitted, ",\n", ",")
	lines = strings.ReplaceAll(strings.ReplaceAll(lines, "[\n", "["), "}\n]", "}]")
	all, err := decode([]byte(lines + `{"resourceLogs":[{"scope`)) // which is being written
	if err != nil {
		t.Fatal(err)
	}
	if missing, want := all.missingSnapshots(), "deployments, replicasets, events"; missing != want {
		t.Errorf("the initial state of %q is missing, want %q", missing, want)
	}
	const want = `# kubectl create
  0.0s  Deployment shop/web added (kubectl-create)
  0.2s  Deployment shop/web ScalingReplicaSet: up

# kubectl delete
  0.2s  Deployment shop/web deleted
`
	if got := render(all, []chapter{{"kubectl create", 10}, {"kubectl delete", 20}}); got != want {
		t.Errorf("the story is\n%s\nwant\n%s", got, want)
	}
	if _, err := decode([]byte("x\n")); err == nil {
		t.Error("a line that is no JSON was read")
	}
}

func TestReplaceStory(t *testing.T) {
	before := "# Title\n\n" + beginMark + "```\nold\n```\n" + endMark + "\nmore\n"
	page, err := replaceStory(before, "new\n")
	if want := strings.Replace(before, "old", "new", 1); err != nil || page != want {
		t.Errorf("the page is %q, %v, want %q", page, err, want)
	}
	if _, err := replaceStory("# Title\n", "new\n"); err == nil {
		t.Error("a page without marks was changed")
	}
}

// The page has a whole story: all chapters, with lines as they are rendered, by which the Deployment and everything that it
// owns comes and goes.
func TestPageHasTheStory(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/story.md")
	if err != nil {
		t.Fatal(err)
	}
	_, story, _, err := parts(string(page))
	if err != nil {
		t.Fatal(err)
	}
	story = strings.TrimSuffix(strings.TrimPrefix(story, "```\n"), "```\n")
	form := regexp.MustCompile(`^ *\d+\.\ds  (Deployment|ReplicaSet|Pod) shop/web\S* \S`)
	var titles []string
	alive := map[string]bool{}
	for line := range strings.Lines(story) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "# "); ok {
			titles = append(titles, title)
		} else if line != "" && !form.MatchString(line) {
			t.Errorf("this line has not the form of a summary: %q", line)
		} else if fields := strings.Fields(line); len(fields) > 3 {
			switch object := fields[1] + " " + fields[2]; fields[3] {
			case "added":
				alive[object] = true
			case "modified":
				if !alive[object] {
					t.Errorf("%s was modified before it was added", object)
				}
			case "deleted":
				if !alive[object] {
					t.Errorf("%s was deleted before it was added", object)
				}
				alive[object] = false
			}
		}
	}
	objects := 0
	for object, is := range alive {
		if objects++; is {
			t.Errorf("%s was not deleted", object)
		}
	}
	// A Deployment, two ReplicaSets, and the pods of both and those that scaling added.
	if want := 1 + 2 + 2*replicas + scaledTo - replicas; objects < want {
		t.Errorf("the story is about %d objects, want at least %d", objects, want)
	}
	want := []string{"kubectl create", "kubectl set image", "kubectl scale", "kubectl delete"}
	if len(titles) != len(want) {
		t.Fatalf("the chapters are %q, want those of %q", titles, want)
	}
	for i, title := range titles {
		if !strings.HasPrefix(title, want[i]) {
			t.Errorf("chapter %d is %q, want that of %q", i+1, title, want[i])
		}
	}
	if strings.Count(story, "(kubectl-create)") != 1 || strings.Count(story, "(kubectl-set)") != 1 || strings.Count(story, "(kubectl)") != 1 {
		t.Error("the story does not name each manager of a person once")
	}
}
