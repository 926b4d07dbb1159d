package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Pages are what a Collector's own Prometheus endpoint has returned about our receivers, once a second. It is what
// `monitoring alerts` in tools/monitoring reads: each page begins with the line "# at" and the Unix time in milliseconds.
type Pages struct {
	mu   sync.Mutex
	text bytes.Buffer
	to   io.Writer // also gets the pages; nil: nothing does
}

// KeepPages reads an endpoint until the test ends. What does not answer, such as before the start, has no page.
func KeepPages(t testing.TB, address string) *Pages {
	t.Helper()
	p := &Pages{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if page := readPage(ctx, address); page != nil {
					p.add(time.Now(), page)
				}
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

func (p *Pages) add(at time.Time, page []byte) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "# at %d\n", at.UnixMilli())
	for line := range bytes.Lines(page) {
		if bytes.Contains(line, []byte("otelcol_k8s_watchlist_")) {
			text.Write(line)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(text.Bytes())
	if p.to != nil {
		_, _ = p.to.Write(text.Bytes()) // whoever reads it notices if something is missing
	}
}

// pass makes somebody else get the pages from now on, too.
func (p *Pages) pass(to io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// Text returns the pages so far.
func (p *Pages) Text() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.text.Bytes())
}

// readPage returns the metrics of an endpoint as text, or nil if it does not answer.
func readPage(ctx context.Context, address string) []byte {
	status, body, err := get(ctx, "http://"+address+"/metrics")
	if err != nil || status != http.StatusOK {
		return nil
	}
	return body
}

// get returns the status and the body of a page.
func get(ctx context.Context, url string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
