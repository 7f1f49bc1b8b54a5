package mapjob

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// bounded refuses a schema whose validation may loop or take exponential time.
//
// The work on one value is the number of ways through the schema that end at
// it. Applicators of two sorts lead on: those that look at the same value
// ($ref, allOf, if, …) and those that look at a value one level below it
// (properties, items, …). A cycle of the first sort never ends. For the second
// the ways are counted level by level, as deep as an answer may be: two
// branches that lead back to the same schema double with every level.
func bounded(root *jsonschema.Schema) error {
	b := &bounds{edges: map[*jsonschema.Schema]*edges{}, state: map[*jsonschema.Schema]int{}}
	if err := b.order(root); err != nil {
		return err
	}
	below := map[*jsonschema.Schema]int{}
	for level := range maxAnswerDepth + 1 {
		here := make(map[*jsonschema.Schema]int, len(b.done))
		for _, s := range b.done { // what s leads to at the same value comes before it
			e := b.edges[s]
			n := 1
			if level > 0 {
				n = e.below(below)
			}
			for _, c := range e.same {
				n += here[c]
			}
			if n > maxChecks {
				return fmt.Errorf("schema: one value, %d levels deep, would be checked more than %d times: branches of it lead back to the same definition", level, maxChecks)
			}
			here[s] = n
		}
		below = here
	}
	return nil
}

// edges of a schema to those it applies.
type edges struct {
	same  []*jsonschema.Schema
	one   []*jsonschema.Schema // each to another child: a value meets one of them
	every []*jsonschema.Schema // to any child
}

// below is how often a child of the value is checked at most.
func (e *edges) below(ways map[*jsonschema.Schema]int) int {
	n := 0
	for _, s := range e.one {
		n = max(n, ways[s])
	}
	for _, s := range e.every {
		n += ways[s]
	}
	return n
}

type bounds struct {
	edges map[*jsonschema.Schema]*edges
	state map[*jsonschema.Schema]int // 1 = being visited, 2 = done
	done  []*jsonschema.Schema       // what a schema leads to at the same value first
	queue []*jsonschema.Schema
}

func (b *bounds) order(root *jsonschema.Schema) error {
	b.queue = append(b.queue, root)
	for len(b.queue) > 0 {
		s := b.queue[0]
		b.queue = b.queue[1:]
		if err := b.visit(s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bounds) visit(s *jsonschema.Schema) error {
	switch b.state[s] {
	case 1:
		return errors.New("schema: a $ref leads back to itself without looking at a deeper value")
	case 2:
		return nil
	}
	b.state[s] = 1
	e, err := edgesOf(s)
	if err != nil {
		return err
	}
	b.edges[s] = e
	for _, c := range e.same {
		if err := b.visit(c); err != nil {
			return err
		}
	}
	b.state[s] = 2
	b.done = append(b.done, s)
	b.queue = append(append(b.queue, e.one...), e.every...)
	return nil
}

func edgesOf(s *jsonschema.Schema) (*edges, error) {
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return nil, errors.New("schema: $dynamicRef and $recursiveRef are not supported: use $ref")
	}
	e := &edges{}
	add := func(to *[]*jsonschema.Schema, list ...*jsonschema.Schema) {
		for _, c := range list {
			if c != nil {
				*to = append(*to, c)
			}
		}
	}
	loose := func(to *[]*jsonschema.Schema, v any) {
		switch v := v.(type) {
		case *jsonschema.Schema:
			add(to, v)
		case []*jsonschema.Schema:
			add(to, v...)
		}
	}
	add(&e.same, s.Ref, s.Not, s.If, s.Then, s.Else)
	add(&e.same, s.AllOf...)
	add(&e.same, s.AnyOf...)
	add(&e.same, s.OneOf...)
	for _, c := range s.DependentSchemas {
		add(&e.same, c)
	}
	for _, c := range s.Dependencies {
		loose(&e.same, c)
	}
	for _, c := range s.Properties {
		add(&e.one, c)
	}
	add(&e.one, s.PrefixItems...)
	for _, c := range s.PatternProperties {
		add(&e.every, c)
	}
	for _, c := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		loose(&e.every, c)
	}
	add(&e.every, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
	return e, nil
}
