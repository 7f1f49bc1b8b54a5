package events

import (
	"errors"
	"fmt"
	"math"
)

// Settings of a session: every threshold of the engine. Shares are fractions
// of B, the context budget; B itself is Settings.Budget.
type Settings struct {
	Window   int    `json:"window"`   // the model's context window, tokens
	Overhead int    `json:"overhead"` // system prompt and tools outside the session, tokens
	Model    string `json:"model,omitempty"`
	// MaxContextTokens caps B; 0 = off. On a million-token window a cap of
	// 200k makes every call several times cheaper.
	MaxContextTokens int `json:"max_context_tokens,omitempty"`
	// TokenFactor is how many tokens the model counts for one of ours, by its
	// own reports; 0 = 1. Window, overhead and the cap are the model's tokens;
	// B, and with it every threshold, is in ours, so that one counter serves
	// everywhere.
	TokenFactor float64 `json:"token_factor,omitempty"`

	ContextThreshold  float64 `json:"context_threshold"`   // soft: above it leaves are made in the background
	LeafTriggerTokens int     `json:"leaf_trigger_tokens"` // aged raw tokens that make a pass worthwhile
	CutTarget         float64 `json:"cut_target"`          // a pass aims here
	MinCut            float64 `json:"min_cut"`             // a pass that would free less waits
	SummaryBudget     float64 `json:"summary_budget"`      // pointer block at most
	RecutThreshold    float64 `json:"recut_threshold"`     // above it a cut is a recut
	RecutTarget       float64 `json:"recut_target"`        // a recut condenses the block to this

	FreshTailCount int     `json:"fresh_tail_count"` // newest turns that never condense
	FreshTailMax   float64 `json:"fresh_tail_max"`   // cap of the tail, 0 = off

	FanoutMin        int `json:"fanout_min"`
	FanoutMax        int `json:"fanout_max"`
	LeafChunkMin     int `json:"leaf_chunk_min"` // leaf chunk = clamp(B/16, min, max), summariser input tokens
	LeafChunkMax     int `json:"leaf_chunk_max"`
	LeafInputMax     int `json:"leaf_input_max"`     // input of one leaf at most
	OpenGroupEntries int `json:"open_group_entries"` // an open tool group waits this long
	LargeFileChars   int `json:"large_file_chars"`   // tool results above it become files

	Labels        map[string]string `json:"labels,omitempty"`
	ParentSession string            `json:"parent_session,omitempty"`
}

// MinBudget is the smallest B the engine works with: below it a tail, a block
// and a single leaf no longer fit beside each other.
const MinBudget = 12_000

// DepthCap is a structural limit, not a policy: with eight children a node it
// covers 8^8 leaves.
const DepthCap = 8

// DefaultSettings are what a session gets unless its first append or the
// ingestor's configuration say otherwise. The shares were chosen by simulation
// over 20,000 and 1,000,000 turns (see `make sim`).
func DefaultSettings() Settings {
	return Settings{
		Window:            200_000,
		ContextThreshold:  0.75,
		LeafTriggerTokens: 2_000,
		CutTarget:         0.40,
		MinCut:            0.10,
		SummaryBudget:     0.20,
		RecutThreshold:    0.85,
		RecutTarget:       0.15,
		FreshTailCount:    32,
		FreshTailMax:      0.25,
		FanoutMin:         4,
		FanoutMax:         8,
		LeafChunkMin:      1_500,
		LeafChunkMax:      8_000,
		LeafInputMax:      60_000,
		OpenGroupEntries:  32,
		LargeFileChars:    32_000,
	}
}

// Reserve is what stays free for the answer: min(20,000, 25 % of the window).
func (s Settings) Reserve() int { return min(20_000, s.Window/4) }

// Budget is B: the tokens a context may take.
func (s Settings) Budget() int {
	b := s.Window - s.Reserve() - s.Overhead
	if s.MaxContextTokens > 0 {
		b = min(b, s.MaxContextTokens)
	}
	if s.TokenFactor > 0 {
		b = int(float64(b) / s.TokenFactor)
	}
	return b
}

// The factors between the model's tokens and ours that are believed.
const (
	MinTokenFactor = 0.5
	MaxTokenFactor = 3
)

// Calibrated takes a report of the model's into account: so many of its tokens
// for so many of ours. A report counts a fifth, the first one whole, and a
// change below two per cent none: every change is an event, and moves B.
func (s Settings) Calibrated(counted, reported int) Settings {
	if counted <= 0 || reported <= 0 {
		return s
	}
	f := float64(reported) / float64(counted)
	if s.TokenFactor > 0 {
		f = 0.8*s.TokenFactor + 0.2*f
	}
	f = math.Round(100*min(max(f, MinTokenFactor), MaxTokenFactor)) / 100
	old := s.TokenFactor
	if old == 0 {
		old = 1
	}
	if math.Abs(f-old) >= 0.02*old {
		s.TokenFactor = f
	}
	return s
}

// Share returns the tokens of a share of B, rounded down.
func (s Settings) Share(f float64) int { return int(f * float64(s.Budget())) }

// Soft is the threshold above which a session leaves the passive regime.
func (s Settings) Soft() int { return s.Share(s.ContextThreshold) }

// LeafChunk is the summariser input one leaf aims at, in tokens.
func (s Settings) LeafChunk() int {
	return min(max(s.Budget()/16, s.LeafChunkMin), s.LeafChunkMax)
}

// Validate rejects settings that the engine cannot work with, naming the field
// and what to do. The fold judges stored events by it, so it never becomes
// stricter; what new settings must satisfy beyond it says ValidateNew.
func (s Settings) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if s.Window <= 0 {
		bad("window is %d: give the model's context window in tokens", s.Window)
	} else if b := s.Budget(); b < MinBudget {
		bad("window %d leaves a budget of %d tokens (window - reserve %d - overhead %d, capped at max_context_tokens %d): at least %d are needed",
			s.Window, b, s.Reserve(), s.Overhead, s.MaxContextTokens, MinBudget)
	}
	if s.Overhead < 0 || s.MaxContextTokens < 0 || s.LeafTriggerTokens < 0 {
		bad("overhead, max_context_tokens and leaf_trigger_tokens cannot be negative")
	}
	if f := s.TokenFactor; f != 0 && !(f >= MinTokenFactor && f <= MaxTokenFactor) {
		bad("token_factor is %v: between %v and %v, or 0 for none", f, MinTokenFactor, MaxTokenFactor)
	}
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"context_threshold", s.ContextThreshold},
		{"cut_target", s.CutTarget},
		{"min_cut", s.MinCut},
		{"summary_budget", s.SummaryBudget},
		{"recut_threshold", s.RecutThreshold},
		{"recut_target", s.RecutTarget},
		{"fresh_tail_max", s.FreshTailMax},
	} {
		if !(f.v >= 0 && f.v <= 1) { // also catches NaN
			bad("%s is %v: a share of the budget lies between 0 and 1", f.name, f.v)
		}
	}
	if s.SummaryBudget+s.FreshTailMax > 0.50 {
		bad("summary_budget %v + fresh_tail_max %v exceed 0.50: a pass could not reach its target", s.SummaryBudget, s.FreshTailMax)
	}
	if s.RecutTarget > s.SummaryBudget || s.RecutTarget <= 0 {
		bad("recut_target %v must lie between 0 and summary_budget %v", s.RecutTarget, s.SummaryBudget)
	}
	if s.FanoutMin < 2 || s.FanoutMax > 8 || s.FanoutMin > s.FanoutMax {
		bad("fanout %d..%d: between 2 and 8", s.FanoutMin, s.FanoutMax)
	}
	if s.FreshTailCount < 0 || s.OpenGroupEntries < 1 || s.LargeFileChars < 1 {
		bad("fresh_tail_count, open_group_entries and large_file_chars must be positive")
	}
	if s.LeafChunkMin < 100 || s.LeafChunkMax < s.LeafChunkMin || s.LeafInputMax < s.LeafChunkMax {
		bad("leaf_chunk_min %d <= leaf_chunk_max %d <= leaf_input_max %d must hold, from 100", s.LeafChunkMin, s.LeafChunkMax, s.LeafInputMax)
	}
	return errors.Join(errs...)
}

// ValidateNew is Validate, and rejects shares that contradict each other: such
// settings were accepted once, and logs hold them.
func (s Settings) ValidateNew() error { return errors.Join(s.Validate(), s.contradiction()) }

// ValidateChange is ValidateNew for a change of older settings: shares that stay
// what they were are no reason to refuse it.
func (s Settings) ValidateChange(of Settings) error {
	if s.passShares() == of.passShares() {
		return s.Validate()
	}
	return s.ValidateNew()
}

// passShares are the shares that decide when a pass begins, where it ends, and
// what its cut keeps.
func (s Settings) passShares() [4]float64 {
	return [...]float64{s.ContextThreshold, s.CutTarget, s.MinCut, s.RecutThreshold}
}

// shareRounding is what sums of shares written in decimals are off by.
const shareRounding = 1e-9

// contradiction says which shares exclude each other: a pass goes from
// context_threshold down to cut_target and must be able to free min_cut on the
// way, and a context at context_threshold must not be one to recut already.
func (s Settings) contradiction() error {
	drip := s.ContextThreshold == 0
	switch {
	case drip && s.MinCut != 0:
		return fmt.Errorf("context_threshold 0 is the steady drip, which takes min_cut 0, not %v", s.MinCut)
	case s.RecutThreshold <= s.ContextThreshold:
		return fmt.Errorf("recut_threshold %v must lie above context_threshold %v: every cut would be a recut, and no prompt cache keep its prefix",
			s.RecutThreshold, s.ContextThreshold)
	case drip:
		return nil // its target is what stands, whatever cut_target says
	case s.CutTarget <= 0 || s.CutTarget >= s.ContextThreshold:
		return fmt.Errorf("cut_target %v must lie between 0 and context_threshold %v: a pass goes down from there", s.CutTarget, s.ContextThreshold)
	case s.MinCut > s.ContextThreshold-s.CutTarget+shareRounding:
		return fmt.Errorf("min_cut %v exceeds context_threshold %v - cut_target %v: no pass could free as much", s.MinCut, s.ContextThreshold, s.CutTarget)
	}
	return nil
}
