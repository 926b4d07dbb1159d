package watchlist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// hangingBody has some content, and then waits until the request is cancelled.
type hangingBody struct {
	io.Reader
	ctx context.Context
}

func (b hangingBody) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (b hangingBody) Close() error { return nil }

func TestIsStill(t *testing.T) {
	bookmark := func(rv int) string {
		return fmt.Sprintf(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", rv)
	}
	pod := `{"type":"DELETED","object":{"metadata":{"name":"a","uid":"a","resourceVersion":"15"}}}` + "\n"
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	f := func(want bool, content string, openErr error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			got := IsStill(t.Context(), requestOpener(func(ctx context.Context, req Request) (io.ReadCloser, error) {
				assert.Equal(t, "10", req.ResourceVersion)
				assert.Equal(t, stillWatch, req.Timeout)
				return hangingBody{strings.NewReader(content), ctx}, openErr
			}), pods, scope.API{}, "10", "20")
			assert.Equal(t, want, got, content)
		})
	}
	f(true, bookmark(20), nil)
	f(true, bookmark(12)+bookmark(21), nil)
	f(false, bookmark(19), nil)
	f(false, "", nil)
	f(false, pod+bookmark(20), nil)
	f(false, bookmark(12)+pod+bookmark(20), nil)
	f(false, `{"type":"ERROR","object":{"kind":"Status","code":410}}`+"\n"+bookmark(20), nil)
	f(false, "<html>\n"+bookmark(20), nil)
	f(false, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"x"}}}`+"\n", nil)
	f(false, bookmark(20), errors.New("forbidden"))
}
