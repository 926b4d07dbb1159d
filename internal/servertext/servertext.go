// Package servertext makes a server's error messages safe for logs and errors. A message of an API server, or of a
// proxy in front of it, may quote a whole object, be a page long, or hold control characters.
package servertext

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// MaxRunes is the length of the longest text that Clean returns.
const MaxRunes = 400

// MaxRetryAfter is the longest wait that a server may ask for. A proxy that asks for a day would blind us for a day.
const MaxRetryAfter = 5 * time.Minute

// object matches where a message begins to quote an object: as JSON, as JSON inside a string, or as Go prints it.
var object = regexp.MustCompile("['\"`][{\\[]|[{\\[]\\s*\\\\*[\"']|[{\\[]\\s*[\\[{]|map\\[|\\b\\{")

// Clean reduces the text to one printable line of at most [MaxRunes]. The line ends before the first line break, and
// before the first place that looks like the beginning of a quoted object. A text that is too long loses its middle,
// since the cause of an error is at its end. Anything that has the form of a secret is masked.
func Clean(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	if at := strings.IndexAny(text, "\r\n\u2028\u2029"); at >= 0 {
		text = text[:at]
	}
	if at := object.FindStringIndex(text); at != nil {
		text = strings.TrimRight(text[:at[0]], " '\"`:&,([")
	}
	text = redact.Text(strings.Join(strings.Fields(strings.Map(printable, text)), " "))
	if runes := []rune(text); len(runes) > MaxRunes {
		const head = MaxRunes / 2
		text = string(runes[:head]) + "…" + string(runes[len(runes)-(MaxRunes-head-1):])
	}
	return text
}

func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// CleanStatus makes the message of a server's status safe to log, and caps the wait that it asks for. If it was capped,
// the message notes that.
func CleanStatus(status *metav1.Status) {
	status.Message = Clean(status.Message)
	if status.Message == "" {
		status.Message = strings.TrimSpace(fmt.Sprintf("status %d %s without a readable message", status.Code, Clean(string(status.Reason))))
	}
	const limit = int32(MaxRetryAfter / time.Second)
	if details := status.Details; details != nil && details.RetryAfterSeconds > limit {
		asked := time.Duration(details.RetryAfterSeconds) * time.Second
		copied := *details
		copied.RetryAfterSeconds = limit
		status.Details = &copied
		status.Message += fmt.Sprintf(" (it asks to be left alone for %s; waiting %s at most)", asked, MaxRetryAfter)
	}
}
