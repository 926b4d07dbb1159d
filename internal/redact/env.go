package redact

// containersInterior is what becomes of a list of containers (or, as some custom resources have it, of
// containers by name): the values of their environment are masked, wherever in an object a list of that name is.
func containersInterior(in *interior) *interior {
	container := &rule{}
	container.in = in.with(member{key: "env", rule: environment(in)})
	container.in.elements = container

	containers := container.in.with()
	containers.others = container
	return containers
}

// environment masks the values of environment variables. The variables are an array of objects with name and
// value. In other shapes it is not known what is a value, so all of it is one.
func environment(in *interior) *rule {
	masked := whole(mask)
	variable := &rule{
		do: [shapes]verdict{scalar: mask, null: mask, array: mask},
		in: in.with(member{key: "value", rule: masked}),
	}
	return &rule{
		do: [shapes]verdict{scalar: mask}, // null is how YAML says that there are none
		in: &interior{elements: variable, others: scalarsMasked(in)},
	}
}

// scalarsMasked masks every scalar at any depth, but for what a valueFrom refers to.
func scalarsMasked(in *interior) *rule {
	deep := &rule{do: [shapes]verdict{scalar: mask, null: mask}}
	reference := &rule{do: [shapes]verdict{scalar: mask, null: mask}, in: in}
	deep.in = (&interior{elements: deep, others: deep}).named(member{key: "valueFrom", rule: reference})
	return deep
}
