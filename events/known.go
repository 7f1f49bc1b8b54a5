package events

// Known reports whether this build reads events of this type and schema.
func (e Envelope) Known() bool {
	newest, ok := schemas[e.Type]
	return ok && e.Schema <= newest
}
