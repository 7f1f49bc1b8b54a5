package session

import (
	"slices"

	"lcm/events"
)

// maxSiblings bounds how far back a parallel result looks for its group.
const maxSiblings = 256

// effectiveParent resolves a declared parent. Null and unknown parents are the
// leaf. A known one that is not the leaf is an implicit move, except inside
// one tool group: parallel calls and results fork below one assistant message
// and all stay on the path.
func (f *Fold) effectiveParent(t *events.TurnAppended) (uint64, error) {
	leaf, path := f.head.Leaf, Path(f.head.Path)
	if t.Parent == 0 || t.Parent > f.head.Entries || t.Parent == leaf {
		return leaf, nil
	}
	if !path.Contains(t.Parent) {
		return t.Parent, nil
	}
	between := path.After(t.Parent)
	if len(between) > maxSiblings {
		return t.Parent, nil
	}
	var group []Entry
	for _, n := range between {
		var e Entry
		if err := f.r.entry(n, &e); err != nil {
			return 0, err
		}
		group = append(group, e)
	}
	msgs, open, err := f.groupAt(t.Parent)
	if err != nil {
		return 0, err
	}
	for _, e := range group {
		if !siblingOf(e, msgs) {
			return t.Parent, nil
		}
		for _, id := range e.Calls {
			open[id] = true
		}
		for _, id := range e.Results {
			delete(open, id)
		}
	}
	if answers := t.Results(); len(answers) > 0 {
		for _, id := range answers {
			if !open[id] { // answered before: another attempt, another branch
				return t.Parent, nil
			}
		}
		return leaf, nil
	}
	var parent Entry
	if err := f.r.entry(t.Parent, &parent); err != nil {
		return 0, err
	}
	if len(parent.Results) > 0 || t.MessageID != "" && msgs[t.MessageID] {
		return leaf, nil
	}
	return t.Parent, nil
}

// siblingOf: an entry that only continues the group: a result, or another part
// of one of its messages.
func siblingOf(e Entry, msgs map[string]bool) bool {
	return len(e.Results) > 0 || e.MessageID != "" && msgs[e.MessageID]
}

// groupAt walks back from an entry over the results and message parts before
// it to the assistant message they belong to; it returns that message's ids
// and the calls open after n.
func (f *Fold) groupAt(n uint64) (msgs, open map[string]bool, err error) {
	msgs, open = map[string]bool{}, map[string]bool{}
	var back []Entry
	for i := 0; n != 0 && i < maxSiblings; i++ {
		var e Entry
		if err := f.r.entry(n, &e); err != nil {
			return nil, nil, err
		}
		assistant := e.Role == events.RoleAssistant
		if len(e.Results) == 0 && (!assistant || len(msgs) > 0 && !msgs[e.MessageID]) {
			break
		}
		if assistant {
			msgs[e.MessageID] = true
		}
		back = append(back, e)
		n = e.Parent
		if assistant && e.MessageID == "" {
			break
		}
	}
	delete(msgs, "")
	slices.Reverse(back)
	for _, e := range back {
		for _, id := range e.Calls {
			open[id] = true
		}
		for _, id := range e.Results {
			delete(open, id)
		}
	}
	return msgs, open, nil
}
