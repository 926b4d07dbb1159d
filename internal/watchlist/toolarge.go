package watchlist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// headBytes is how much of a frame that is too large is kept: enough for the identity of most objects.
const headBytes = 256 << 10

// frameTooLargeError is an [ErrFrameTooLarge] with the beginning of the frame.
type frameTooLargeError struct{ head []byte }

func (e *frameTooLargeError) Error() string {
	if id := identityInHead(e.head); id.Name != "" {
		return fmt.Sprintf("%v: that of %q in namespace %q", ErrFrameTooLarge, id.Name, id.Namespace)
	}
	return ErrFrameTooLarge.Error()
}

func (e *frameTooLargeError) Unwrap() error { return ErrFrameTooLarge }

// objectTooLarge returns what is known of the object of a frame that was too large.
func objectTooLarge(err error) redact.Identity {
	var large *frameTooLargeError
	if errors.As(err, &large) {
		return identityInHead(large.head)
	}
	return redact.Identity{}
}

// identityInHead reads the parts of the object's identity that the frame contains before the cut.
func identityInHead(head []byte) (id redact.Identity) {
	dec := json.NewDecoder(bytes.NewReader(head))
	_ = members(dec, func(key string) error { // a frame that was cut ends in an error
		if key != "object" {
			return errOther
		}
		return members(dec, func(key string) error {
			if key != "metadata" {
				return errOther
			}
			return members(dec, func(key string) error {
				into := map[string]*string{
					"name": &id.Name, "namespace": &id.Namespace, "uid": &id.UID, "resourceVersion": &id.ResourceVersion,
				}[key]
				if into == nil {
					return errOther
				}
				return dec.Decode(into)
			})
		})
	})
	return id
}

var errOther = errors.New("another member")

// members calls member with the key of each member of an object, up to where the object can be read. If member returns
// errOther, it has not read the value, which is then skipped.
func members(dec *json.Decoder, member func(key string) error) error {
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return errNotAFrame
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		err = member(key)
		if errors.Is(err, errOther) {
			var skipped json.RawMessage
			err = dec.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// skipLine reads up to and including the next newline, and returns what was read after it.
func skipLine(body io.Reader, buffer []byte) (rest []byte, err error) {
	buffer = buffer[:cap(buffer)]
	for {
		n, err := body.Read(buffer)
		if at := bytes.IndexByte(buffer[:n], '\n'); at >= 0 {
			return buffer[at+1 : n], err
		}
		if err != nil {
			return nil, err
		}
	}
}

// tooLargeInSnapshot handles an object of a snapshot that is too large to read. If its identity is known, a record
// without a body is emitted and the object counts as present. If not, the snapshot no longer proves any object gone.
func (r *Reader) tooLargeInSnapshot(ctx context.Context, pass *snapshotPass, head []byte) error {
	pass.received++
	id, err := r.identifyTooLarge(head)
	if err != nil {
		r.faults.badSnapshots++ // another try would meet it again
		return r.unidentifiedInSnapshot(pass, err)
	}
	key, rv := keyOf(id), parseVersion(id.ResourceVersion)
	if !r.owns(id) {
		return nil
	}
	known, isKnown := r.inventory.get(key)
	if isKnown {
		r.inventory.markSeen(key)
		if r.relate(rv, known) == emitted {
			return nil
		}
	}
	obj := redact.Object{Identity: id, APIVersion: r.API.APIVersion(r.Scope.Group), Kind: r.API.Kind}
	if err := r.emitFromSnapshot(ctx, key, obj, isKnown && r.inventory.wasEmitted(key)); err != nil {
		return err
	}
	r.remember(key, id, rv)
	return nil
}

// identifyTooLarge returns the identity of an object that is too large, if it is complete.
func (r *Reader) identifyTooLarge(head []byte) (redact.Identity, error) {
	r.Observer.FrameUndecodable()
	err := &frameTooLargeError{head}
	id := identityInHead(head)
	if id.UID == "" || id.Name == "" || id.ResourceVersion == "" {
		return id, err
	}
	r.Logger.Error("object is too large to be read, emitting a record without a body for it",
		append(r.fields(err), zap.String("name", id.Name), zap.String("object_namespace", id.Namespace))...)
	return id, nil
}
