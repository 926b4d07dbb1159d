package cut

import (
	"fmt"
	"strings"
	"testing"
)

// An object of a megabyte that fits, and that does not.
func BenchmarkFit(b *testing.B) {
	var images []string
	for i := range 4000 {
		images = append(images, fmt.Sprintf(`{"names":["registry.example.com/%d@sha256:%s"],"sizeBytes":%d}`, i, text(64), i))
	}
	object := `{` + identity + `},"spec":{"note":"` + text(500_000) + `"},"status":{"images":[` + strings.Join(images, ",") + `]}}`
	for _, c := range []struct {
		name string
		most int
		form Form
	}{
		{"fits", len(object), Text}, {"lists", 600_000, Text}, {"lists-and-strings", 1000, Text},
		{"fits-as-map-by-far", MaxGrowth * len(object), Map}, {"fits-as-map", 2 * len(object), Map}, {"lists-of-map", 600_000, Map},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(object)))
			b.ReportAllocs()
			for b.Loop() {
				if fitting, _ := Fit(object, c.most, c.form); len(fitting) > c.most {
					b.Fatal(len(fitting))
				}
			}
		})
	}
}
