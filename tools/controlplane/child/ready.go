package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// readyTimeout is how long a process may take to get ready.
const readyTimeout = 60 * time.Second

// AwaitReady polls url until it answers 200. It is an error, with the last lines of output, if the process ends or does
// not get ready within a minute.
func (c *Child) AwaitReady(ctx context.Context, transport *http.Transport, url string) error {
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()

	last := errors.New("not asked yet")
	for {
		err := ask(ctx, client, url)
		if err == nil {
			return nil
		}
		// The error of a request that timed out is less useful than the one before it.
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-c.Done():
			return fmt.Errorf("it ended (%v); its last output:\n%s", c.Err(), c.Tail())
		case <-ctx.Done():
			return fmt.Errorf("it did not get ready: %w; the last answer: %w; its last output:\n%s", ctx.Err(), last, c.Tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}
