package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// storedProgress is how far a reader's records have been accepted.
type storedProgress struct {
	ResourceVersion string          `json:"resourceVersion,omitempty"`
	Closed          bool            `json:"closed,omitempty"`
	At              []watchlist.Key `json:"at,omitempty"` // the objects accepted at that version, if it is not closed
	Time            time.Time       `json:"time"`

	// Of an initial state that was cut short: the set that goes on.
	Epoch   string `json:"epoch,omitempty"`
	Objects int    `json:"objects,omitempty"`

	// Why the objects have to be compared with what the server holds; see watchlist.Progress.
	Unconfirmed string `json:"unconfirmed,omitempty"`
}

// none reports whether nothing has been emitted.
func (p storedProgress) none() bool { return p.ResourceVersion == "" && p.Epoch == "" }

func (p storedProgress) encode() ([]byte, error) { return json.Marshal(p) }

func decodeProgress(data []byte) (p storedProgress, err error) {
	err = json.Unmarshal(data, &p)
	return p, err
}

func (p storedProgress) restored() watchlist.Progress {
	return watchlist.Progress{
		ResourceVersion: p.ResourceVersion, Closed: p.Closed, At: slices.Clone(p.At), Time: p.Time,
		Epoch: p.Epoch, Objects: p.Objects, Unconfirmed: p.Unconfirmed,
	}
}

var errBadEntry = errors.New("stored object is damaged")

// encodeObject writes what is known of an object: its identity and nothing else.
func encodeObject(id redact.Identity) []byte {
	b := make([]byte, 0, len(id.UID)+len(id.ResourceVersion)+len(id.Namespace)+len(id.Name)+8)
	for _, s := range [...]string{id.UID, id.ResourceVersion, id.Namespace, id.Name} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func decodeObject(b []byte) (id redact.Identity, err error) {
	for _, into := range [...]*string{&id.UID, &id.ResourceVersion, &id.Namespace, &id.Name} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return id, errBadEntry
		}
		*into = string(b[n : n+int(size)])
		b = b[n+int(size):]
	}
	if len(b) > 0 {
		return id, errBadEntry
	}
	return id, nil
}
