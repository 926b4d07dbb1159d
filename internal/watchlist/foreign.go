package watchlist

import (
	"fmt"
	"net/http"
)

// ForeignAnswerError is an answer that did not come from the Kubernetes API but from a proxy, a login server or an
// ingress controller, whatever its status. It proves nothing about the resource, its history or our rights, and so it
// is not an *apierrors.StatusError. An [Opener] returns it, and so do the bodies that it opens.
type ForeignAnswerError struct {
	Host        string
	StatusCode  int    // of the response
	ContentType string // media type without parameters, "" if there is none
	Is          string // what came instead of a Kubernetes answer; continues "answered 404 Not Found with"
	Hint        string // what may be wrong; may be empty
}

func (e *ForeignAnswerError) Error() string {
	status := fmt.Sprint(e.StatusCode)
	if text := http.StatusText(e.StatusCode); text != "" {
		status += " " + text
	}
	text := fmt.Sprintf("%s answered %s with %s, which is no answer of the Kubernetes API", e.Host, status, e.Is)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}
