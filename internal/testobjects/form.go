package testobjects

import "hash/fnv"

// Form is one way in which an object is encoded or embedded in another object.
type Form struct {
	Name            string
	Group, Resource string // the resource of the object in JSON
	JSON            []byte
}

// Forms returns the object in every form. The objects with a pod template make up most of the bytes and are much alike,
// so the forms, except the deepest, are distributed over them: each has two besides the one of the server.
func (o Object) Forms() []Form {
	hash := fnv.New64()
	hash.Write([]byte(o.Name()))
	seed := hash.Sum64()
	all := o.allForms(seed)
	const podTemplate = 20_000
	if len(o.JSON) < podTemplate || o.Name() == "core.v1.Pod" || o.Name() == "batch.v1.CronJob" {
		return all
	}
	others := all[1:]
	n := seed % uint64(len(others)-1)
	return []Form{all[0], others[n], others[n+1]}
}

func (o Object) allForms(seed uint64) []Form {
	item := members{} // in a LIST, the server omits the items' kind and apiVersion
	for _, m := range o.tree {
		if m.key != "kind" && m.key != "apiVersion" {
			item = append(item, m)
		}
	}
	list := members{
		{"kind", "List"}, {"apiVersion", "v1"}, {"metadata", members{{"resourceVersion", "7"}}}, {"items", []any{o.tree}},
	}
	custom := members{
		{"spec", members{{"manifests", []any{"text", members{{"template", reversed(o.tree)}}}}}},
		{"metadata", members{{"uid", "u"}, {"resourceVersion", "7"}, {"name", "n"}, {"namespace", "s"}}},
		{"kind", "Wrapper"}, {"apiVersion", "example.com/v1"},
	}

	forms := []Form{
		{Name: "as it is", JSON: o.JSON},
		{Name: "spaced", JSON: append(style{space: "\n\t "}.append([]byte("\r\n "), o.tree), "\n "...)},
		{Name: "reversed", JSON: style{}.append(nil, reversed(o.tree))},
		{Name: "not ASCII", JSON: style{}.append(nil, nonASCII(o.tree))},
		{Name: "escaped", JSON: style{escaped: true}.append(nil, nonASCII(o.tree))},
		{Name: "thinned", JSON: style{}.append(nil, thinned(o.tree, seed))},
		{Name: "an item", JSON: style{}.append(nil, item)},
	}
	for i := range forms {
		forms[i].Group, forms[i].Resource = o.Group, o.Resource
	}
	return append(forms,
		Form{Name: "in a list", Group: "", Resource: "lists", JSON: style{}.append(nil, list)},
		Form{Name: "in a custom resource", Group: "example.com", Resource: "wrappers", JSON: style{}.append(nil, custom)},
	)
}
