package watchlist

// position is how far a resource has been read: everything up to and including rv, and if it is not closed,
// of rv itself perhaps only the objects in at. Several events can share one version: when a lease runs out,
// etcd deletes all the keys that hang on it in a single revision.
type position struct {
	rv     version
	closed bool
	at     []Key
}

func closedPosition(rv version) position { return position{rv: rv, closed: true} }

func (p *position) none() bool { return p.rv.none() }

// covers says that the event has been read already.
func (p *position) covers(rv version, key Key) bool {
	if rv == p.rv && !rv.none() {
		if p.closed {
			return true
		}
		for _, seen := range p.at {
			if seen == key {
				return true
			}
		}
		return false
	}
	return rv.before(p.rv)
}

// hasPassed says that everything up to and including rv has been read. Where the position is at rv itself, more
// events of that version may follow, until it is closed or a later one comes.
func (p *position) hasPassed(rv version) bool {
	return p.rv.atLeast(rv) && (p.closed || p.rv != rv)
}

// advance moves the position to an event that was read. It never moves back: some servers have sent
// deletions with an old version. https://github.com/kubernetes/kubernetes/issues/63356
func (p *position) advance(rv version, key Key) {
	switch {
	case rv.none() || rv.before(p.rv):
	case rv == p.rv:
		p.at = append(p.at, key)
	default:
		p.rv, p.closed, p.at = rv, false, append(p.at[:0], key)
	}
}

// close moves the position to a version of which everything has been read, as a bookmark says.
func (p *position) close(rv version) {
	if rv.none() || rv.before(p.rv) {
		return
	}
	p.rv, p.closed, p.at = rv, true, p.at[:0]
}

// resumeVersion is where a watch has to start so that nothing after the position is missed. Without
// bookmarks the position's own version may have been cut in the middle, and then it is read again.
func (p *position) resumeVersion(repeatLast bool) string {
	if repeatLast && !p.closed && p.rv.number > 1 {
		return version{number: p.rv.number - 1}.String()
	}
	return p.rv.String()
}
