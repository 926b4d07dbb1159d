package testobjects

import "slices"

// Seen returns what may be seen of an object that encoding/json has read and that is formed as its kind is: its
// parts but for managedFields and the annotation of kubectl apply, with "[REDACTED]" for the values of Secrets and
// of the variables of containers. It changes the object. What is a Secret by its resource need not say so.
func Seen(object map[string]any, resource string) map[string]any {
	if resource == "secrets" {
		maskValues(object)
	}
	seen(object)
	return object
}

func seen(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			seen(item)
		}
	case map[string]any:
		if v["kind"] == "Secret" {
			maskValues(v)
		}
		for key, value := range v {
			seen(value)
			part, _ := value.(map[string]any)
			list, _ := value.([]any)
			switch {
			case key == "metadata":
				delete(part, "managedFields")
				annotations, _ := part["annotations"].(map[string]any)
				delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
			case slices.Contains([]string{"containers", "initContainers", "ephemeralContainers"}, key):
				for _, container := range list {
					maskVariables(container)
				}
			}
		}
	}
}

const masked = "[REDACTED]"

func maskValues(secret map[string]any) {
	for _, key := range []string{"data", "stringData"} {
		values, isObject := secret[key].(map[string]any)
		if has(secret, key) && !isObject {
			secret[key] = masked
		}
		for key := range values {
			values[key] = masked
		}
	}
}

func maskVariables(container any) {
	of, _ := container.(map[string]any)
	variables, _ := of["env"].([]any)
	for _, variable := range variables {
		if variable, _ := variable.(map[string]any); variable != nil && has(variable, "value") {
			variable["value"] = masked
		}
	}
}

func has(m map[string]any, key string) bool {
	_, has := m[key]
	return has
}
