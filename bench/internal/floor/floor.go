// Package floor reads a watch with the least possible work: it splits the bytes at newlines, or metadata by the lengths
// of their protobuf messages, and counts. No client that reads frames with Go's HTTP client can be faster.
package floor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
)

// Run reads the resources until ctx ends.
func Run(ctx context.Context, o contender.Options) ([]contender.Stamp, error) {
	client, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	readers := make([]reader, len(o.Paths()))
	var running sync.WaitGroup
	for i, path := range o.Paths() {
		readers[i].progress, readers[i].stamp = o.Progress, o.Stamps != ""
		running.Go(func() { readers[i].err = readers[i].read(ctx, client, o, path) })
	}
	running.Wait()
	var stamps []contender.Stamp
	for i := range readers {
		err = errors.Join(err, readers[i].err)
		stamps = append(stamps, readers[i].stamps...)
	}
	return stamps, err
}

func newClient(o contender.Options) (*http.Client, error) {
	ca, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if o.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(o.Certificate, o.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: !o.Gzip,
		// The same as in our receiver.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, MaxReceiveBufferPerConnection: 64 << 20},
	}}, nil
}

type reader struct {
	progress *contender.Progress
	stamp    bool

	complete bool
	stamps   []contender.Stamp
	err      error
}

func (r *reader) read(ctx context.Context, client *http.Client, o contender.Options, path string) error {
	const query = "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=3600"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Server+"/"+path+query, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept(o))
	res, err := client.Do(req)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", res.Status)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		return unlessEnded(ctx, r.messages(res.Body))
	}
	return unlessEnded(ctx, r.frames(res.Body))
}

// accept returns our receiver's Accept header, unless metadata is requested as JSON.
func accept(o contender.Options) string {
	const asMetadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	switch {
	case o.Metadata && o.JSON:
		return runtime.ContentTypeJSON + asMetadata
	case o.Metadata:
		return runtime.ContentTypeProtobuf + asMetadata + "," + runtime.ContentTypeJSON + asMetadata
	}
	return runtime.ContentTypeJSON
}

func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (r *reader) frames(body io.Reader) error { return split(body, lineEnd, r.frame) }

// lineEnd returns where the first line ends, of which seen bytes were already checked; 0: not yet.
func lineEnd(rest []byte, seen int) int {
	if at := bytes.IndexByte(rest[seen:], '\n'); at >= 0 {
		return seen + at + 1
	}
	return 0
}

// split passes each complete part, as found by end, to take.
func split(body io.Reader, end func(rest []byte, seen int) int, take func([]byte)) error {
	buffer, kept := make([]byte, 64<<10), 0
	for {
		if kept == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
		n, err := body.Read(buffer[kept:])
		rest := buffer[:kept+n]
		for at := end(rest, kept); at > 0; at = end(rest, 0) {
			take(rest[:at])
			rest = rest[at:]
		}
		kept = copy(buffer, rest)
		if err != nil {
			return err
		}
	}
}

var (
	bookmark   = []byte(`{"type":"BOOKMARK"`)
	endsState  = []byte(`"k8s.io/initial-events-end":"true"`)
	versionKey = []byte(`"resourceVersion":"`)
)

func (r *reader) frame(line []byte) {
	isBookmark := bytes.HasPrefix(line, bookmark)
	r.count(isBookmark, isBookmark && bytes.Contains(line, endsState), func() string {
		// The replay server sends the object's own version first.
		_, after, _ := bytes.Cut(line, versionKey)
		digits, _, _ := bytes.Cut(after, []byte{'"'})
		return string(digits)
	})
}

func (r *reader) count(isBookmark, endsState bool, version func() string) {
	switch {
	case isBookmark:
		if endsState {
			r.complete = true
			r.progress.CompleteOne()
		}
	case !r.complete:
		r.progress.Objects.Add(1)
	default:
		r.progress.Changes.Add(1)
		if r.stamp {
			if version, err := strconv.ParseUint(version(), 10, 64); err == nil {
				r.stamps = append(r.stamps, contender.Stamp{Version: version, At: contender.Now()})
			}
		}
	}
}
