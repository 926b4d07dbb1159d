// Package victorialogs runs VictoriaLogs on loopback, as the backend of demonstrations and tests, and asks it in LogsQL
// what happened in a cluster.
package victorialogs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

// AddressVariable is the environment variable in which examples/demo.yaml expects the URL of the server.
const AddressVariable = "VICTORIALOGS_URL"

// stopGrace is how long the server may take to write what it holds in memory.
const stopGrace = 10 * time.Second

// answerLimit bounds the bytes of one row and of an error message.
const answerLimit = 16 << 20

// Server is a VictoriaLogs process.
type Server struct {
	process *child.Child
	client  *http.Client
	url     string
	folder  string
}

// Start starts the binary with an empty store in a temporary folder, on a free port of loopback. ctx bounds only the start.
// Close it.
func Start(ctx context.Context, binary string) (*Server, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("cannot find VictoriaLogs: %w: `make bin/tools/victoria-logs` builds it", err)
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "victorialogs-")
	if err != nil {
		return nil, fmt.Errorf("cannot create the folder of VictoriaLogs: %w", err)
	}
	s := &Server{
		client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		url:    fmt.Sprintf("http://127.0.0.1:%d", port),
		folder: folder,
	}
	s.process, err = child.Start(exec.Command(binary,
		"-httpListenAddr="+strings.TrimPrefix(s.url, "http://"),
		"-storageDataPath="+filepath.Join(folder, "data"),
		// By default it drops records of more than seven days ago, and a SNAPSHOT has the time of the object's last change.
		"-retentionPeriod=100y",
		"-loggerLevel=ERROR",
	), nil)
	if err == nil {
		err = s.process.AwaitReady(ctx, http.DefaultTransport.(*http.Transport).Clone(), s.url+"/health")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start VictoriaLogs: %w", err), s.Close())
	}
	return s, nil
}

// Close ends the server, waits for it and removes its folder. It may be called again.
func (s *Server) Close() error {
	s.client.CloseIdleConnections()
	var err error
	if s.process != nil && s.process.Running() {
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		err = s.process.Stop(ctx, syscall.SIGTERM)
	}
	if rm := os.RemoveAll(s.folder); rm != nil {
		err = errors.Join(err, fmt.Errorf("cannot remove the folder of VictoriaLogs: %w", rm))
	}
	return err
}

// URL returns the address of the server. Below it, /insert/opentelemetry/v1/logs takes OTLP over HTTP.
func (s *Server) URL() string { return s.url }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Page returns the address of the web page that answers a question for the last hour, one line for each record.
func (s *Server) Page(question Question) string {
	values := url.Values{
		// The page has a time range of its own.
		"query":            {strings.TrimPrefix(question.Query, lastHour)},
		"g0.range_input":   {"1h"},
		"g0.relative_time": {"last_1_hour"},
		"displayFields":    {strings.Join(question.Columns[1:], ",")}, // the page always shows the time
		"hide_chart":       {"true"},
	}
	return s.url + "/select/vmui/#/?" + values.Encode()
}

// Row is one row of an answer: the values of the fields by their names. Everything is text.
type Row map[string]string

// Ask returns the rows that a query in LogsQL finds.
func (s *Server) Ask(ctx context.Context, query string) ([]Row, error) {
	fail := func(err error) ([]Row, error) {
		return nil, fmt.Errorf("cannot ask VictoriaLogs %q: %w", query, err)
	}
	body := strings.NewReader(url.Values{"query": {query}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/select/logsql/query", body)
	if err != nil {
		return fail(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.client.Do(request)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fail(fmt.Errorf("%s: %s", response.Status, text))
	}
	var rows []Row
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, answerLimit)
	for lines.Scan() {
		var row Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fail(err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return fail(err)
	}
	return rows, nil
}
