package verify

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Files are the files of records, oldest first. They may grow while they are read.
type Files struct {
	paths   []string
	offsets []int64
	lines   []int
}

// NewFiles returns the files before the first line.
func NewFiles(paths []string) *Files {
	return &Files{paths: paths, offsets: make([]int64, len(paths)), lines: make([]int, len(paths))}
}

// ReadInto applies the complete lines that were not read yet.
func (f *Files) ReadInto(to *Fold) error {
	for i := range f.paths {
		if err := f.readFile(i, to); err != nil {
			return fmt.Errorf("cannot read the records: %w", err)
		}
	}
	return nil
}

func (f *Files) readFile(i int, to *Fold) error {
	file, err := os.Open(f.paths[i])
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.offsets[i] {
		return fmt.Errorf("%s was truncated meanwhile; name rotated files too, oldest first", f.paths[i])
	}
	lines := bufio.NewReaderSize(io.NewSectionReader(file, f.offsets[i], 1<<62), 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the rest is still being written
		} else if err != nil {
			return err
		}
		f.lines[i]++
		place := Place{Path: f.paths[i], Line: f.lines[i], Offset: f.offsets[i]}
		f.offsets[i] += int64(len(line))
		if line = bytes.TrimSpace(line); len(line) > 0 {
			to.AddLine(line, place)
		}
	}
}

// Body returns the object in the last record of an object, which is read again.
func (f *Files) Body(of Object) (Body, error) {
	file, err := os.Open(of.Place.Path)
	if err != nil {
		return Body{}, fmt.Errorf("cannot read the records: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	line, err := bufio.NewReader(io.NewSectionReader(file, of.Place.Offset, 1<<62)).ReadBytes('\n')
	if err != nil {
		return Body{}, fmt.Errorf("cannot read the records: %w", err)
	}
	return bodyOf(line, of), nil
}
