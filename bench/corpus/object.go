package corpus

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Marks in the templates for the parts that differ in each object.
const (
	nameMark      = "@NAME@"
	namespaceMark = "@NAMESPACE@"
	uidMark       = "@UID@"
	versionMark   = "@VERSION@"
)

// object is a typed object of the API, or an unstructured one.
type object interface {
	metav1.Object
}

// stateNote is part of the state of every object. It differs in each version, because the receiver does not emit a version
// that differs from the one before in nothing else.
const stateNote = "version " + versionMark

// created is the creation time of every object.
var created = metav1.NewTime(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))

func metadata(r *source, labels map[string]string, annotations map[string]string) metav1.ObjectMeta {
	app := r.word()
	all := map[string]string{
		"app.kubernetes.io/name":       app,
		"app.kubernetes.io/instance":   nameMark,
		"app.kubernetes.io/version":    r.version(),
		"app.kubernetes.io/managed-by": "Helm",
	}
	for key, value := range labels {
		all[key] = value
	}
	return metav1.ObjectMeta{
		Name:              nameMark,
		Namespace:         namespaceMark,
		UID:               uidMark,
		ResourceVersion:   versionMark,
		Generation:        1 + r.Int64N(9),
		CreationTimestamp: created,
		Labels:            all,
		Annotations:       annotations,
	}
}
