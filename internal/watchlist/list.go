package watchlist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listPageItems is the page size of client-go's pager: small enough for any server, large enough for few requests.
const listPageItems = 500

// snapshotLister opens snapshots from servers without WatchList. It lists page by page and writes each item as the
// watch event that WatchList would have sent, then the list's resourceVersion as the end marker. The reader of a
// snapshot need not know which of the two it gets.
type snapshotLister struct {
	pages Opener
}

func (l snapshotLister) Open(ctx context.Context, req Request) (io.ReadCloser, error) {
	// No resourceVersion, unless one is wanted exactly: a consistent read, and the only one that may be paged on every server.
	// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
	version := ""
	if req.Exact {
		version = req.ResourceVersion
	}
	s := &listedSnapshot{
		ctx:   ctx,
		pages: l.pages,
		req: Request{
			Scope: req.Scope, API: req.API, List: true, Limit: listPageItems,
			MetadataOnly: req.MetadataOnly, FreshConnection: req.FreshConnection, OnSent: req.OnSent,
			ResourceVersion: version, Exact: req.Exact,
		},
	}
	if err := s.openPage(); err != nil {
		return nil, err
	}
	return s, nil
}

// listedSnapshot decodes the pages of a LIST item by item as it is read.
type listedSnapshot struct {
	ctx   context.Context
	pages Opener
	req   Request

	page    page // the page being read
	done    bool
	decoder *json.Decoder
	inItems bool
	meta    metav1.ListMeta
	item    json.RawMessage
	out     bytes.Buffer // frames not yet read

	// resourceVersion is that of the first page: if the pages come from different snapshots, the changes between them
	// are later than it.
	resourceVersion string
}

func (s *listedSnapshot) Close() error { return s.page.close() }

func (s *listedSnapshot) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.done {
			return 0, io.EOF
		}
		err := s.step()
		if err != nil {
			err = s.repeatPage(err)
		}
		if err != nil {
			return 0, fmt.Errorf("cannot read a page of the list of %s: %w", s.req.Scope.GroupResource, err)
		}
	}
	return s.out.Read(p)
}

// repeatPage requests a page again that was cut. The first page has no token, so repeating it starts the LIST over.
func (s *listedSnapshot) repeatPage(cause error) error {
	_ = s.page.close()
	for s.req.Continue != "" && s.page.retry(s.ctx, cause) {
		if cause = s.openPage(); cause == nil {
			return nil
		}
	}
	return cause
}

func (s *listedSnapshot) openPage() error {
	if err := s.page.open(s.ctx, s.pages, s.req); err != nil {
		return err
	}
	s.req.OnSent = nil // only the first request of the list counts
	s.decoder, s.inItems, s.meta = json.NewDecoder(&s.page), false, metav1.ListMeta{}
	err := s.expect(json.Delim('{'))
	if err != nil {
		_ = s.page.close()
	}
	return err
}

// step reads until a frame is complete or the page ends.
func (s *listedSnapshot) step() error {
	if s.inItems {
		if s.decoder.More() {
			return s.readItem()
		}
		s.inItems = false
		return s.expect(json.Delim(']'))
	}
	if !s.decoder.More() {
		if err := s.expect(json.Delim('}')); err != nil {
			return err
		}
		return s.endPage()
	}
	token, err := s.decoder.Token()
	if err != nil {
		return decodeError(err)
	}
	switch token {
	case "metadata":
		return decodeError(s.decoder.Decode(&s.meta))
	case "items":
		// An empty list may be null.
		token, err := s.decoder.Token()
		if err == nil && token != nil && token != json.Delim('[') {
			return errNotAList
		}
		s.inItems = token == json.Delim('[')
		return decodeError(err)
	default:
		return decodeError(s.decoder.Decode(&s.item))
	}
}

func (s *listedSnapshot) readItem() error {
	s.item = s.item[:0]
	if err := s.decoder.Decode(&s.item); err != nil {
		return decodeError(err)
	}
	if s.req.Continue != "" && !s.page.isNew(s.item) {
		return nil
	}
	s.out.WriteString(`{"type":"ADDED","object":`)
	// A frame is one line, but the list may be indented.
	if err := json.Compact(&s.out, s.item); err != nil {
		return decodeError(err)
	}
	s.out.WriteString("}\n")
	return nil
}

// endPage continues with the next page or, after the last one, writes the end marker.
func (s *listedSnapshot) endPage() error {
	if s.req.Continue == "" {
		s.resourceVersion = s.meta.ResourceVersion
	}
	err := s.page.close()
	s.page = page{}
	if s.meta.Continue != "" {
		s.req.Continue = s.meta.Continue
		return s.openPage()
	}
	if err != nil {
		return err
	}
	marker, err := json.Marshal(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: s.resourceVersion,
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	if err != nil {
		return err
	}
	s.out.WriteString(`{"type":"BOOKMARK","object":`)
	s.out.Write(marker)
	s.out.WriteString("}\n")
	s.done = true
	return nil
}

func (s *listedSnapshot) expect(want json.Delim) error {
	token, err := s.decoder.Token()
	if err == nil && token != want {
		return errNotAList
	}
	return decodeError(err)
}

var errNotAList = errors.New("not a Kubernetes list")

// decodeError drops the decoder's own message, which may quote input that is not redacted.
func decodeError(err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: bad JSON at byte %d", errNotAList, syntax.Offset)
	case errors.As(err, &mismatch):
		return fmt.Errorf("%w: unexpected type at byte %d", errNotAList, mismatch.Offset)
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}
