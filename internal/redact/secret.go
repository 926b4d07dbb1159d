package redact

// Masked stands in the place of every value that may not be seen.
const Masked = "[REDACTED]"

// secretValues masks the values of a Secret's data and stringData and leaves the keys, which say what it
// holds. Anything but an object there is masked whole.
func secretValues() *rule {
	return &rule{
		do: [shapes]verdict{scalar: mask, null: mask, array: mask},
		in: &interior{others: whole(mask)},
	}
}

// secretObject is what becomes of the parts of a Secret, where it is known before that the object is one:
// only what a Secret is known to have goes out, and only in the shape it is known to have.
// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/secret-v1/
func secretObject(in *interior) *interior {
	only := func(s shape, r *rule) *rule {
		strict := &rule{do: [shapes]verdict{mask, mask, mask, mask}, note: r.note, in: r.in}
		strict.do[s], strict.do[null] = keep, keep
		return strict
	}
	secret := &interior{elements: whole(mask), others: whole(mask)}
	return secret.named(
		member{key: "apiVersion", rule: only(scalar, in.rule([]byte("apiVersion")))},
		member{key: "kind", rule: only(scalar, in.rule([]byte("kind")))},
		member{key: "metadata", rule: only(object, in.rule([]byte("metadata")))},
		member{key: "type", rule: only(scalar, in.rule([]byte("type")))},
		member{key: "immutable", rule: only(scalar, in.rule([]byte("immutable")))},
		member{key: "data", rule: secretValues()},
		member{key: "stringData", rule: secretValues()},
	)
}
