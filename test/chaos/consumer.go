package chaos

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// consumer is what a backend has built from the records of one resource. The records of one Collector are applied in the
// order of their arrival. Those of several replicas, of which a batch may be stored late, are applied as docs/takeover.md
// says: an older version never replaces a newer one, a deletion is final, and whatever is not in a set of snapshots is gone.
type consumer struct {
	replicas   bool
	state      fold.State
	gone       map[string]bool
	namespaces map[string]string // by UID
	changed    map[string]int    // number of the last record, by UID
	begun      map[setOf]int     // number of the begin of a set
	records    int
}

// setOf names a set of snapshots.
type setOf struct {
	life      int
	namespace string // "": all
}

func newConsumer(replicas bool) *consumer {
	return &consumer{
		replicas: replicas, state: fold.State{}, gone: map[string]bool{}, namespaces: map[string]string{}, changed: map[string]int{},
		begun: map[setOf]int{},
	}
}

// add applies a record that arrived from a life of the Collector.
func (c *consumer) add(life int, record harness.Record) {
	c.records++
	if record.Object == nil {
		if c.replicas {
			c.addOfSet(record, setOf{life, streamText(record, "k8s.namespace.name")})
		}
		return
	}
	o := record.Object
	c.namespaces[o.UID], c.changed[o.UID] = o.Namespace, c.records
	switch {
	case o.Type == "DELETED":
		c.remove(o.UID)
	case c.gone[o.UID]:
	case c.replicas && number(o.ResourceVersion) < number(c.state[o.UID]):
	default:
		c.state[o.UID] = o.ResourceVersion
	}
}

func (c *consumer) addOfSet(record harness.Record, of setOf) {
	switch record.Event {
	case "k8s.snapshot.begin":
		c.begun[of] = c.records
	case "k8s.snapshot.end":
		begun, ok := c.begun[of]
		if !ok {
			return
		}
		for uid := range c.state {
			if c.changed[uid] < begun && (of.namespace == "" || of.namespace == c.namespaces[uid]) {
				c.remove(uid)
			}
		}
	}
}

func (c *consumer) remove(uid string) {
	delete(c.state, uid)
	c.gone[uid] = c.replicas
}
