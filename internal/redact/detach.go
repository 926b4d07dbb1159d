package redact

import "strings"

// WithJSON returns the object with another JSON. It does not keep the JSON that it had in memory, of which its other
// strings may be slices.
func (o Object) WithJSON(json string) Object {
	o.JSON = json
	o.Identity = o.Identity.Clone()
	detach(&o.APIVersion, &o.Kind, &o.Owner.APIVersion, &o.Owner.Kind, &o.Owner.Name, &o.Owner.UID)
	if o.Event != nil {
		e := *o.Event
		r := &e.Regarding
		detach(&e.Type, &e.Reason, &e.Action, &e.Note, &e.ReportingController, &e.ReportingInstance, &e.Host,
			&r.APIVersion, &r.Kind, &r.Namespace, &r.Name, &r.UID, &r.ResourceVersion, &r.FieldPath)
		o.Event = &e
	}
	if o.Pod != nil {
		p := *o.Pod
		detach(&p.Node, &p.Phase, &p.IP, &p.Started, &p.TemplateHash)
		o.Pod = &p
	}
	return o
}

// detach replaces texts by copies that do not keep a larger text in memory.
func detach(texts ...*string) {
	for _, text := range texts {
		*text = strings.Clone(*text)
	}
}
