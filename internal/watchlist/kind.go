package watchlist

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// setKind sets the object's kind to the one that discovery has for the resource. In a LIST of a built-in resource the
// items have neither kind nor apiVersion, and a proxy may send anything.
func (r *Reader) setKind(obj *redact.Object) {
	switch {
	case r.API.Kind == "" || obj.Kind == r.API.Kind:
		return
	case obj.Kind == "":
		obj.Kind, obj.APIVersion = r.API.Kind, r.API.APIVersion(r.Scope.Group)
		head := `{"kind":` + strconv.Quote(obj.Kind) + `,"apiVersion":` + strconv.Quote(obj.APIVersion)
		if obj.JSON == "{}" {
			obj.JSON = head + "}"
			return
		}
		obj.JSON = head + "," + obj.JSON[1:]
	default:
		r.Observer.FrameOfAnotherKind()
		obj.Kind = r.API.Kind
		obj.JSON = withKind(obj.JSON, obj.Kind)
	}
}

// withKind replaces every "kind" of the object itself.
func withKind(object, kind string) string {
	dec := json.NewDecoder(strings.NewReader(object))
	var out strings.Builder
	written := 0
	_ = members(dec, func(key string) error { // a decoded object cannot fail
		if key != "kind" {
			return errOther
		}
		start := int(dec.InputOffset())
		start += strings.IndexByte(object[start:], ':') + 1
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		out.WriteString(object[written:start])
		out.WriteString(strconv.Quote(kind))
		written = int(dec.InputOffset())
		return nil
	})
	out.WriteString(object[written:])
	return out.String()
}

// clusterAnnotation names the logical cluster of an object if one stream covers several kcp workspaces, in which the
// same names may occur. https://docs.kcp.io/kcp/main/concepts/apis/apis-in-kcp/
const clusterAnnotation = "kcp.io/cluster"

// setCluster notes the logical cluster of the object, if it names one.
func setCluster(obj *redact.Object) {
	if !strings.Contains(obj.JSON, clusterAnnotation+`":"`) {
		return
	}
	var named struct {
		Metadata struct {
			Annotations map[string]any `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(obj.JSON), &named) == nil {
		obj.Cluster, _ = named.Metadata.Annotations[clusterAnnotation].(string)
	}
}
