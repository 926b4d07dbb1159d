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

// headBytes is how much is kept of a frame that is too large: enough for the identity of most objects.
const headBytes = 256 << 10

// frameTooLargeError is an [ErrFrameTooLarge] of which the beginning is known.
type frameTooLargeError struct{ head []byte }

func (e *frameTooLargeError) Error() string {
	if id := identityInHead(e.head); id.Name != "" {
		return fmt.Sprintf("%v: that of %q in namespace %q", ErrFrameTooLarge, id.Name, id.Namespace)
	}
	return ErrFrameTooLarge.Error()
}

func (e *frameTooLargeError) Unwrap() error { return ErrFrameTooLarge }

// objectTooLarge is the object of the frame that was too large, as far as its beginning tells.
func objectTooLarge(err error) redact.Identity {
	var large *frameTooLargeError
	if errors.As(err, &large) {
		return identityInHead(large.head)
	}
	return redact.Identity{}
}

// identityInHead reads what a frame, cut anywhere, shows of its object's identity.
func identityInHead(head []byte) (id redact.Identity) {
	dec := json.NewDecoder(bytes.NewReader(head))
	_ = members(dec, func(key string) error { // what was cut ends in an error
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

// members calls member with the key of each member of an object, up to where it can be read. A value that member does not
// read, which it says with errOther, is passed over.
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

// tooLargeInSnapshot deals with an object of a snapshot that is too large to be read. If its identity is known a record
// without a body stands for it, and it is not missing. If not, nothing is proven missing.
func (r *Reader) tooLargeInSnapshot(ctx context.Context, pass *snapshotPass, head []byte) error {
	pass.received++
	id, err := r.identifyTooLarge(head)
	if err != nil {
		r.faults.badSnapshots++ // another try would bring it again
		return r.unidentifiedInSnapshot(pass, err)
	}
	key, rv := keyOf(id), parseVersion(id.ResourceVersion)
	if !r.owns(key) {
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

// identifyTooLarge returns the identity of an object that is too large, if all of it is known.
func (r *Reader) identifyTooLarge(head []byte) (redact.Identity, error) {
	r.Observer.FrameUndecodable()
	err := &frameTooLargeError{head}
	id := identityInHead(head)
	if id.UID == "" || id.Name == "" || id.ResourceVersion == "" {
		return id, err
	}
	r.Logger.Error("object is too large to be read, a record without a body stands for it",
		append(r.fields(err), zap.String("name", id.Name), zap.String("object_namespace", id.Namespace))...)
	return id, nil
}
