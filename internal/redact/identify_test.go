package redact

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIdentify(t *testing.T) {
	for data, want := range map[string]Identity{
		`{"kind":"Pod","metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"7"}}`: {UID: "u", ResourceVersion: "7", Namespace: "s", Name: "n"},
		`{"metadata":{"uid":"u","resourceVersion":"7","name":"n","namespace":"s"}}`:              {UID: "u", ResourceVersion: "7", Namespace: "s", Name: "n"},
		`{"metadata":{"name":"n","uid":"u","resourceVersion":"7"},"namespace":"x"}`:              {UID: "u", ResourceVersion: "7", Name: "n"},
		`{}`:               {},
		`{"spec":{}}`:      {},
		`{"metadata":{}}`:  {},
		`{"metadata":"x"}`: {},
		`{"metadata":null,"metadata":{"uid":"u"}}`:                            {UID: "u"},
		`{"metadata":{"uid":"u"},"metadata":{"uid":"v","name":"n"}}`:          {UID: "u"},
		`{"metadata":{"uid":1,"uid":"u","uid":"v"}}`:                          {UID: "u"},
		`{"spec":{"metadata":{"uid":"x"}},"metadata":{"labels":{"uid":"x"}}}`: {},
		`{"m\u0065tadata":{"n\u0061me":"\u006e","uid":""}}`:                   {Name: "n"},
		" { \"metadata\" : { \"name\" : \"n\" , \"uid\":\"u\xff\" } } ":       {UID: "u\uFFFD", Name: "n"},
		`{"a":"\"metadata\":{\"uid\":\"x\"}","metadata":{"uid":"u"}}`:         {UID: "u"},
	} {
		id, err := pods.Identify([]byte(data))
		require.NoError(t, err, data)
		assert.Equal(t, want, id, data)
		assert.Equal(t, want, decode(t, pods, data).Identity, data)
	}
}

func TestIdentifyStopsEarly(t *testing.T) {
	id, err := pods.Identify([]byte(`{"metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"7",!`))
	require.NoError(t, err)
	assert.Equal(t, Identity{UID: "u", ResourceVersion: "7", Namespace: "s", Name: "n"}, id)

	id, err = pods.Identify([]byte(`{"metadata":{"name":"n","resourceVersion":"7","uid":"u"}!`))
	require.NoError(t, err)
	assert.Equal(t, Identity{UID: "u", ResourceVersion: "7", Name: "n"}, id)
}

func TestIdentifyRejectsOtherValues(t *testing.T) {
	for _, data := range []string{`[]`, `1`, `{"a":tru,"metadata":{}}`, `{"metadata":{"uid":"u"]`, `{"a" 1}`, `{a`} {
		_, err := pods.Identify([]byte(data))
		assert.Regexp(t, `^cannot identify object: [a-z ]+ at offset \d+$`, err)
	}
	for _, data := range []string{``, `{`, `{"metadata":{"uid":"u"`, `{"metadata":{"uid":"u",`, `{"a":[`} {
		_, err := pods.Identify([]byte(data))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, data)
	}
}

func TestIdentitySharesNothingWithTheData(t *testing.T) {
	data := []byte(`{"metadata":{"name":"n","uid":"u"}}`)
	id, err := pods.Identify(data)
	require.NoError(t, err)
	clear(data)
	assert.Equal(t, Identity{UID: "u", Name: "n"}, id)
}
