package redact

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever strings objects come to have: none of them keeps the JSON in memory that was given up.
func TestWithJSONKeepsNothingOfTheOldOneAlive(t *testing.T) {
	for _, file := range realObjects(t) {
		for _, plan := range plans {
			obj, _, err := plan.Decode(realObject(t, file))
			require.NoError(t, err)
			detached := obj.WithJSON("{}")
			requireDetached(t, reflect.ValueOf(detached), obj.JSON, file)
			detached.JSON = obj.JSON
			assert.Equal(t, obj, detached)
		}
	}
}

func requireDetached(t *testing.T, v reflect.Value, json, path string) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		start, at := uintptr(unsafe.Pointer(unsafe.StringData(json))), uintptr(unsafe.Pointer(unsafe.StringData(v.String())))
		require.False(t, v.Len() > 0 && at >= start && at < start+uintptr(len(json)), "%s is a slice of the JSON", path)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Type.PkgPath() != "time" {
				requireDetached(t, v.Field(i), json, path+"."+v.Type().Field(i).Name)
			}
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			requireDetached(t, v.Elem(), json, path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			requireDetached(t, v.Index(i), json, path)
		}
	}
}
