package redact

// note says what a value tells of the object that it is part of.
type note uint8

const (
	nothing note = iota

	// Of any object, however deep: what makes it a Secret, and where that hides its values.
	secretKind
	secretData

	// Of the object itself.
	ownMetadata
	ownKind
	ownAPIVersion
	uid
	resourceVersion
	namespace
	name
	generation
	created
	deleted
	updated // one of several; the newest counts

	// Of its owner references, one after the other.
	ownerAPIVersion
	ownerKind
	ownerName
	ownerUID
	ownerController
	ownerEnd

	// Of Events. The times are in the order in which they are believed.
	eventType
	eventSeriesTime
	eventLastTime
	eventTime
	eventFirstTime

	notes
)

func (n note) isKind() bool { return n == secretKind || n == ownKind || n == ownerKind }

// isToldBy says whether a value that starts with this byte can tell it.
func (n note) isToldBy(first byte) bool {
	switch n {
	case generation:
		return first == '-' || first-'0' <= 9
	case ownerController:
		return first == 't' || first == 'f'
	default:
		return first == '"'
	}
}
