package rank

import "bytes"

// Stem reduces an English word in lower-case ASCII to its stem: M. F. Porter,
// "An algorithm for suffix stripping", 1980, with the two departures of the
// author's own implementation (-abli → -bli → -ble, and -logi → -log). Other
// words come back as they are.
func Stem(word string) string {
	if len(word) <= 2 {
		return word
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	w := stemmer(word)
	w = w.plural()
	w = w.past()
	w = w.finalY()
	w = w.replace(doubleSuffixes, 0)
	w = w.replace(fullSuffixes, 0)
	w = w.drop()
	w = w.finalE()
	return string(w)
}

type stemmer []byte

func (w stemmer) consonant(i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !w.consonant(i-1)
	}
	return true
}

// measure is Porter's m: how often a vowel sequence is followed by consonants.
func (w stemmer) measure() int {
	m := 0
	for i := 1; i < len(w); i++ {
		if w.consonant(i) && !w.consonant(i-1) {
			m++
		}
	}
	return m
}

func (w stemmer) hasVowel() bool {
	for i := range w {
		if !w.consonant(i) {
			return true
		}
	}
	return false
}

func (w stemmer) doubled() bool {
	n := len(w)
	return n >= 2 && w[n-1] == w[n-2] && w.consonant(n-1)
}

// short: ends consonant, vowel, consonant that is not w, x or y.
func (w stemmer) short() bool {
	n := len(w)
	if n < 3 || !w.consonant(n-1) || w.consonant(n-2) || !w.consonant(n-3) {
		return false
	}
	return w[n-1] != 'w' && w[n-1] != 'x' && w[n-1] != 'y'
}

func (w stemmer) cut(suffix string) (stemmer, bool) {
	if bytes.HasSuffix(w, []byte(suffix)) {
		return w[:len(w)-len(suffix)], true
	}
	return w, false
}

func (w stemmer) plural() stemmer {
	for _, s := range []string{"sses", "ies"} {
		if base, ok := w.cut(s); ok {
			return w[:len(base)+len(s)-2]
		}
	}
	if _, ok := w.cut("ss"); ok {
		return w
	}
	base, _ := w.cut("s")
	return base
}

func (w stemmer) past() stemmer {
	if base, ok := w.cut("eed"); ok {
		if base.measure() > 0 {
			return w[:len(w)-1]
		}
		return w
	}
	for _, s := range []string{"ed", "ing"} {
		base, ok := w.cut(s)
		if !ok {
			continue
		}
		if !base.hasVowel() {
			return w
		}
		return base.repair()
	}
	return w
}

// repair mends what -ed or -ing leaves behind.
func (w stemmer) repair() stemmer {
	for _, s := range []string{"at", "bl", "iz"} {
		if _, ok := w.cut(s); ok {
			return append(w, 'e')
		}
	}
	if last := w[len(w)-1]; w.doubled() && last != 'l' && last != 's' && last != 'z' {
		return w[:len(w)-1]
	}
	if w.measure() == 1 && w.short() {
		return append(w, 'e')
	}
	return w
}

func (w stemmer) finalY() stemmer {
	if base, ok := w.cut("y"); ok && base.hasVowel() {
		return append(base, 'i')
	}
	return w
}

type suffix struct{ from, to string }

var doubleSuffixes = []suffix{
	{"ational", "ate"},
	{"tional", "tion"},
	{"enci", "ence"},
	{"anci", "ance"},
	{"izer", "ize"},
	{"bli", "ble"},
	{"alli", "al"},
	{"entli", "ent"},
	{"eli", "e"},
	{"ousli", "ous"},
	{"ization", "ize"},
	{"ation", "ate"},
	{"ator", "ate"},
	{"alism", "al"},
	{"iveness", "ive"},
	{"fulness", "ful"},
	{"ousness", "ous"},
	{"aliti", "al"},
	{"iviti", "ive"},
	{"biliti", "ble"},
	{"logi", "log"},
}

var fullSuffixes = []suffix{
	{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
}

// replace applies the first rule whose suffix fits, if what stands before it
// has a measure above least.
func (w stemmer) replace(rules []suffix, least int) stemmer {
	for _, r := range rules {
		if base, ok := w.cut(r.from); ok {
			if base.measure() > least {
				return append(base, r.to...)
			}
			return w
		}
	}
	return w
}

var dropped = []string{
	"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate",
	"iti", "ous", "ive", "ize",
}

func (w stemmer) drop() stemmer {
	for _, s := range dropped {
		base, ok := w.cut(s)
		if !ok {
			continue
		}
		if s == "ion" && (len(base) == 0 || base[len(base)-1] != 's' && base[len(base)-1] != 't') {
			return w
		}
		if base.measure() > 1 {
			return base
		}
		return w
	}
	return w
}

func (w stemmer) finalE() stemmer {
	if base, ok := w.cut("e"); ok {
		if m := base.measure(); m > 1 || m == 1 && !base.short() {
			w = base
		}
	}
	if w.doubled() && w[len(w)-1] == 'l' && w.measure() > 1 {
		w = w[:len(w)-1]
	}
	return w
}
