package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// The number of digits of versions in protobuf metadata: a shorter one would leave no room for its mark.
const minVersionDigits, maxVersionDigits = 4, 9

// encodings holds the metadata of an object as protobuf, by the number of digits of its version. A message contains the
// lengths of its parts, so a template fits only objects whose names, UIDs and versions are as long as its marks.
type encodings [maxVersionDigits + 1]func() []piece

// newEncodings creates them from the metadata's JSON at first use.
func newEncodings(kind *Kind, metadata string) encodings {
	var e encodings
	for digits := minVersionDigits; digits <= maxVersionDigits; digits++ {
		e[digits] = sync.OnceValue(func() []piece { return encode(kind, metadata, digits) })
	}
	return e
}

func (e *encodings) of(version uint64) []piece {
	digits := len(strconv.FormatUint(version, 10))
	if digits < minVersionDigits || digits > maxVersionDigits {
		panic(fmt.Sprintf("version %d cannot be encoded in metadata", version))
	}
	return e[digits]()
}

func encode(kind *Kind, metadata string, versionDigits int) []piece {
	long := []mark{
		{'N', markOfLength('N', len(kind.Plural)+1+numberDigits)},
		{'S', markOfLength('S', len(namespacePrefix)+namespaceDigits)},
		{'U', markOfLength('U', uidLength)},
		{'V', markOfLength('V', versionDigits)},
	}
	partial := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}}
	for i, mark := range marks {
		metadata = strings.ReplaceAll(metadata, mark.text, long[i].text)
	}
	if err := json.Unmarshal([]byte(metadata), &partial.ObjectMeta); err != nil {
		panic(err) // the corpus is not data
	}
	var out bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(&partial, &out); err != nil {
		panic(err)
	}
	return pieces(out.String(), long)
}

func markOfLength(of byte, length int) string {
	return "@" + string(of) + strings.Repeat("~", length-len("@N@")) + "@"
}
