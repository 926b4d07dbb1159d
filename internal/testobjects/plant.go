package testobjects

import (
	"encoding/base64"
	"fmt"
	"slices"
)

// Planted is a secret value in an object that must be masked.
type Planted struct {
	Where string // "data", "stringData", "env", "last-applied" or "managedFields"
	Value string
}

// planter puts secret values, each of them different, wherever an object may have some.
type planter struct {
	count   int
	planted []Planted
}

func (p *planter) next(where string) string {
	p.count++
	value := fmt.Sprintf(`planted "%04d" <never> to be\seen %s`, p.count, where)
	p.planted = append(p.planted, Planted{where, value})
	return value
}

// plant adds secrets to an object and to those inside it, and returns them.
func (p *planter) plant(object members) []Planted {
	p.planted = nil
	p.in(object)
	return p.planted
}

func (p *planter) in(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			p.in(item)
		}
	case members:
		for i, m := range v {
			switch {
			case m.key == "metadata":
				v[i].value = p.metadata(m.value)
			case v.get("kind") == "Secret" && m.key == "data":
				p.values(m.value, func() any { return base64.StdEncoding.EncodeToString([]byte(p.next("data"))) })
			case v.get("kind") == "Secret" && m.key == "stringData":
				p.values(m.value, func() any { return p.next("stringData") })
			case slices.Contains([]string{"containers", "initContainers", "ephemeralContainers"}, m.key):
				p.containers(m.value)
			default:
				p.in(m.value)
			}
		}
	}
}

func (p *planter) values(v any, value func() any) {
	values, _ := v.(members)
	for i := range values {
		values[i].value = value()
	}
}

func (p *planter) containers(v any) {
	containers, _ := v.([]any)
	for _, v := range containers {
		container, _ := v.(members)
		variables, _ := container.get("env").([]any)
		for _, v := range variables {
			variable, _ := v.(members)
			for i, m := range variable {
				if m.key == "value" {
					variable[i].value = p.next("env")
				}
			}
		}
		p.in(v)
	}
}

// metadata adds the annotation of kubectl apply and the managedFields with which the server tracks it. It also adds a
// second manager and a second owner, which must not affect the result.
func (p *planter) metadata(v any) any {
	metadata, _ := v.(members)
	for i, m := range metadata {
		switch m.key {
		case "annotations":
			annotations, _ := m.value.(members)
			applied := string(encode(map[string]any{"stringData": map[string]any{"k": p.next("last-applied")}}))
			metadata[i].value = append(annotations, member{"kubectl.kubernetes.io/last-applied-configuration", applied})
		case "managedFields":
			managers, _ := m.value.([]any)
			for _, manager := range managers {
				manager, _ := manager.(members)
				for i, m := range manager {
					if m.key == "fieldsV1" {
						manager[i].value = members{{"f:data", members{{"f:" + p.next("managedFields"), members{}}}}}
					}
				}
			}
			metadata[i].value = append(managers, members{{"manager", "earlier"}, {"time", "2001-01-01T01:01:01Z"}})
		case "ownerReferences":
			owners, _ := m.value.([]any)
			bystander := members{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "bystander"}, {"uid", "b"}}
			metadata[i].value = append([]any{bystander}, owners...)
		}
	}
	if metadata == nil {
		return v
	}
	return metadata
}
