package kubeclient

import "google.golang.org/protobuf/encoding/protowire"

// fields iterates over the fields of a protobuf message without copying.
//
//	f := fields{rest: message}
//	for f.next() {
//		if f.number == 1 {
//			name = f.bytes()
//		}
//	}
//	// f.bad: the message is malformed
type fields struct {
	rest   []byte
	number protowire.Number
	bad    bool

	wireType protowire.Type
	value    []byte // of a field of type string, bytes or message
}

// next advances to the next field, and returns false at the end.
func (f *fields) next() bool {
	if f.bad || len(f.rest) == 0 {
		return false
	}
	var n int
	if f.number, f.wireType, n = protowire.ConsumeTag(f.rest); n < 0 {
		f.bad = true
		return false
	}
	f.rest = f.rest[n:]
	if f.wireType == protowire.BytesType {
		f.value, n = protowire.ConsumeBytes(f.rest)
	} else {
		n = protowire.ConsumeFieldValue(f.number, f.wireType, f.rest)
	}
	if n < 0 {
		f.bad = true
		return false
	}
	f.rest = f.rest[n:]
	return true
}

// bytes returns the field's value. A field of another wire type marks the message as bad.
func (f *fields) bytes() []byte {
	if f.wireType != protowire.BytesType {
		f.bad = true
		return nil
	}
	return f.value
}
