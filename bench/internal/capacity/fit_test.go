package capacity

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want)+1e-12 {
		t.Errorf("%s is %g, not %g", what, got, want)
	}
}

// Measurements without noise give their factors back, however different in size.
func TestFitFindsTheFactors(t *testing.T) {
	var points []point
	for _, objects := range []float64{1e3, 2e4, 1e6} {
		for _, bytes := range []float64{2e-3, 8e-3} {
			terms := []float64{1, objects, objects * bytes}
			points = append(points, point{terms, 0.05 + 4e-6*terms[1] + 6e-3*terms[2]})
		}
	}
	f, err := leastSquares(points)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.05, 4e-6, 6e-3} {
		near(t, "a factor", f.factors[i], want, 1e-6)
	}
	near(t, "the deviation", f.deviation, 0, 0)
	near(t, "the largest number of objects", f.most[1], 1e6, 0)
	near(t, "a value", f.at(1, 2e6, 4e3), 0.05+8+24, 1e-6)
	near(t, "beyond", f.beyond(1, 2e6, 4e3), 2, 0)
	near(t, "within", f.beyond(1, 5e5, 4e3), 1, 0) // the constant
}

// Of two measurements of the same, the factor is where the relative differences are least, and the larger difference is named.
func TestFitWithNoise(t *testing.T) {
	f, err := leastSquares([]point{{[]float64{10}, 10}, {[]float64{10}, 20}})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the factor", f.factors[0], 1.2, 1e-9) // (1 + 1/2) / (1 + 1/4)
	near(t, "the deviation", f.deviation, 0.4, 1e-9)
}

// A term that would make more cheaper is left out.
func TestFitHasNoNegativeFactor(t *testing.T) {
	f, err := leastSquares([]point{{[]float64{1, 1}, 9}, {[]float64{1, 10}, 9.5}, {[]float64{1, 100}, 5}})
	if err != nil {
		t.Fatal(err)
	}
	if f.factors[1] != 0 || f.factors[0] <= 0 {
		t.Errorf("the factors are %v", f.factors)
	}
	near(t, "beyond a term without influence", f.beyond(1, 1e6), 1, 0)
}

func TestFitThatIsImpossible(t *testing.T) {
	for name, points := range map[string][]point{
		"nothing":         nil,
		"too few":         {{[]float64{1, 2}, 3}},
		"the same twice":  {{[]float64{1, 2}, 3}, {[]float64{1, 2}, 3}},
		"a cost of 0":     {{[]float64{1}, 0}},
		"a term always 0": {{[]float64{0}, 1}},
	} {
		if f, err := leastSquares(points); err == nil {
			t.Errorf("%s: fitted as %v", name, f.factors)
		}
	}
}
