package cut

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// surveyed returns what the survey of an object thinks that it takes as a map.
func surveyed(object string) int {
	s := &survey{data: []byte(object), form: Map}
	_, size := s.value(jsonscan.Space(s.data, 0), place{of: top})
	return size
}

// sizeOfMap returns what an object takes as a map, by the library that sends it.
func sizeOfMap(t *testing.T, object string) int {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(object))
	decoder.UseNumber()
	var m map[string]any
	require.NoError(t, decoder.Decode(&m))
	record := plog.NewLogRecord()
	// A body without content takes the two bytes of its tag and its length.
	empty := (&plog.ProtoMarshaler{}).LogRecordSize(record) - partSize(0)
	fill(record.Body(), m)
	size := (&plog.ProtoMarshaler{}).LogRecordSize(record) - empty
	for content := size; ; content-- {
		if partSize(content) <= size {
			return content
		}
	}
}

// fill makes the value what the builder of records makes of the JSON.
func fill(v pcommon.Value, of any) {
	switch of := of.(type) {
	case map[string]any:
		m := v.SetEmptyMap()
		for key, value := range of {
			fill(m.PutEmpty(key), value)
		}
	case []any:
		s := v.SetEmptySlice()
		for _, value := range of {
			fill(s.AppendEmpty(), value)
		}
	case json.Number:
		if n, err := of.Int64(); err == nil {
			v.SetInt(n)
		} else if f, err := of.Float64(); err == nil {
			v.SetDouble(f)
		} else {
			v.SetStr(of.String())
		}
	default:
		_ = v.FromRaw(of)
	}
}

func TestSizesOfMaps(t *testing.T) {
	for _, object := range []string{
		`{}`, `{"":{}}`, `{"a":[]}`, `{"a":""}`, `{"a":[0,1,127,128,-1,9223372036854775807,9223372036854775808,0.5,1e5,1e999]}`,
		`{"a":[true,false,null]}`, `{"a":"` + text(127) + `","b":"` + text(128) + `","c":"` + text(20_000) + `"}`,
		`{"a":[[[[{}]]]],"b":{"c":{"d":[{}]}}}`, `{"` + text(200) + `":"ü"}`,
	} {
		actual := sizeOfMap(t, object)
		assert.GreaterOrEqual(t, surveyed(object), actual, object)
		assert.LessOrEqual(t, surveyed(object), actual+8*strings.Count(object, ",")+2, object)
	}
	assert.Equal(t, sizeOfMap(t, `{"a":"b","c":[true,null,0,{"d":0.5}]}`), surveyed(`{"a":"b","c":[true,null,0,{"d":0.5}]}`))
	for i := range 19 {
		object := `{"a":` + strconv.Itoa(intPower(10, i)) + `}`
		assert.GreaterOrEqual(t, surveyed(object), sizeOfMap(t, object), object)
	}
}

func intPower(base, exponent int) int {
	n := 1
	for range exponent {
		n *= base
	}
	return n
}

// No object is larger than it is thought to be, nor than MaxGrowth allows.
func TestMapsAreNotLargerThanThought(t *testing.T) {
	check := func(object string) {
		thought := surveyed(object)
		require.GreaterOrEqual(t, thought, sizeOfMap(t, object), object)
		require.LessOrEqual(t, thought, MaxGrowth*len(object), object)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		check(random(r))
	}
	for _, part := range []string{`-1`, `[]`, `{}`, `0`, `""`, `"\\"`, `1.5`, `-1e9`, `[-1]`, `{"":-1}`, `true`, `null`} {
		check(`{"a":[` + strings.TrimSuffix(strings.Repeat(part+",", 5_000), ",") + `]}`)
	}
	for _, nested := range [][2]string{{`[`, `]`}, {`{"":`, `}`}} {
		check(`{"a":[` + strings.TrimSuffix(strings.Repeat(strings.Repeat(nested[0], 500)+`-1`+strings.Repeat(nested[1], 500)+",", 100), ",") + `]}`)
	}
}
