// Package envtest serves ready-made binaries of Kubernetes on loopback, in the form in which setup-envtest downloads them.
package envtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
)

// Version is the version of Kubernetes that an index offers.
const Version = "v1.37.2"

// Archive returns a folder of programs, by their names, as a compressed tar file.
func Archive(t *testing.T, programs map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	files := tar.NewWriter(compressed)
	for name, content := range programs {
		header := &tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(files, content); err != nil {
			t.Fatal(err)
		}
	}
	for _, writer := range []io.Closer{files, compressed} {
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return packed.Bytes()
}

// Index is a server on loopback with an index of one archive, and that archive.
type Index struct {
	*httptest.Server
	Hash            string // of the archive, according to the index
	Offers          string // the version that the index offers
	Silent, Stalled bool   // the index, or the archive, never arrives

	archive []byte
	mu      sync.Mutex
	asked   []string
}

// Serve serves an archive until the test ends.
func Serve(t *testing.T, archive []byte) *Index {
	t.Helper()
	sum := sha512.Sum512(archive)
	i := &Index{archive: archive, Hash: hex.EncodeToString(sum[:]), Offers: Version}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

// Address returns the URL of the index.
func (i *Index) Address() string { return i.URL + "/index" }

// ServeHTTP implements http.Handler.
func (i *Index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.asked = append(i.asked, r.URL.Path)
	i.mu.Unlock()
	switch {
	case r.URL.Path == "/archive" && !i.Stalled:
		_, _ = w.Write(i.archive) // an aborted read is noticed by the checksum
	case r.URL.Path == "/index" && !i.Silent:
		_, _ = fmt.Fprintf(w, "releases:\n  %[1]s:\n    envtest-%[1]s-%[2]s-%[3]s.tar.gz: {hash: %[4]s, selfLink: %[5]s/archive}\n",
			i.Offers, runtime.GOOS, runtime.GOARCH, i.Hash, i.URL)
	default:
		<-r.Context().Done()
	}
}

// Requests returns the paths of the requests since the last call.
func (i *Index) Requests() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	asked := i.asked
	i.asked = nil
	return asked
}
