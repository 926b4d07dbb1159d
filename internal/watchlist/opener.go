package watchlist

import (
	"context"
	"io"
	"time"
)

// Request asks the API server for one response: a watch, or one page of a LIST.
type Request struct {
	Resource *Resource

	// List asks for a page of a LIST instead of a watch.
	List bool

	// SendInitialEvents makes the watch begin with the objects that exist (WatchList):
	// sendInitialEvents=true&resourceVersionMatch=NotOlderThan.
	// https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists
	SendInitialEvents bool

	// MetadataOnly asks for the metadata of the objects instead of the objects (PartialObjectMetadata), which
	// costs the server a fraction. A server that does not know how sends the objects. Of metadata, no more need
	// come than identifies the objects.
	// https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
	MetadataOnly bool

	// ResourceVersion is where the watch resumes, or how old the snapshot may be. "" leaves it out.
	ResourceVersion string

	// Limit and Continue page a LIST. Zero and "" leave them out.
	Limit    int
	Continue string

	// Timeout is how long the server should keep a watch open (timeoutSeconds). Zero leaves it to the
	// server.
	Timeout time.Duration

	// FreshConnection opens the response on a new TCP connection, so that a bad API server behind a load
	// balancer can be left.
	FreshConnection bool

	// OnSent, if set, is called once, from Open, when the request is about to be sent: after it has waited for the
	// rate limit and its turn. Clocks that judge the server start here.
	OnSent func()
}

// Opener opens one response body of the API server. It is safe for concurrent use.
//
// An error for an answer outside 2xx wraps an *apierrors.StatusError (k8s.io/apimachinery/pkg/api/errors) if Kubernetes
// gave it, or if its status only asks for another attempt (429, 5xx). Other answers, and bodies that are neither a
// watch nor a list, are a [*ForeignAnswerError]. Every other error is one of the transport, or ctx's.
//
// The body is JSON, of a watch one event on each line. Ending ctx ends the body. The caller closes the body.
type Opener interface {
	Open(ctx context.Context, req Request) (io.ReadCloser, error)
}
