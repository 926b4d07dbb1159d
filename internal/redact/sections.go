package redact

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// Sections is for how many sections of an object a hash is kept.
const Sections = 11

// The sections of the metadata, and the last section, which all other members share.
const (
	sectionLabels = iota
	sectionAnnotations
	sectionFinalizers
	sectionOwners
	sectionDeletion
	firstNamed // the first section of the object's own members, which get theirs in the order in which they are met

	sectionOther = Sections - 1
	noSection    = -1
)

var metadataSections = [firstNamed]string{
	sectionLabels: "metadata.labels", sectionAnnotations: "metadata.annotations", sectionFinalizers: "metadata.finalizers",
	sectionOwners: "metadata.ownerReferences", sectionDeletion: "metadata.deletionTimestamp",
}

// otherSection is the name of the section that members without one of their own share.
const otherSection = "other"

// longestSection is the maximum length of a section's name, in bytes.
const longestSection = 63

// sectionTable assigns sections to the members of a resource's objects. Most kinds have two members besides metadata. If
// there are more members than sections, the last ones share one.
type sectionTable struct {
	names atomic.Pointer[[]string] // of the sections from firstNamed on
	mu    sync.Mutex               // for who adds one
}

func newSectionTable() *sectionTable {
	t := &sectionTable{}
	t.names.Store(&[]string{})
	return t
}

// of returns the section of a member.
func (t *sectionTable) of(key []byte, inMetadata bool) int {
	if inMetadata {
		switch string(key) {
		case "labels":
			return sectionLabels
		case "annotations":
			return sectionAnnotations
		case "finalizers":
			return sectionFinalizers
		case "ownerReferences":
			return sectionOwners
		case "deletionTimestamp", "deletionGracePeriodSeconds":
			return sectionDeletion
		case "name", "namespace", "uid", "generateName", "creationTimestamp", "selfLink", "generation":
			return noSection // these never change, or change with everything else
		}
		return sectionOther
	}
	names := *t.names.Load()
	for i, name := range names {
		if name == string(key) {
			return firstNamed + i
		}
	}
	if firstNamed+len(names) >= sectionOther || len(key) == 0 || len(key) > longestSection || !utf8.Valid(key) {
		return sectionOther
	}
	return t.add(string(key))
}

func (t *sectionTable) add(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := *t.names.Load()
	if at := slices.Index(names, name); at >= 0 {
		return firstNamed + at
	}
	if firstNamed+len(names) >= sectionOther {
		return sectionOther
	}
	names = append(slices.Clone(names), name)
	t.names.Store(&names)
	return firstNamed + len(names) - 1
}

func (t *sectionTable) name(section int) string {
	switch {
	case section < firstNamed:
		return metadataSections[section]
	case section == sectionOther:
		return otherSection
	}
	return (*t.names.Load())[section-firstNamed]
}

// SectionSet is some of the sections of an object.
type SectionSet struct {
	table *sectionTable
	bits  uint16
}

// Changed returns the sections in which two contents of an object differ: none if the sections of one are not known.
func (p *Plan) Changed(before, after *Content) SectionSet {
	if !before.Detailed || !after.Detailed {
		return SectionSet{}
	}
	set := SectionSet{table: p.sections}
	for i := range before.Sections {
		if before.Sections[i] != after.Sections[i] {
			set.bits |= 1 << i
		}
	}
	return set
}

// IsEmpty reports whether no section is in the set.
func (s SectionSet) IsEmpty() bool { return s.bits == 0 }

// IsDeletion reports whether the set holds nothing but the mark for deletion.
func (s SectionSet) IsDeletion() bool { return s.bits == 1<<sectionDeletion }

// Names are the names of the sections, in order: the members of an object (spec, status, data), and those of its metadata
// after "metadata.". What has no section of its own is called other.
func (s SectionSet) Names() []string {
	var names []string
	for i := range Sections {
		if s.bits&(1<<i) != 0 {
			names = append(names, s.table.name(i))
		}
	}
	slices.Sort(names)
	return names
}

// IsOnly reports whether the set holds exactly the section with this name.
func (s SectionSet) IsOnly(name string) bool {
	return bits.OnesCount16(s.bits) == 1 && s.table.name(bits.TrailingZeros16(s.bits)) == name
}
