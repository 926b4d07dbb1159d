package corpus

import (
	"fmt"
	"math/rand/v2"
)

// source generates an object's content.
type source struct{ *rand.Rand }

func newSource(seed, variant uint64) *source {
	return &source{rand.New(rand.NewPCG(seed, variant))} //nolint:gosec // it must be the same every time
}

var words = []string{
	"checkout", "cart", "payment", "ledger", "catalog", "search", "shipping", "stock", "invoice", "mail", "profile",
	"session", "gateway", "metrics", "audit", "report", "pricing", "coupon", "rating", "image",
}

func (r *source) word() string { return words[r.IntN(len(words))] }

func (r *source) hex(n int) string {
	const digits = "0123456789abcdef"
	b := make([]byte, n)
	for i := range b {
		b[i] = digits[r.IntN(len(digits))]
	}
	return string(b)
}

func (r *source) version() string {
	return fmt.Sprintf("%d.%d.%d", r.IntN(9), r.IntN(40), r.IntN(20))
}

func (r *source) image(name string) string {
	return fmt.Sprintf("registry.example.com/%s/%s:%s", r.word(), name, r.version())
}

func (r *source) address() string {
	return fmt.Sprintf("10.%d.%d.%d", r.IntN(255), r.IntN(255), 1+r.IntN(250))
}
