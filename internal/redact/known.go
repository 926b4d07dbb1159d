package redact

import "strings"

// knownKeys are keys of many objects that have a class, or end as if they had one. They are classified once, when the
// rules are made, instead of in each object. This does not change what is masked.
var knownKeys = strings.Fields(`env envFrom labels annotations matchLabels matchExpressions selector nodeSelector labelSelector
	podSelector namespaceSelector spec state lastState conditions tolerations observedGeneration config fieldRef
	configMapKeyRef secretKeyRef configMapRef secretRef roleRef volumeClaimTemplate topologyKey
	automountServiceAccountToken serviceAccountToken secret requiredDuringSchedulingIgnoredDuringExecution
	preferredDuringSchedulingIgnoredDuringExecution`)

// know names the known keys in all interiors that can be reached from the rule and use classes.
func (r *rule) know(keys *keyTable, seen map[*interior]bool) {
	in := r.in
	if in == nil || seen[in] {
		return
	}
	seen[in] = true
	reached := []*rule{in.elements, in.others}
	for _, m := range in.members {
		reached = append(reached, m.rule)
	}
	if in.byClass != nil {
		reached = append(reached, in.byClass[:]...)
		in.nameKnown(keys)
	}
	for _, next := range reached {
		if next != nil {
			next.know(keys, seen)
		}
	}
}

// nameKnown names the known keys with the rules that they have by their classes.
func (in *interior) nameKnown(keys *keyTable) {
	var known []member
	for _, key := range knownKeys {
		if in.search(in.slots[slotOf([]byte(key), 0, len(key))], []byte(key)) == nil {
			known = append(known, member{key: key, rule: in.unnamed([]byte(key), keys)})
		}
	}
	in.named(append(in.members, known...)...)
}
