package replay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leases are the Leases of all namespaces, which clients create and update. They cannot be listed or watched.
type leases struct {
	mu     sync.Mutex
	byPath map[string]map[string]any
}

// maxLeaseBytes is far more than a Lease takes.
const maxLeaseBytes = 1 << 20

// leasePath returns the path of a Lease and its name, which is "" for all Leases of a namespace.
func leasePath(path string) (prefix, name string, ok bool) {
	const namespaces = "/apis/coordination.k8s.io/v1/namespaces/"
	rest, ok := strings.CutPrefix(path, namespaces)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] != "leases" {
		return "", "", false
	}
	if len(parts) == 3 {
		name = parts[2]
	}
	return namespaces + parts[0] + "/leases/", name, true
}

// lease answers a request for a Lease, and reports whether it is one.
func (s *Server) lease(w http.ResponseWriter, r *http.Request) bool {
	prefix, name, ok := leasePath(r.URL.Path)
	if !ok {
		return false
	}
	l := &s.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	current, exists := l.byPath[prefix+name]
	switch {
	case r.Method == http.MethodPost && name == "":
		object, metadata, err := readLease(w, r)
		if name, _ = metadata["name"].(string); err == nil && name == "" {
			err = fmt.Errorf("it has no name")
		}
		if err != nil {
			writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return true
		}
		if _, exists := l.byPath[prefix+name]; exists {
			writeStatus(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, fmt.Sprintf("leases.coordination.k8s.io %q already exists", name))
			return true
		}
		s.writeLease(w, http.StatusCreated, prefix+name, object, metadata)
	case name == "" || r.Method != http.MethodGet && r.Method != http.MethodPut:
		writeStatus(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "this server can get, create and update Leases")
	case !exists:
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("leases.coordination.k8s.io %q not found", name))
	case r.Method == http.MethodGet:
		writeJSON(w, http.StatusOK, current)
	default:
		object, metadata, err := readLease(w, r)
		if err != nil {
			writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return true
		}
		if based := metadata["resourceVersion"]; based != nil && based != current["metadata"].(map[string]any)["resourceVersion"] {
			writeStatus(w, http.StatusConflict, metav1.StatusReasonConflict, fmt.Sprintf("leases.coordination.k8s.io %q was changed since", name))
			return true
		}
		s.writeLease(w, http.StatusOK, prefix+name, object, metadata)
	}
	return true
}

// readLease returns the Lease of a request and its metadata.
func readLease(w http.ResponseWriter, r *http.Request) (object, metadata map[string]any, err error) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLeaseBytes)).Decode(&object); err != nil {
		return nil, nil, fmt.Errorf("cannot read the Lease: %w", err)
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || object["kind"] != "Lease" {
		return nil, nil, fmt.Errorf("it is no Lease with metadata")
	}
	return object, metadata, nil
}

// writeLease stores a Lease with a new version, and answers with it. The lock is held.
func (s *Server) writeLease(w http.ResponseWriter, code int, path string, object, metadata map[string]any) {
	metadata["resourceVersion"] = strconv.FormatUint(s.versions.last.Add(1), 10)
	s.leases.byPath[path] = object
	writeJSON(w, code, object)
}
