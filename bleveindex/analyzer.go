package bleveindex

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/registry"
	index "github.com/blevesearch/bleve_index_api"

	"lcm/rank"
)

// Names of the analyzers in the registry and the mapping.
const (
	codeAnalyzer  = "lcm_code"  // words.go: what stands in the text
	proseAnalyzer = "lcm_prose" // rank.Terms: what it is about
	termsAnalyzer = "lcm_terms" // terms, between spaces
	gramsAnalyzer = "lcm_grams" // trigram.go: any three bytes of it
)

// register makes the analyzers known to Bleve, once; it must come before any
// index is opened.
var register = sync.OnceValue(func() error {
	for name, a := range map[string]analysis.Analyzer{codeAnalyzer: analyzer{}, proseAnalyzer: prose{}, termsAnalyzer: separate{}, gramsAnalyzer: grams{}} {
		err := registry.RegisterAnalyzer(name, func(map[string]any, *registry.Cache) (analysis.Analyzer, error) {
			return a, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
})

// analyzer implements analysis.Analyzer. Where a token stands in bytes is not
// kept, only its position among the others: matches are found again in the
// text, and the offsets would be a quarter of the index.
type analyzer struct{}

// Analyze implements analysis.Analyzer.
func (analyzer) Analyze(input []byte) analysis.TokenStream {
	text := string(input)
	out := make(analysis.TokenStream, 0, len(text)/5+1)
	// Texts are analysed a thousand at a time, on every processor: searches get
	// in between two of them.
	runtime.Gosched()
	tokenize(text, func(t token) {
		out = append(out, &analysis.Token{
			Term: []byte(t.term), Position: t.pos, Type: analysis.AlphaNumeric,
		})
	})
	return out
}

// everyDoc is a term of every document: its postings tell the length of all
// documents of a scope, which is what BM25 wants to know.
const everyDoc = "\x00"

// prose implements analysis.Analyzer.
type prose struct{}

// Analyze implements analysis.Analyzer.
func (prose) Analyze(input []byte) analysis.TokenStream {
	out := make(analysis.TokenStream, 0, len(input)/8+1)
	last := 0
	rank.Terms(string(input), func(t rank.Term) {
		last = t.Pos
		out = append(out, &analysis.Token{Term: []byte(t.Text), Start: t.Start, End: t.End, Position: t.Pos, Type: analysis.AlphaNumeric})
	})
	return append(out, &analysis.Token{Term: []byte(everyDoc), Position: last + 1})
}

// separate implements analysis.Analyzer.
type separate struct{}

// Analyze implements analysis.Analyzer.
func (separate) Analyze(input []byte) (out analysis.TokenStream) {
	for i, term := range bytes.Fields(input) {
		out = append(out, &analysis.Token{Term: term, Position: i + 1})
	}
	return out
}

// The fields of a document.
const (
	fieldProse   = "prose"
	fieldGrams   = "grams"
	fieldText    = "text"
	fieldTenant  = "tenant"
	fieldSession = "session"
	fieldRole    = "role"
	fieldKind    = "kind"
	fieldDepth   = "depth"
	fieldTime    = "time"
)

// newMapping is static: fields that are not named here are not indexed.
func newMapping(trigrams bool) (mapping.IndexMapping, error) {
	if err := register(); err != nil {
		return nil, fmt.Errorf("register analyzer: %w", err)
	}
	text := mapping.NewTextFieldMapping()
	text.Analyzer = codeAnalyzer
	text.Store, text.DocValues, text.IncludeInAll = false, false, false
	text.IncludeTermVectors = true

	about := mapping.NewTextFieldMapping()
	about.Analyzer = proseAnalyzer
	about.Store, about.DocValues, about.IncludeInAll, about.IncludeTermVectors = false, false, false, false

	doc := mapping.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt(fieldText, text)
	doc.AddFieldMappingsAt(fieldProse, about)
	analyzers := map[string]string{
		fieldTenant: keyword.Name, fieldSession: keyword.Name, fieldRole: keyword.Name, fieldKind: keyword.Name,
		fieldDepth: keyword.Name, fieldTime: termsAnalyzer,
	}
	if trigrams {
		analyzers[fieldGrams] = gramsAnalyzer
	}
	for name, analyzer := range analyzers {
		word := mapping.NewTextFieldMapping()
		word.Analyzer = analyzer
		word.Store, word.DocValues, word.IncludeInAll, word.IncludeTermVectors = false, false, false, false
		word.SkipFreqNorm = true
		doc.AddFieldMappingsAt(name, word)
	}
	doc.AddSubDocumentMapping("_all", mapping.NewDocumentDisabledMapping())

	m := mapping.NewIndexMapping()
	m.DefaultMapping = doc
	m.DefaultAnalyzer = codeAnalyzer
	m.StoreDynamic, m.IndexDynamic, m.DocValuesDynamic = false, false, false
	m.ScoringModel = index.BM25Scoring
	return m, m.Validate()
}
