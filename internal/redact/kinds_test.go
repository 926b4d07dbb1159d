package redact

import (
	"cmp"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testobjects"
)

// Decode and Identify agree with the oracle and with encoding/json on an object of every built-in kind, in every form
// in which it may arrive, and no planted secret is emitted. The objects are k8s.io/api's test data, in which every
// field has a value, rather than captured ones; the end-to-end tests capture some.
func TestDecodeAgreesWithEncodingJSONOnEveryBuiltInKind(t *testing.T) {
	for _, o := range testobjects.All(t) {
		t.Run(o.Name(), func(t *testing.T) {
			t.Parallel()
			for _, f := range o.Forms() {
				plan := NewPlan(f.Group, f.Resource)
				checkDecodeAs(t, f.JSON, plan, f.Group, f.Resource)
				obj, _, err := plan.Decode(f.JSON)
				require.NoError(t, err)
				checkAgainstMeta(t, f, obj)

				out := fmt.Sprintf("%+v", obj)
				assert.NotContains(t, out, "planted")
				for _, p := range o.Planted {
					assertNoForm(t, p.Value, out, p.Where)
				}
				require.False(t, t.Failed(), f.Name)
			}
		})
	}
}

// checkAgainstMeta compares the facts from Decode with those that Kubernetes clients read.
func checkAgainstMeta(t *testing.T, f testobjects.Form, obj Object) {
	t.Helper()
	var p metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(f.JSON, &p))
	want := Object{
		Identity:   Identity{UID: string(p.UID), ResourceVersion: p.ResourceVersion, Namespace: p.Namespace, Name: p.Name},
		APIVersion: p.APIVersion,
		Kind:       p.Kind,
		Generation: p.Generation,
		Times:      Times{Created: p.CreationTimestamp.UTC()},
	}
	if p.DeletionTimestamp != nil {
		want.Times.Deleted = p.DeletionTimestamp.UTC()
	}
	for _, manager := range p.ManagedFields {
		if manager.Time != nil && manager.Time.After(want.Times.Updated) {
			want.Times.Updated = manager.Time.UTC()
		}
	}
	owner := metav1.GetControllerOf(&p)
	if owner == nil && len(p.OwnerReferences) > 0 {
		owner = &p.OwnerReferences[0]
	}
	if owner != nil {
		want.Owner = Owner{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: string(owner.UID),
			Controls: owner.Controller != nil && *owner.Controller}
	}
	switch {
	case f.Resource == "events":
		want.Event, want.Times.Observed = eventByEncodingJSON(t, f.JSON)
	case f.Resource == "pods" && f.Group == "":
		want.Pod = podByEncodingJSON(t, f.JSON)
	}
	want.JSON, want.Content, want.Managers, want.Scaler = obj.JSON, obj.Content, obj.Managers, obj.Scaler
	require.Equal(t, want, obj)
}

// eventByEncodingJSON reads what only Events have, and their last observation, with the fields of both groups' types.
func eventByEncodingJSON(t *testing.T, data []byte) (e *Event, observed time.Time) {
	t.Helper()
	type source struct{ Component, Host string }
	var event struct {
		Type, Reason, Action, Message, Note                        string
		ReportingComponent, ReportingController, ReportingInstance string
		Count, DeprecatedCount                                     int64
		Source, DeprecatedSource                                   source
		InvolvedObject, Regarding                                  Reference
		Series                                                     struct {
			Count            int64
			LastObservedTime metav1.MicroTime
		}
		LastTimestamp, DeprecatedLastTimestamp   metav1.Time
		EventTime                                metav1.MicroTime
		FirstTimestamp, DeprecatedFirstTimestamp metav1.Time
	}
	require.NoError(t, json.Unmarshal(data, &event))
	e = &Event{
		Type: event.Type, Reason: event.Reason, Action: event.Action, Note: event.Message + event.Note,
		Count:               cmp.Or(event.Series.Count, event.Count, event.DeprecatedCount),
		Host:                event.Source.Host + event.DeprecatedSource.Host,
		ReportingController: cmp.Or(event.ReportingComponent, event.ReportingController, event.Source.Component, event.DeprecatedSource.Component),
		Regarding:           cmp.Or(event.InvolvedObject, event.Regarding),
	}
	e.ReportingInstance = cmp.Or(event.ReportingInstance, e.Host)
	for _, at := range []time.Time{
		event.Series.LastObservedTime.Time, event.LastTimestamp.Time, event.DeprecatedLastTimestamp.Time,
		event.EventTime.Time, event.FirstTimestamp.Time, event.DeprecatedFirstTimestamp.Time,
	} {
		if !at.IsZero() {
			return e, at.UTC()
		}
	}
	return e, time.Time{}
}

func podByEncodingJSON(t *testing.T, data []byte) *Pod {
	t.Helper()
	var pod struct {
		Metadata metav1.ObjectMeta
		Spec     struct{ NodeName string }
		Status   struct{ Phase, PodIP, StartTime string }
	}
	require.NoError(t, json.Unmarshal(data, &pod))
	return &Pod{
		Node: pod.Spec.NodeName, Phase: pod.Status.Phase, IP: pod.Status.PodIP, Started: pod.Status.StartTime,
		TemplateHash: pod.Metadata.Labels["pod-template-hash"],
	}
}
