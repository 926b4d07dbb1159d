package runner

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// colours of the contenders, the same in every plot, and distinguishable with colour blindness.
var colours = map[string]color.Color{
	theFloor.name:  color.RGBA{0x88, 0x88, 0x88, 0xff},
	oursMap.name:   color.RGBA{0x00, 0x5f, 0xb8, 0xff},
	oursJSON.name:  color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	reflector.name: color.RGBA{0x00, 0x8a, 0x5e, 0xff},
	peerPull.name:  color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	peerWatch.name: color.RGBA{0xcc, 0x79, 0xa7, 0xff},
}

// WritePlots writes the plots of the measurements to a folder.
func (r *Results) WritePlots(folder string) error {
	large := "initial-large"
	if len(r.groups(large)) == 0 {
		large = "initial"
	}
	for name, draw := range map[string]func() (*plot.Plot, error){
		"rss-initial-state.svg": func() (*plot.Plot, error) {
			return r.memoryPlot(large, "Resident memory during the initial state, pods of 8 KB", []string{theFloor.name, oursMap.name, oursJSON.name, reflector.name, peerPull.name})
		},
		"rss-relist.svg": func() (*plot.Plot, error) {
			return r.memoryPlot("swap", "Resident memory during initial state and relist, pods of 8 KB", []string{oursMap.name, peerPull.name})
		},
		"cpu-by-objects.svg": func() (*plot.Plot, error) {
			return r.countPlot("cpu_s", "Processor time of the initial state", "CPU s")
		},
		"peak-by-objects.svg": func() (*plot.Plot, error) { return r.countPlot("peak_mb", "Peak of resident memory", "MB") },
	} {
		p, err := draw()
		if err != nil {
			return fmt.Errorf("cannot draw %s: %w", name, err)
		}
		if p == nil {
			continue // not measured
		}
		if err := p.Save(19*vg.Centimeter, 11*vg.Centimeter, filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("cannot write %s: %w", name, err)
		}
	}
	return nil
}

func newPlot(title, x, y string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.BackgroundColor = color.White // it may be shown on a dark page
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(8)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), -vg.Points(4)
	p.Legend.Padding = vg.Points(3)
	for _, style := range []*text.Style{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Size = vg.Points(10)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe0}, color.Gray{0xe0}
	p.Add(grid)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plainLogTicks{}
	return p
}

// memoryPlot shows resident memory over time, from the start of each contender to the end of the measurement.
func (r *Results) memoryPlot(scenario, title string, names []string) (*plot.Plot, error) {
	p := newPlot(title, "seconds since the start", "MB")
	p.X.Tick.Marker = plot.TickerFunc(evenTicks)
	low, high := math.Inf(1), 0.0
	type relist struct {
		span
		colour color.Color
	}
	var relists []relist
	for _, name := range names {
		for _, s := range r.Series {
			if s.Scenario != scenario || s.Contender != name {
				continue
			}
			var points plotter.XYs
			for _, sample := range s.Samples {
				if mb := float64(sample.Resident) / 1e6; mb >= leastShown {
					points = append(points, plotter.XY{X: sample.At.Seconds(), Y: mb})
					low, high = min(low, mb), max(high, mb)
				}
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return nil, err
			}
			line.Color, line.Width = colours[name], vg.Points(1.6)
			p.Add(line)
			p.Legend.Add(name, line)
			if mark, ok := s.Marks["relist"]; ok {
				relists = append(relists, relist{mark, colours[name]})
			}
		}
	}
	if high == 0 {
		return nil, nil
	}
	bounds(p, low, high)
	p.X.Min = 0
	for i, mark := range relists {
		at := mark.From.Seconds()
		line, err := plotter.NewLine(plotter.XYs{{X: at, Y: p.Y.Min}, {X: at, Y: high * 1.3}})
		if err != nil {
			return nil, err
		}
		line.Color, line.Dashes = mark.colour, []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(line)
		if i == 0 {
			p.Legend.Add("relist begins", line)
		}
	}
	return p, nil
}

// leastShown is about the size of a process before its program begins, which is not shown.
const leastShown = 6

// evenTicks returns the ticks of a linear axis from 0.
func evenTicks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, factor := range []float64{5, 2} {
		if (high-low)/(step*factor) >= 4 {
			step *= factor
			break
		}
	}
	var ticks []plot.Tick
	for n := math.Ceil(low / step); n*step <= high; n++ {
		ticks = append(ticks, plot.Tick{Value: n * step, Label: plain(n * step)})
	}
	return ticks
}

// countPlot shows a figure against the number of objects.
func (r *Results) countPlot(key, title, unit string) (*plot.Plot, error) {
	p := newPlot(title+", pods of 2 KB", "objects", unit)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plainLogTicks{}
	low, high := math.Inf(1), 0.0
	byName := map[string]plotter.XYs{}
	var names []string
	for _, g := range r.groups("counts") {
		value, ok := g.median(key)
		if !ok || value <= 0 {
			continue
		}
		if byName[g.contender] == nil {
			names = append(names, g.contender)
		}
		byName[g.contender] = append(byName[g.contender], plotter.XY{X: float64(g.objects), Y: value})
		low, high = min(low, value), max(high, value)
	}
	if high == 0 {
		return nil, nil
	}
	for _, name := range names {
		line, points, err := plotter.NewLinePoints(byName[name])
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colours[name], vg.Points(1.6)
		points.Color, points.Shape, points.Radius = colours[name], draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(line, points)
		p.Legend.Add(name, line, points)
	}
	bounds(p, low, high)
	p.X.Max *= 1.7 // room for the last label
	return p, nil
}

// bounds leaves room for the legend above the lines.
func bounds(p *plot.Plot, low, high float64) {
	p.Y.Min = low / 1.5
	p.Y.Max = high * math.Pow(high/low, 0.35) * 1.3
}

// plainLogTicks returns the ticks of a logarithmic axis, with the decades written out.
type plainLogTicks struct{}

func (plainLogTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for step := 1.0; step < 10; step++ {
			at := decade * step
			if at < low || at > high {
				continue
			}
			label := ""
			if step == 1 || high/low < 8 && (step == 2 || step == 5) {
				label = plain(at)
			}
			ticks = append(ticks, plot.Tick{Value: at, Label: label})
		}
	}
	return ticks
}

func plain(value float64) string {
	if value >= 1000 {
		return thousands(int(math.Round(value)))
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", value), "0"), ".")
}
