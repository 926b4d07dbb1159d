package model

import "slices"

const nobody = -1

// lease is the Lease of the election. Everyone judges by their own clock how long ago it changed.
type lease struct {
	resourceVersion int
	holder          int
}

// span is a stretch of versions: after from, up to and including to.
type span struct{ from, to version }

func (s span) none() bool { return s == span{} }

// and returns the stretch that covers both.
func (s span) and(t span) span {
	if s.none() {
		return t
	}
	return span{min(s.from, t.from), max(s.to, t.to)}
}

// position is what the leader publishes of a reader.
type position struct {
	// known: the initial state is complete, and everything up to w was accepted.
	known bool
	w     version
	// at are the objects whose events at the version after w were accepted too: several objects may share it.
	at   version
	seen []uid
	// until: no object that was created after it was offered to the pipeline.
	until version
	// ended: before the initial state was known to be complete, the end of its set at this version was offered.
	ended version
	// owed are objects whose newest record was refused permanently. many: they are more than fit here.
	owed []uid
	many bool
	// denied is the stretch with refused records that no gap record has reported yet.
	denied span
}

// progress is the object with the positions of all readers. It is a second Lease, so that the frequent renewals of the
// election stay small.
type progress struct {
	resourceVersion int
	term            int
	holder          int
	sealed          bool // the leader has stopped in order, and everything that it read was accepted
	readers         []position
}

func (p progress) clone() progress {
	p.readers = slices.Clone(p.readers)
	return p
}

// cluster is what the replicas share: the API server with its resources, the Lease, and the progress object.
type cluster struct {
	*server
	lease    lease
	progress progress
	wrote    func(before, after progress)
}

// putLease writes the Lease if it has not changed since it was read.
func (c *cluster) putLease(l lease) (lease, bool) {
	if l.resourceVersion != c.lease.resourceVersion {
		return c.lease, false
	}
	l.resourceVersion++
	c.lease = l
	return l, true
}

// putProgress writes the progress object if it has not changed since it was read, or whatever it is.
func (c *cluster) putProgress(p progress, always bool) (progress, bool) {
	if p.resourceVersion != c.progress.resourceVersion && !always {
		return c.progress, false
	}
	p.resourceVersion = c.progress.resourceVersion + 1
	c.wrote(c.progress, p)
	c.progress = p.clone()
	return p, true
}
