package rank

import "strings"

// Question is a query in plain words, taken apart.
type Question struct {
	// Terms of the question, each once, in its order; Weights belong to them.
	Terms   []string
	Weights []float64
	// pairs of neighbouring terms, by number.
	pairs [][2]int
	// Asks about what the other side said, rather than what the asker said.
	OfAssistant bool
	// Broad: a summary is wanted, whose matter is spread over many turns.
	Broad bool
}

// frameWords frame a question about a conversation without saying what it is
// about. They help to find the turn that answers in kind, but little.
var frameWords = stems(`what when where which who whom whose why how did does do have has had was were
tell show give list describe explain say said says mention mentioned talk talked discuss discussed ask asked
remember recall remind know think many much long often kind sort type thing things something anything
please help need want like try get got make made let able different various many several total number
question questions answer answers conversation conversations chat chats session sessions discussion discussions
summary summarize summarise overview recap order first last time times ever before previously earlier ago
bring brought come came go went walk look use used using`)

var broadWords = stems(`summary summaries summarize summarise summarizing overview recap outline recapitulate`)

func stems(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[Stem(w)] = true
	}
	return out
}

// Parse takes a question apart.
func Parse(text string, r Rules) Question {
	var q Question
	at := map[string]int{}
	last := -1
	Terms(text, func(t Term) {
		if broadWords[t.Text] {
			q.Broad = true
		}
		i, ok := at[t.Text]
		if !ok {
			i = len(q.Terms)
			at[t.Text] = i
			w := 1.0
			if frameWords[t.Text] {
				w = r.Frame
			}
			q.Terms, q.Weights = append(q.Terms, t.Text), append(q.Weights, w)
		}
		if last >= 0 && last != i {
			q.pairs = append(q.pairs, [2]int{last, i})
		}
		last = i
	})
	q.OfAssistant = asksAssistant(text)
	return q
}

// asksAssistant: "what did you recommend", "you said", "your suggestion".
// "Could you show me" addresses the other side and asks nothing about it.
func asksAssistant(text string) bool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !inWord(r) && r != '\'' && r != '’' })
	for i, w := range words {
		switch {
		case w == "you" && i > 0 && (words[i-1] == "did" || words[i-1] == "had" || words[i-1] == "have"):
			return true
		case w == "you" && i+1 < len(words) && saying[Stem(words[i+1])] && (i == 0 || !modal[words[i-1]]):
			return true
		case w == "your" && i+1 < len(words) && saying[Stem(words[i+1])]:
			return true
		}
	}
	return false
}

var (
	modal  = set(`can could would will should do please if`)
	saying = stems(`say said tell told recommend recommended recommendation suggest suggested suggestion advise advised
advice explain explained explanation propose proposed proposal mention mentioned give gave provide provided answer
answered list listed describe described show showed outline outlined`)
)
