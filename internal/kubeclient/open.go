package kubeclient

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const (
	// defaultWatchGrace is how much longer than requested a watch may stay open. Proxies may ignore timeoutSeconds or
	// hold back the end of the response.
	defaultWatchGrace = 30 * time.Second

	// listTimeout bounds a page of a LIST. An API server gives up after a minute (--request-timeout).
	listTimeout = 5 * time.Minute
)

const (
	acceptJSON       = "application/json"
	protobufType     = "application/vnd.kubernetes.protobuf"
	asMetadata       = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asListOfMetadata = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// accept returns the Accept header. Metadata cost the server far less as protobuf than as JSON, mostly because of
// managedFields. Lists of metadata are only used with servers without WatchList, and not worth a second decoder.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources
func accept(req watchlist.Request) string {
	switch {
	case req.MetadataOnly && req.List:
		return acceptJSON + asListOfMetadata + "," + acceptJSON
	case req.MetadataOnly:
		return protobufType + asMetadata + "," + acceptJSON + asMetadata + "," + acceptJSON
	}
	return acceptJSON
}

// Open implements [watchlist.Opener].
func (c *Client) Open(ctx context.Context, req watchlist.Request) (io.ReadCloser, error) {
	limit := listTimeout
	if !req.List {
		limit = 0
		if req.Timeout > 0 {
			limit = req.Timeout + c.watchGrace
		}
	}
	body, err := c.get(ctx, get{
		path:   resourcePath(req),
		query:  c.query(req),
		accept: accept(req),
		fresh:  req.FreshConnection,
		limit:  limit,
		list:   req.List,
		stream: !req.List,
		resume: !req.List && !req.SendInitialEvents,
		onSent: req.OnSent,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot %s: %w", describe(req), err)
	}
	if req.MetadataOnly && !req.List && body.mediaType == protobufType {
		return newMetadataFrames(body), nil
	}
	return &checkedBody{body: body, list: req.List}, nil
}

// describe describes the request for error messages.
func describe(req watchlist.Request) string {
	r := req.Scope
	verb := "watch"
	if req.List {
		verb = "list"
	}
	where := ""
	switch {
	case r.Namespace != "":
		where = " in namespace " + r.Namespace
	case req.API.Namespaced:
		where = " in all namespaces"
	}
	return fmt.Sprintf("%s %s (group %q, version %s)%s", verb, r.Resource, r.Group, req.API.Version, where)
}

// resourcePath returns the path of a resource below the server's base path.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
func resourcePath(req watchlist.Request) []string {
	r := req.Scope
	if req.List && req.API.Namespaced {
		r = r.InRequiredNamespace()
	}
	path := []string{"apis", r.Group, req.API.Version}
	if r.Group == "" {
		path = []string{"api", req.API.Version}
	}
	if r.Namespace != "" {
		path = append(path, "namespaces", r.Namespace)
	}
	return append(path, r.Resource)
}

func (c *Client) query(req watchlist.Request) url.Values {
	q := url.Values{}
	set := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	set("labelSelector", req.Scope.LabelSelector)
	set("fieldSelector", req.Scope.FieldSelector)
	if !c.noShards {
		set("shardSelector", req.Scope.Shard.Selector())
	}
	if req.List {
		if req.Limit > 0 {
			q.Set("limit", strconv.Itoa(req.Limit))
		}
		set("continue", req.Continue)
		if req.Continue == "" && req.ResourceVersion != "" { // a continue token has its own version and rejects another
			q.Set("resourceVersion", req.ResourceVersion)
			q.Set("resourceVersionMatch", versionMatch(req))
		}
		return q
	}
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	set("resourceVersion", req.ResourceVersion)
	if req.SendInitialEvents {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", "NotOlderThan")
	}
	if req.Timeout > 0 {
		q.Set("timeoutSeconds", strconv.Itoa(wholeSeconds(req.Timeout)))
	}
	return q
}

// versionMatch is how the version of a LIST is meant.
func versionMatch(req watchlist.Request) string {
	if req.Exact {
		return "Exact"
	}
	return "NotOlderThan"
}

// wholeSeconds rounds up, since 0 would mean the server's default.
func wholeSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
