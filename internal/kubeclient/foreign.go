package kubeclient

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const pageHint = "is it the API server, or a proxy, an ingress or a login page in front of it?"

// mediaType is the header's Content-Type without parameters, or "".
func mediaType(header http.Header) string {
	const longest = 80 // of a plausible type, since it is quoted in messages
	t, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || len(t) > longest {
		return ""
	}
	return t
}

// isPage reports whether a media type is meant for browsers. Kubernetes never sends one.
func isPage(mediaType string) bool {
	return mediaType == "text/html" || strings.HasSuffix(mediaType, "/xml") || strings.HasSuffix(mediaType, "+xml")
}

// describeBody describes a body without quoting it, since it may hold anything, even a Secret. At most limit bytes of
// it were read.
func describeBody(content []byte, limit int, mediaType string) string {
	switch {
	case len(content) == 0:
		return "an empty body"
	case mediaType == "":
		mediaType = "unknown type"
	}
	more := ""
	if len(content) >= limit {
		more = "at least "
	}
	return fmt.Sprintf("%s%d bytes of %s", more, len(content), mediaType)
}

func (b *body) foreign(is string) error {
	return &watchlist.ForeignAnswerError{Host: b.host, StatusCode: b.status, ContentType: b.mediaType, Is: is, Hint: pageHint}
}

// checkedBody checks how the body of a watch or a list begins. Pages come with status 200 too, and not always with the
// content type of a page. A reader that accepted one would lose its position, or all objects.
type checkedBody struct {
	*body
	list    bool
	prefix  []byte // the beginning without blank lines, until it is classified
	checked bool
}

// maxPrefix is how much of a body is checked. Lists name their kind at the beginning, unless the items come first.
const maxPrefix = 1 << 10

func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.checked {
		return n, err
	}
	fresh := p[:n]
	if len(b.prefix) == 0 {
		fresh = bytes.TrimLeft(fresh, "\ufeff \t\r\n") // pages may begin with a byte order mark
	}
	b.prefix = append(b.prefix, fresh[:min(len(fresh), maxPrefix)]...)
	switch b.verdict(err == io.EOF) {
	case isKubernetes:
		b.checked, b.prefix = true, nil
	case isForeign:
		b.prefix = nil
		what := "a body that is not a watch"
		if b.list {
			what = "a body that is not a list"
		}
		return 0, b.foreign(what)
	case isUnknown:
	}
	return n, err
}

type verdict int

const (
	isUnknown verdict = iota // not enough was received
	isKubernetes
	isForeign
)

func (b *checkedBody) verdict(ended bool) verdict {
	content := b.prefix
	if len(content) == 0 {
		return isUnknown
	}
	switch content[0] {
	case '{':
		return beginning(content, b.list)
	case '<', '[', '"':
		return isForeign
	}
	if b.list || !strings.HasSuffix(b.mediaType, "json") {
		return isForeign // plain text
	}
	// An API server's response may be garbled. A page is intact, and it is JSON if its type says so.
	line, _, isLine := bytes.Cut(content, []byte{'\n'})
	switch {
	case (isLine || ended) && json.Valid(line), ended && !isLine:
		return isForeign
	case isLine || len(content) >= maxPrefix:
		return isKubernetes
	}
	return isUnknown
}

// beginning classifies a JSON object by its first keys. A watch event has a type and an object, in any order; a list
// has a kind that ends in List, before or after its metadata and items.
func beginning(content []byte, list bool) verdict {
	decoder := json.NewDecoder(bytes.NewReader(content))
	_, _ = decoder.Token() // the brace
	for {
		key, err := decoder.Token()
		if err != nil {
			return unlessBad(err, len(content))
		}
		switch {
		case !list && (key == "type" || key == "object"), list && (key == "metadata" || key == "items"):
			return isKubernetes
		case !list || key != "kind" && key != "apiVersion":
			return isForeign
		}
		value, err := decoder.Token()
		if err != nil {
			return unlessBad(err, len(content))
		}
		text, isText := value.(string)
		switch {
		case !isText:
			return isForeign
		case key == "kind" && strings.HasSuffix(text, "List"):
			return isKubernetes
		case key == "kind":
			return isForeign
		}
	}
}

// unlessBad returns the verdict on JSON that the decoder could not read further.
func unlessBad(err error, seen int) verdict {
	if seen < maxPrefix && (err == io.EOF || err == io.ErrUnexpectedEOF) {
		return isUnknown
	}
	return isForeign
}

// Answered reports whether anything answered, even if only with a certificate that we do not trust. Any other error
// means that the API server cannot be reached.
func Answered(err error) bool {
	var status apierrors.APIStatus
	var foreign *watchlist.ForeignAnswerError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &status) || errors.As(err, &foreign) || errors.As(err, &verification) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		err != nil && (refusedByTLS(err) || strings.Contains(err.Error(), "malformed HTTP"))
}
