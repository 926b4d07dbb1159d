package preflight

import (
	"cmp"
	"context"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
)

// leases checks the rights to the Leases of replicas. Those whose namespace is not configured are in that of the pod.
func (c *check) leases(ctx context.Context, all []k8swatchlistreceiver.ElectionLease) error {
	may := func(verb, namespace, name string) (bool, error) {
		return c.server.May(ctx, kubeclient.Right{Verb: verb, GroupResource: leases, Namespace: namespace, Name: name})
	}
	lacking := make(map[string][]string) // names by namespace
	seen := make(map[string]bool)
	for _, lease := range all {
		namespace := cmp.Or(lease.Namespace, serviceAccountNamespace(c.User))
		if namespace == "" {
			c.warn("the Leases of the replicas are in the namespace of the pod, which is not known, so the rights to them were not checked; add --as system:serviceaccount:NAMESPACE:NAME")
			return nil
		}
		if !seen[namespace] {
			seen[namespace] = true
			ok, err := may("create", namespace, "")
			if err != nil {
				return err
			}
			if !ok {
				c.needed.AddLeaseCreation(namespace)
			}
		}
		for _, verb := range []string{"get", "update"} {
			ok, err := may(verb, namespace, lease.Name)
			if err != nil {
				return err
			}
			if !ok {
				lacking[namespace] = append(lacking[namespace], lease.Name)
				break
			}
		}
	}
	for namespace, names := range lacking {
		c.needed.AddLeaseUse(namespace, names)
	}
	return nil
}

// serviceAccountNamespace returns the namespace of a user that is a service account, or "".
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
func serviceAccountNamespace(user string) string {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, _, named := strings.Cut(rest, ":")
	if !ok || !named {
		return ""
	}
	return namespace
}
