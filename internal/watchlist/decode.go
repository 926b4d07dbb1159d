package watchlist

import (
	"fmt"
	"strconv"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// decode reads the object of a frame. One that cannot be decoded is nothing on the first try, because the
// server will send it again and it may have been cut on the way. When lastTry, what can be told of it is
// its identity: the record goes out without a body, so that the fault of one object does not hide the others.
func (r *Reader) decode(object []byte, lastTry bool) (redact.Object, error) {
	obj, n, err := r.Plan.Decode(object)
	if err == nil && n != len(object) {
		err = fmt.Errorf("%d bytes follow the object", len(object)-n)
	}
	if err == nil {
		r.completeKind(&obj)
		return obj, nil
	}
	r.Observer.FrameUndecodable()
	if lastTry {
		if id, idErr := r.Plan.Identify(object); idErr == nil && id.UID != "" && id.ResourceVersion != "" {
			return redact.Object{Identity: id, APIVersion: r.Resource.APIVersion(), Kind: r.Resource.Kind}, nil
		}
	}
	return redact.Object{}, fmt.Errorf("%w of %s: %w", errUndecodable, r.Resource.Plural, err)
}

// completeKind writes kind and apiVersion into an object that came without: the items of a LIST of a
// built-in resource do.
func (r *Reader) completeKind(obj *redact.Object) {
	if obj.Kind != "" || r.Resource.Kind == "" {
		return
	}
	obj.Kind, obj.APIVersion = r.Resource.Kind, r.Resource.APIVersion()
	head := `{"kind":` + strconv.Quote(obj.Kind) + `,"apiVersion":` + strconv.Quote(obj.APIVersion)
	if obj.JSON == "{}" {
		obj.JSON = head + "}"
		return
	}
	obj.JSON = head + "," + obj.JSON[1:]
}
