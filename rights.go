package k8swatchlistreceiver

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/rights"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// questionsDelay is how long after the start of reading the API server is asked what reading does not need: readers go first.
const questionsDelay = 5 * time.Second

// afterReaders waits for that long, and reports whether ctx has not ended meanwhile.
func afterReaders(ctx context.Context) bool {
	select {
	case <-time.After(questionsDelay):
		return true
	case <-ctx.Done():
		return false
	}
}

// reportRights logs which rights are missing.
func (r *watchlistReceiver) reportRights(ctx context.Context) {
	if !afterReaders(ctx) {
		return
	}
	specs := r.cfg.Specs()
	resolved, _, err := catalog.Resolve(ctx, specs, r.client)
	if err != nil {
		return // the catalog reports it
	}
	r.reportNeeds(ctx, needs(specs, resolved))
}

// reportNeeds does that unless an earlier session has: a replica begins another one whenever it begins to lead or to stand by.
func (r *watchlistReceiver) reportNeeds(ctx context.Context, needed []rights.Need) {
	if slices.EqualFunc(r.reported, needed, sameNeed) {
		return
	}
	if r.rights.Report(ctx, needed, r.health.isRead, r.set.Logger); ctx.Err() == nil {
		r.reported = needed
	}
}

func sameNeed(a, b rights.Need) bool {
	return a.Scope == b.Scope && a.Optional == b.Optional && slices.Equal(a.Verbs, b.Verbs)
}

// needs returns what the receiver should be allowed to do. What patterns select is read as far as it is allowed.
func needs(specs []catalog.Spec, resolved []catalog.Resolved) []rights.Need {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	var all []rights.Need
	labels := make(map[string]bool)
	for _, r := range resolved {
		if of := r.Scope.Namespaces().Labels; of != "" && !labels[of] {
			labels[of] = true
			all = append(all, rights.Need{Scope: scope.New(namespaces, "", of, "")})
		}
		if r.Spec.Pattern == nil {
			// Without the right in all namespaces, the selected ones are read one by one.
			all = append(all, rights.Need{Scope: r.Scope, Optional: r.Scope.Among != ""})
		}
	}
	all = append(all, rights.Need{Scope: scope.New(namespaces, "", "", "metadata.name=kube-system"), Verbs: []string{"get"}, Optional: true})
	if catalog.FollowsDefinitions(specs) {
		for _, of := range catalog.DefinitionResources {
			need := rights.Need{Scope: scope.New(of, "", "", ""), Optional: true}
			if of.Resource == "apiservices" { // single ones are read as well
				need.Verbs = []string{"get", "list", "watch"}
			}
			all = append(all, need)
		}
	}
	return all
}
