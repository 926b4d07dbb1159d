package fold

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/plog"
)

func record(changeType, uid, rv string) Record {
	return Record{UID: uid, ResourceVersion: rv, Type: changeType, Origin: "live"}
}

func TestFoldAndDifferences(t *testing.T) {
	state := Fold([]Record{
		record("SNAPSHOT", "a", "1"), record("ADDED", "b", "2"), record("MODIFIED", "a", "3"),
		record("DELETED", "b", "4"), record("ADDED", "c", "5"), record("DELETED", "never-seen", "6"),
	})
	assert.Equal(t, State{"a": "3", "c": "5"}, state)
	assert.Empty(t, state.Differences(State{"a": "3", "c": "5"}))
	assert.Equal(t, []string{
		"a is at 9 but was emitted at 3",
		"c@5 is gone but its deletion was not emitted",
		"d@7 exists and was not emitted",
	}, state.Differences(State{"a": "9", "d": "7"}))
}

func TestDifferencesByContent(t *testing.T) {
	contents := map[string]string{"a3": "red", "a5": "red", "a7": "green", "b2": "red", "b4": "green"}
	same := func(uid, one, other string) bool { return contents[uid+one] == contents[uid+other] }
	told := Fold([]Record{record("ADDED", "a", "3"), record("ADDED", "b", "2")})
	assert.Empty(t, told.DifferencesBut(State{"a": "5", "b": "2"}, same))
	assert.Len(t, told.Differences(State{"a": "5", "b": "2"}), 1)
	assert.Equal(t, []string{"a is at 7 but was emitted at 3", "b is at 4 but was emitted at 2"}, told.DifferencesBut(State{"a": "7", "b": "4"}, same))
	assert.Len(t, Fold([]Record{record("ADDED", "a", "5")}).DifferencesBut(State{"a": "3"}, same), 1, "a version that is yet to come")
	assert.Len(t, told.DifferencesBut(State{"a": "5"}, same), 1, "b is gone")
}

func TestDuplicates(t *testing.T) {
	relisted := Record{UID: "a", ResourceVersion: "1", Type: "SNAPSHOT", Origin: "relist"}
	initial := Record{UID: "a", ResourceVersion: "1", Type: "SNAPSHOT", Origin: "initial"}
	assert.Empty(t, Duplicates([]Record{record("ADDED", "a", "1"), record("MODIFIED", "a", "1"), record("ADDED", "b", "1"), relisted, relisted}))
	assert.Equal(t, []string{"2 times: a 1 MODIFIED"}, Duplicates([]Record{record("MODIFIED", "a", "1"), record("MODIFIED", "a", "1")}))
	assert.Equal(t, []string{"2 times: a 1 SNAPSHOT"}, Duplicates([]Record{initial, initial, relisted}))
}

func TestDisorder(t *testing.T) {
	assert.Empty(t, Disorder([]Record{record("ADDED", "a", "9"), record("ADDED", "b", "1"), record("MODIFIED", "a", "10"), record("DELETED", "a", "10")}))
	assert.Len(t, Disorder([]Record{record("ADDED", "a", "10"), record("MODIFIED", "a", "9")}), 1)
	assert.Empty(t, Disorder([]Record{record("ADDED", "a", "x"), record("MODIFIED", "a", "b")}), "versions without an order have none")
}

func TestFromLogs(t *testing.T) {
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	attributes := records.AppendEmpty().Attributes()
	attributes.PutStr("k8s.change.type", "DELETED")
	attributes.PutStr("k8s.change.origin", "recovered")
	attributes.PutBool("k8s.change.inferred", true)
	attributes.PutStr("k8s.resource.name", "deployments")
	attributes.PutStr("k8s.resource.group", "apps")
	attributes.PutStr("k8s.namespace.name", "shop")
	attributes.PutStr("k8s.object.name", "web")
	attributes.PutStr("k8s.object.uid", "u")
	attributes.PutStr("k8s.object.resource_version", "7")
	event := records.AppendEmpty().Attributes()
	for key, value := range map[string]string{
		"k8s.change.type": "MODIFIED", "k8s.change.origin": "live", "k8s.resource.name": "events", "k8s.namespace.name": "shop",
		"k8s.object.name": "web-1", "k8s.object.uid": "pod", "k8s.object.resource_version": "6",
		"k8s.event.name": "web-1.18c", "k8s.event.uid": "event", "k8s.event.resource_version": "8",
	} {
		event.PutStr(key, value)
	}
	records.AppendEmpty().Attributes().PutStr("k8s.gap.reason", "expired")
	assert.Equal(t, []Record{{
		UID: "u", Resource: "deployments.apps", Namespace: "shop", Name: "web", ResourceVersion: "7",
		Type: "DELETED", Origin: "recovered", Inferred: true,
	}, {
		UID: "event", Resource: "events", Namespace: "shop", Name: "web-1.18c", ResourceVersion: "8", Type: "MODIFIED", Origin: "live",
	}}, FromLogs(logs))
}
