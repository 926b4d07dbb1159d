// Package jsonscan finds the values in a JSON text without decoding them.
//
// Its functions take a text and an offset and return the offset past what they read, so that a caller can copy, skip or
// cut parts of the text as it goes. They accept exactly what [encoding/json.Valid] accepts. Errors report an offset and
// never a byte of the text, which may hold secrets; offsets count from the start of the text.
package jsonscan

// MaxDepth is how deep arrays and objects may be nested. It is the limit of encoding/json, and therefore of the API
// server.
const MaxDepth = 10_000
