package roles

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects returns the roles and their bindings, as they are applied.
func (r *Roles) Objects() []any {
	var objects []any
	for _, namespace := range r.Namespaces() {
		meta := metav1.ObjectMeta{Name: r.Name, Namespace: namespace}
		var policies []rbacv1.PolicyRule
		for _, rule := range r.Rules(namespace) {
			policies = append(policies, rule.PolicyRule)
		}
		kind := kindIn(namespace)
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: r.Name}
		if namespace == "" {
			objects = append(objects, &rbacv1.ClusterRole{TypeMeta: typeOf(kind), ObjectMeta: meta, Rules: policies})
		} else {
			objects = append(objects, &rbacv1.Role{TypeMeta: typeOf(kind), ObjectMeta: meta, Rules: policies})
		}
		switch {
		case len(r.Subjects) == 0:
		case namespace == "":
			objects = append(objects, &rbacv1.ClusterRoleBinding{TypeMeta: typeOf(kind + "Binding"), ObjectMeta: meta, RoleRef: ref, Subjects: r.Subjects})
		default:
			objects = append(objects, &rbacv1.RoleBinding{TypeMeta: typeOf(kind + "Binding"), ObjectMeta: meta, RoleRef: ref, Subjects: r.Subjects})
		}
	}
	return objects
}

func kindIn(namespace string) string {
	if namespace == "" {
		return "ClusterRole"
	}
	return "Role"
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// WriteYAML writes the same objects as Objects, with a comment for each rule.
func (r *Roles) WriteYAML(w io.Writer) error {
	var b strings.Builder
	for i, namespace := range r.Namespaces() {
		if i > 0 {
			b.WriteString("---\n")
		}
		kind := kindIn(namespace)
		r.writeHead(&b, kind, namespace)
		b.WriteString("rules:\n")
		for _, rule := range r.Rules(namespace) {
			writeRule(&b, rule)
		}
		if len(r.Subjects) == 0 {
			continue
		}
		b.WriteString("---\n")
		r.writeHead(&b, kind+"Binding", namespace)
		fmt.Fprintf(&b, "roleRef:\n  apiGroup: %s\n  kind: %s\n  name: %s\nsubjects:\n", rbacv1.GroupName, kind, quote(r.Name))
		for _, subject := range r.Subjects {
			fmt.Fprintf(&b, "  - kind: %s\n    name: %s\n", subject.Kind, quote(subject.Name))
			if subject.Namespace != "" {
				fmt.Fprintf(&b, "    namespace: %s\n", quote(subject.Namespace))
			}
			if subject.APIGroup != "" {
				fmt.Fprintf(&b, "    apiGroup: %s\n", subject.APIGroup)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Roles) writeHead(b *strings.Builder, kind, namespace string) {
	fmt.Fprintf(b, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", rbacv1.SchemeGroupVersion, kind, quote(r.Name))
	if namespace != "" {
		fmt.Fprintf(b, "  namespace: %s\n", quote(namespace))
	}
}

// RulesYAML returns the rules of the role in a namespace, or of the cluster role for "", as items of its list of rules.
func (r *Roles) RulesYAML(namespace string) string {
	var b strings.Builder
	for _, rule := range r.Rules(namespace) {
		writeRule(&b, rule)
	}
	return b.String()
}

func writeRule(b *strings.Builder, rule Rule) {
	fmt.Fprintf(b, "  # %s\n", rule.Why)
	first := "- "
	for _, line := range []struct {
		name   string
		values []string
	}{
		{"apiGroups", rule.APIGroups},
		{"resources", rule.Resources},
		{"resourceNames", rule.ResourceNames},
		{"nonResourceURLs", rule.NonResourceURLs},
		{"verbs", rule.Verbs},
	} {
		if line.values == nil {
			continue
		}
		fmt.Fprintf(b, "  %s%s: [", first, line.name)
		first = "  "
		for i, value := range line.values {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(value))
		}
		b.WriteString("]\n")
	}
}

// quote returns a string as YAML, in quotation marks unless it certainly is a string without them.
func quote(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	plain := s != "" && strings.ContainsRune(letters, rune(s[0])) &&
		strings.Trim(s, letters+"0123456789-.") == ""
	switch s {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return s
	}
	quoted, _ := json.Marshal(s) //nolint:errcheck // a string can always be marshaled
	return string(quoted)
}
