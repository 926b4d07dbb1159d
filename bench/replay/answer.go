package replay

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func writeJSON(w http.ResponseWriter, code int, value any) {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) // all values are our own
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", jsonType)
	}
	w.WriteHeader(code)
	_, _ = w.Write(content) // the client may be gone
}

func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	writeJSON(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// chunkBytes is how much is written at a time.
const chunkBytes = 64 << 10

// answer writes the body of a response, compressed on request.
type answer struct {
	w      http.ResponseWriter
	gzip   *gzip.Writer // nil: uncompressed
	buffer []byte
	bytes  int64 // before compression
	err    error
}

// newAnswer begins the response. It compresses like kube-apiserver, with the least effort.
func newAnswer(w http.ResponseWriter, r *http.Request, contentType string, mayCompress bool) *answer {
	a := &answer{w: w, buffer: make([]byte, 0, chunkBytes+32<<10)}
	w.Header().Set("Content-Type", contentType)
	accepted := strings.Split(strings.ReplaceAll(r.Header.Get("Accept-Encoding"), " ", ""), ",")
	if mayCompress && slices.Contains(accepted, "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Vary", "Accept-Encoding")
		a.gzip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
	}
	w.WriteHeader(http.StatusOK)
	return a
}

// spill writes the buffer when it holds enough.
func (a *answer) spill() {
	if len(a.buffer) >= chunkBytes {
		a.write()
	}
}

func (a *answer) write() {
	if a.err != nil || len(a.buffer) == 0 {
		a.buffer = a.buffer[:0]
		return
	}
	to := io.Writer(a.w)
	if a.gzip != nil {
		to = a.gzip
	}
	_, a.err = to.Write(a.buffer)
	a.bytes += int64(len(a.buffer))
	a.buffer = a.buffer[:0]
}

// flush writes everything to the connection.
func (a *answer) flush() {
	a.write()
	if a.gzip != nil && a.err == nil {
		a.err = a.gzip.Flush()
	}
	if a.err == nil {
		a.err = http.NewResponseController(a.w).Flush()
	}
}

// close ends the compressed stream.
func (a *answer) close() {
	a.write()
	if a.gzip != nil && a.err == nil {
		a.err = a.gzip.Close()
	}
}
