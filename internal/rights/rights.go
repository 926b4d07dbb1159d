// Package rights asks the API server which rights to read resources are missing, so that messages can name them.
//
// Nothing depends on the answers: readers start without them, and their requests show what is really allowed. So an
// answer that is late, refused or wrong changes nothing but the text of messages.
package rights

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

const (
	// askTimeout bounds one question.
	askTimeout = 10 * time.Second
	// refusedTimeout bounds the questions after a refused request, for which its log entry waits.
	refusedTimeout = 3 * time.Second
	// maxPerSecond is how many questions are asked per second at most. They are also a quarter of the requests that the
	// configuration allows, at most.
	maxPerSecond = 5
	// maxNeeds is how many needs a report asks about. What goes beyond is only asked about after a refused request.
	maxNeeds = 100
	// maxFailures is how many questions in a row may have no answer before a report asks no more.
	maxFailures = 3
)

// toRead are the rights to read a resource. The first is enough if the API server streams the initial state.
var toRead = []string{"watch", "list"}

// Server is the part of the API server that is asked.
type Server interface {
	May(ctx context.Context, right kubeclient.Right) (bool, error)
}

// Check asks which rights are missing. It is safe for concurrent use.
type Check struct {
	server Server
	pace   *kubeclient.Pacer
}

// New returns a check of a server. qps is how many requests per second the configuration allows.
func New(server Server, qps float64) *Check {
	return &Check{server: server, pace: kubeclient.NewPacer(min(maxPerSecond, qps/4), 1)}
}

// Missing returns the verbs that are missing to read a scope, or nil if that is not known within seconds. It is called
// after a request was refused, and goes before a report.
func (c *Check) Missing(ctx context.Context, of scope.Scope) []string {
	ctx, cancel := context.WithTimeout(ctx, refusedTimeout)
	defer cancel()
	missing, err := c.ask(ctx, of, toRead, true)
	if err != nil {
		return nil
	}
	return missing
}

// ask returns those of the verbs that are missing.
func (c *Check) ask(ctx context.Context, of scope.Scope, verbs []string, first bool) (missing []string, err error) {
	for _, verb := range verbs {
		may, err := c.may(ctx, kubeclient.Right{Verb: verb, GroupResource: of.GroupResource, Namespace: of.Namespace, Name: of.OnlyName()}, first)
		if err != nil {
			return nil, err
		}
		if !may {
			missing = append(missing, verb)
		}
	}
	return missing, nil
}

func (c *Check) may(ctx context.Context, right kubeclient.Right, first bool) (bool, error) {
	if err := c.pace.Wait(ctx, first); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.server.May(ctx, right)
}

// Need is what a receiver should be allowed to do.
type Need struct {
	Scope scope.Scope
	Verbs []string // nil: to read the scope
	// Optional means that the receiver does without, with less. A right to list that is missing is always optional.
	Optional bool
}

// Report asks about needs, and logs in one entry which rights are missing. isRead reports whether a scope is being read,
// whatever the server has said about the right to.
func (c *Check) Report(ctx context.Context, needs []Need, isRead func(scope.Scope) bool, logger *zap.Logger) {
	var needed, optional []lack
	failures := 0
	for _, need := range needs[:min(len(needs), maxNeeds)] {
		verbs := need.Verbs
		if verbs == nil {
			verbs = toRead
		}
		missing, err := c.ask(ctx, need.Scope, verbs, false)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if failures++; failures == maxFailures {
				logger.Info("cannot find out which rights are missing, they are named when a request is refused", zap.Error(err))
				break
			}
			continue
		}
		failures = 0
		switch l := (lack{need.Scope, missing}); {
		case missing == nil:
		case need.Optional || !slices.Contains(missing, toRead[0]):
			optional = append(optional, l)
		default:
			needed = append(needed, l)
		}
	}
	needed = slices.DeleteFunc(needed, func(l lack) bool { return isRead(l.of) }) // then the answer was wrong
	log(logger, needed, optional)
}

// log logs what is missing. The reader of a single resource that cannot be read has logged the same.
func log(logger *zap.Logger, needed, optional []lack) {
	switch {
	case len(needed) > 1:
		fields := []zap.Field{zap.Strings("resources", names(needed)), zap.String("remedy", remedy(needed))}
		if len(optional) > 0 {
			fields = append(fields, zap.String("optional", remedy(optional)))
		}
		logger.Warn("rights are missing to read resources", fields...)
	case len(optional) > 0:
		logger.Info("rights are missing that the receiver can do without",
			zap.Strings("resources", names(optional)), zap.String("remedy", remedy(optional)))
	}
}
