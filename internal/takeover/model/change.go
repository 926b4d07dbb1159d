package model

import "fmt"

type kind uint8

const (
	kindSnapshot kind = iota + 1
	kindAdded
	kindModified
	kindDeleted
	kindGap
	kindBegin // a set of snapshots of all objects follows
	kindEnd   // the set is complete
	// The others are no records. They go through the queue so that they take effect after what was read before them.
	kindKnown     // an earlier leader's pipeline has accepted this version of the object
	kindForgotten // the same of its deletion
	kindUnchanged // the version has the content that was emitted before
	kindAdvanced  // everything up to closes was read
)

var kindNames = [...]string{"", "SNAPSHOT", "ADDED", "MODIFIED", "DELETED", "GAP", "BEGIN", "END", "known", "forgotten", "unchanged", "advanced"}

// change is one item of a replica's queue.
type change struct {
	reader   int
	kind     kind
	uid      uid
	at       version
	content  int
	inferred bool
	live     bool // from the watch
	// closes: once the change is accepted, so is everything up to this version.
	closes version
	gap    span
	reason string
	epoch  int
	count  int // of a set's end: how many of its snapshots were accepted
	// observed is when the replica read it.
	observed millis
}

func (c *change) isRecord() bool   { return c.kind <= kindEnd }
func (c *change) isOfObject() bool { return c.kind <= kindDeleted }

// introduces reports whether the pipeline may receive an object for the first time.
func (c *change) introduces() bool { return c.kind == kindAdded || c.kind == kindSnapshot }

func (c *change) String() string {
	switch c.kind {
	case kindGap:
		return fmt.Sprintf("r%d GAP %s (%d,%d]", c.reader, c.reason, c.gap.from, c.gap.to)
	case kindBegin, kindEnd, kindAdvanced:
		return fmt.Sprintf("r%d %s set %d @%d", c.reader, kindNames[c.kind], c.epoch, c.closes)
	}
	s := fmt.Sprintf("r%d %s u%d@%d", c.reader, kindNames[c.kind], c.uid, c.at)
	if c.inferred {
		s += " inferred"
	}
	return s
}
