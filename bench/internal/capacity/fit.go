package capacity

import (
	"errors"
	"math"
)

// point is a measurement: what was there (a number for each term of the fit), and what it cost.
type point struct {
	terms []float64
	cost  float64
}

// fit is a sum of terms with a factor each.
type fit struct {
	factors []float64
	most    []float64 // the largest measured value of each term
	// deviation is the largest relative difference of a measurement from the fit, as a share of the measurement.
	deviation float64
	points    int
}

// leastSquares returns the factors with which the relative differences from the measurements have the least sum of squares:
// absolute ones would let the largest measurement alone decide. No factor is negative, as nothing gets cheaper with more of
// it: a term that would get such a factor is left out.
func leastSquares(points []point) (*fit, error) {
	if len(points) == 0 {
		return nil, errors.New("there is nothing to fit")
	}
	f := &fit{factors: make([]float64, len(points[0].terms)), most: make([]float64, len(points[0].terms)), points: len(points)}
	used := make([]int, len(f.factors))
	for i := range used {
		used[i] = i
	}
	for len(used) > 0 {
		if len(points) < len(used) {
			return nil, errors.New("there are fewer measurements than terms")
		}
		solution, err := solve(points, used)
		if err != nil {
			return nil, err
		}
		worst := -1
		for i, factor := range solution {
			if factor < 0 && (worst < 0 || factor*f.scale(points, used[i]) < solution[worst]*f.scale(points, used[worst])) {
				worst = i
			}
		}
		if worst < 0 {
			for i, term := range used {
				f.factors[term] = solution[i]
			}
			break
		}
		used = append(used[:worst:worst], used[worst+1:]...)
	}
	for _, p := range points {
		for i, term := range p.terms {
			f.most[i] = max(f.most[i], term)
		}
		f.deviation = max(f.deviation, math.Abs(f.at(p.terms...)-p.cost)/p.cost)
	}
	return f, nil
}

// scale is the mean of a term, with which its factor can be compared with those of others.
func (f *fit) scale(points []point, term int) float64 {
	sum := 0.0
	for _, p := range points {
		sum += p.terms[term]
	}
	return sum / float64(len(points))
}

// solve solves the normal equations of the used terms.
func solve(points []point, used []int) ([]float64, error) {
	n := len(used)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, n+1)
	}
	scales := make([]float64, n) // of the terms, so that the equations are about equally large
	for i, term := range used {
		for _, p := range points {
			scales[i] = max(scales[i], math.Abs(p.terms[term]/p.cost))
		}
		if scales[i] == 0 {
			return nil, errors.New("a term was always 0")
		}
	}
	for _, p := range points {
		if p.cost <= 0 {
			return nil, errors.New("a measurement is not positive")
		}
		for i, a := range used {
			for j, b := range used {
				rows[i][j] += p.terms[a] / p.cost / scales[i] * p.terms[b] / p.cost / scales[j]
			}
			rows[i][n] += p.terms[a] / p.cost / scales[i]
		}
	}
	for i := range rows {
		pivot := i
		for j := i + 1; j < n; j++ {
			if math.Abs(rows[j][i]) > math.Abs(rows[pivot][i]) {
				pivot = j
			}
		}
		rows[i], rows[pivot] = rows[pivot], rows[i]
		if math.Abs(rows[i][i]) < 1e-12 {
			return nil, errors.New("the measurements do not tell the terms apart")
		}
		for j := range rows {
			if j == i {
				continue
			}
			by := rows[j][i] / rows[i][i]
			for k := i; k <= n; k++ {
				rows[j][k] -= by * rows[i][k]
			}
		}
	}
	solution := make([]float64, n)
	for i := range rows {
		solution[i] = rows[i][n] / rows[i][i] / scales[i]
	}
	return solution, nil
}

func (f *fit) at(terms ...float64) float64 {
	sum := 0.0
	for i, factor := range f.factors {
		sum += factor * terms[i]
	}
	return sum
}

// beyond returns how many times larger than anything measured the terms are; at most 1 is within the measurements.
func (f *fit) beyond(terms ...float64) float64 {
	most := 0.0
	for i, factor := range f.factors {
		if factor != 0 && f.most[i] > 0 {
			most = max(most, terms[i]/f.most[i])
		}
	}
	return most
}
