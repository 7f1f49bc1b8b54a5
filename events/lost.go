package events

import "fmt"

// FormatLost is the source format of the turn that stands for a lost one.
const FormatLost = "lcm-lost"

// Turn is what readers see in the place of a lost turn: that it is lost. The
// same event gives the same turn, for ever.
func (p *PositionLost) Turn() *TurnAppended {
	text := fmt.Sprintf("[lcm:lost e%d] This turn stood at position %d of the log and was lost to damage; its words are not known.", p.Entry, p.Seq)
	return &TurnAppended{
		ID: fmt.Sprintf("lcm:lost:%d", p.Seq), Entry: p.Entry, Role: RoleUser, Injected: true,
		Text: text, Original: text, Format: FormatLost,
	}
}
