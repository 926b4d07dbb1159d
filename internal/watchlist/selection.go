package watchlist

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// A namespace can be selected by its labels. Then it enters the selection, and leaves it, while its objects are read. When
// it enters, it is listed at exactly the position: what the list holds is emitted, and everything later comes from the
// watch, so that nothing is missed or repeated. When it leaves, its objects are emitted as deleted.

// SelectedNamespaces are the namespaces whose labels match. The value of each is the resourceVersion of the namespace with
// which it entered the selection. A map that was passed on is never changed.
type SelectedNamespaces map[string]string

// selection passes the selected namespaces to the reader.
type selection struct {
	mu     sync.Mutex
	next   SelectedNamespaces // nil: nothing new
	signal chan struct{}
}

// Select sets the namespaces whose labels match, if the scope selects namespaces by their labels. It is safe for concurrent
// use.
func (r *Reader) Select(namespaces SelectedNamespaces) {
	r.selection.mu.Lock()
	defer r.selection.mu.Unlock()
	r.selection.next = namespaces
	r.selection.wake()
}

func (s *selection) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *selection) take() SelectedNamespaces {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.next
	s.next = nil
	return next
}

// chosenNamespaces are those whose objects are emitted at the moment, and those whose objects should be.
type chosenNamespaces struct {
	goal     SelectedNamespaces
	chosen   SelectedNamespaces // owned by the reader
	entering map[string]bool    // chosen ones whose objects the next whole snapshot shows
	left     SelectedNamespaces // no longer chosen, while objects of them may be in the inventory
	isSwept  bool               // the inventory holds no objects of others
	isStated bool               // the checkpoint knows the chosen ones
}

// newChosenNamespaces returns none, and the goal.
func newChosenNamespaces(goal SelectedNamespaces) *chosenNamespaces {
	return &chosenNamespaces{
		goal: goal, chosen: make(SelectedNamespaces), entering: make(map[string]bool), left: make(SelectedNamespaces),
	}
}

func (c *chosenNamespaces) has(namespace string) bool {
	_, ok := c.chosen[namespace]
	return namespace == "" || ok
}

// maxListedNamespaces is how many namespaces that enter the selection at once are listed one by one. A snapshot of all
// namespaces costs less than more of them.
const maxListedNamespaces = 10

// reasonSelection is that of a whole snapshot for namespaces that enter the selection.
const reasonSelection = "selection"

// followSelection makes namespaces enter and leave the selection. After an error it is called again, and continues.
func (r *Reader) followSelection(ctx context.Context) error {
	if r.namespaces == nil || r.namespaces.labels == nil {
		return nil
	}
	l := r.namespaces.labels
	if next := r.selection.take(); next != nil {
		l.goal = next
	}
	if err := r.leaveNamespaces(ctx); err != nil {
		return err
	}
	if err := r.enterNamespaces(ctx); err != nil {
		return err
	}
	return r.stateSelection(ctx)
}

// leaveNamespaces emits the deletion of the objects in namespaces that are no longer selected.
func (r *Reader) leaveNamespaces(ctx context.Context) error {
	l := r.namespaces.labels
	for name, stay := range l.chosen {
		if _, ok := l.goal[name]; !ok {
			delete(l.chosen, name)
			delete(l.entering, name)
			l.left[name] = stay
			l.isSwept, l.isStated = false, false
		}
	}
	if l.isSwept {
		return nil
	}
	clear(r.namespaces.known)
	// First, so that a namespace that is selected again after a crash enters again.
	if err := r.stateSelection(ctx); err != nil {
		return err
	}
	for _, key := range r.inventory.outside(func(namespace string) bool {
		_, enters := l.goal[namespace] // its objects are compared when it does
		return enters || l.has(namespace)
	}) {
		if err := r.emitLeaving(ctx, key); err != nil {
			return err
		}
	}
	clear(l.left)
	l.isSwept = true
	return nil
}

func (r *Reader) emitLeaving(ctx context.Context, key Key) error {
	id := r.inventory.identity(key)
	if r.position.rv.atLeast(parseVersion(id.ResourceVersion)) {
		id.ResourceVersion = r.position.rv.String()
	}
	err := r.emitDeletion(ctx, Change{
		Type: Deleted, Origin: Selection, Inferred: true, Key: key, Stay: r.namespaces.labels.left[id.Namespace],
		Object: redact.Object{Identity: id, APIVersion: r.API.APIVersion(r.Scope.Group), Kind: r.API.Kind, JSON: r.lastState(key)},
	}, liveEmitTimeout)
	if err == nil {
		r.forget(key)
	}
	return err
}

// enterNamespaces emits the objects in namespaces that are newly selected, or arranges for a whole snapshot that does.
func (r *Reader) enterNamespaces(ctx context.Context) error {
	l := r.namespaces.labels
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(l.goal)), func(name string) bool {
		_, ok := l.chosen[name]
		return ok || !r.namespaces.selected.Match(name)
	})
	if len(names) == 0 {
		return nil
	}
	whole := !r.canListAtPosition() || len(names) > maxListedNamespaces ||
		len(r.inventory.outside(func(namespace string) bool { return !slices.Contains(names, namespace) })) > 0
	for len(names) > 0 && !whole {
		if err := r.enter(ctx, names[0]); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			r.Logger.Info("cannot list a namespace that is newly selected, comparing everything with a whole snapshot",
				append(r.fields(err), zap.String("name", names[0]))...)
			whole = true
			continue
		}
		r.choose(names[0])
		names = names[1:]
	}
	for _, name := range names {
		r.choose(name)
		l.entering[name] = true
	}
	if len(names) > 0 {
		r.loseHistory(reasonSelection, checked)
	}
	return nil
}

// canListAtPosition reports whether objects can be listed at the version from which the watch continues.
func (r *Reader) canListAtPosition() bool {
	return r.position.rv.comparable() && (r.lost == nil || r.lost.ask) && !r.polls() && !r.server.historyReset && !r.Knowledge.listsForbidden()
}

func (r *Reader) choose(namespace string) {
	l := r.namespaces.labels
	l.chosen[namespace] = l.goal[namespace]
	l.isStated = false
	clear(r.namespaces.known)
}

// enter emits the objects that a namespace held at the position.
func (r *Reader) enter(ctx context.Context, namespace string) error {
	of := r.Scope
	of.Namespace, of.Among = namespace, ""
	req := Request{Scope: of, API: r.API, ResourceVersion: r.position.rv.String(), Exact: true}
	_, err := r.readList(ctx, req, func(ctx context.Context, line []byte) (version, bool, error) {
		f, err := parseFrame(line)
		if err != nil || f.event == watch.Bookmark {
			return version{}, err == nil, err
		}
		if r.isOfAnotherShard(f.object) {
			return version{}, false, nil
		}
		obj, err := r.decode(f.object, false)
		if err != nil {
			return version{}, false, err
		}
		key, rv := keyOf(obj.Identity), parseVersion(obj.ResourceVersion)
		if err := r.emitEntering(ctx, Change{Object: obj, Key: key}, snapshotEmitTimeout); err != nil {
			return version{}, false, err
		}
		r.rememberObject(key, &obj, rv)
		return version{}, false, nil
	})
	return err
}

// emitEntering emits an object in a namespace that enters the selection.
func (r *Reader) emitEntering(ctx context.Context, c Change, timeout time.Duration) error {
	if r.SkipInitial {
		return r.known(ctx, c)
	}
	c.Type, c.Origin, c.Stay = Added, Selection, r.namespaces.labels.goal[c.Object.Namespace]
	r.explain(&c)
	if err := r.emit(ctx, c, timeout); err != nil {
		return err
	}
	r.progressed()
	return nil
}

// isEntering reports whether the objects of a namespace are emitted from a whole snapshot because it enters the selection, and
// not because the scope is another one.
func (r *Reader) isEntering(namespace string) bool {
	if r.lost != nil && r.lost.widened {
		return false
	}
	return r.namespaces != nil && r.namespaces.labels != nil && r.namespaces.labels.entering[namespace]
}

// awaitsSnapshot reports whether a whole snapshot has to show the objects of namespaces that enter the selection.
func (r *Reader) awaitsSnapshot() bool {
	return r.namespaces != nil && r.namespaces.labels != nil && len(r.namespaces.labels.entering) > 0
}

// haveEntered is called when a whole snapshot is complete.
func (r *Reader) haveEntered() {
	if r.namespaces != nil && r.namespaces.labels != nil {
		clear(r.namespaces.labels.entering)
		r.restateSelection()
	}
}

// stateSelection notes in the checkpoint which namespaces are chosen.
func (r *Reader) stateSelection(ctx context.Context) error {
	l := r.namespaces.labels
	if l.isStated || r.Restore == nil || r.position.none() {
		return nil
	}
	selected := maps.Clone(l.chosen)
	for name := range l.entering {
		delete(selected, name)
	}
	if err := r.emit(ctx, Change{Type: Selecting, Selected: selected}, liveEmitTimeout); err != nil {
		return err
	}
	l.isStated = true
	return nil
}

// restateSelection makes the chosen namespaces be noted in the checkpoint soon.
func (r *Reader) restateSelection() {
	if r.namespaces != nil && r.namespaces.labels != nil {
		r.namespaces.labels.isStated = false
		r.selection.wake()
	}
}

// restoreSelection continues with the namespaces that were chosen when the checkpoint was written.
func (r *Reader) restoreSelection(chosen SelectedNamespaces) {
	if r.namespaces == nil || r.namespaces.labels == nil {
		return
	}
	maps.Copy(r.namespaces.labels.chosen, chosen)
	r.namespaces.labels.isStated = true
}
