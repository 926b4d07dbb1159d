package kubeclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

// Right is a right to do something with a resource.
type Right struct {
	Verb string
	schema.GroupResource
	Namespace string // "" is all, or that of a resource without namespaces
	Name      string // "" is all
}

// accessReview is a SelfSubjectAccessReview.
// https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-access-review-v1/
type accessReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		ResourceAttributes resourceAttributes `json:"resourceAttributes"`
	} `json:"spec"`
	Status struct {
		Allowed         bool   `json:"allowed"`
		EvaluationError string `json:"evaluationError,omitempty"`
	} `json:"status"`
}

type resourceAttributes struct {
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

var accessReviewsPath = []string{"apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"}

const accessReviewKind = "SelfSubjectAccessReview"

// May asks the API server whether the client's credentials give a right. By default every authenticated client may ask:
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles
// An error means that the answer is unknown: the server does not answer, refuses, or cannot tell itself.
func (c *Client) May(ctx context.Context, right Right) (bool, error) {
	review := accessReview{APIVersion: "authorization.k8s.io/v1", Kind: accessReviewKind}
	review.Spec.ResourceAttributes = resourceAttributes{
		Verb: right.Verb, Group: right.Group, Resource: right.Resource, Namespace: right.Namespace, Name: right.Name,
	}
	content, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	cannot := func(err error) error {
		return fmt.Errorf("cannot ask whether %s of %s is allowed (create selfsubjectaccessreviews, group \"authorization.k8s.io\"): %w", right.Verb, right.GroupResource, err)
	}
	answer, err := c.getSmall(ctx, get{method: http.MethodPost, path: accessReviewsPath, accept: acceptJSON, content: content})
	if err != nil {
		return false, cannot(err)
	}
	var reviewed accessReview
	if json.Unmarshal(answer.content, &reviewed) != nil || reviewed.Kind != accessReviewKind {
		return false, cannot(answer.undecodable())
	}
	if said := servertext.Clean(reviewed.Status.EvaluationError); said != "" && !reviewed.Status.Allowed {
		return false, cannot(fmt.Errorf("the API server cannot tell: %s", said))
	}
	return reviewed.Status.Allowed, nil
}
