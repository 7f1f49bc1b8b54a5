package extract

import (
	"strings"
	"unicode"
)

// cueSet finds phrases in a sentence. ASCII phrases match whole words in any
// case; others match anywhere.
type cueSet struct {
	byFirst map[string][]string // first word of a phrase → the phrases
	wide    []string            // phrases of scripts without spaces
}

func cues(list ...string) cueSet {
	c := cueSet{byFirst: map[string][]string{}}
	for _, p := range list {
		if !isASCII(p) {
			c.wide = append(c.wide, p)
			continue
		}
		first, _, _ := strings.Cut(p, " ")
		c.byFirst[first] = append(c.byFirst[first], p)
	}
	return c
}

// lowered is a sentence prepared for cue matching.
type lowered struct {
	s     string
	wide  bool
	words []span
}

type span struct{ from, to int }

func lower(s string) lowered {
	l := lowered{s: strings.ToLower(strings.ReplaceAll(s, "’", "'")), wide: !isASCII(s)}
	for i := 0; i < len(l.s); {
		if !isCueByte(l.s[i]) {
			i++
			continue
		}
		from := i
		for i < len(l.s) && isCueByte(l.s[i]) {
			i++
		}
		l.words = append(l.words, span{from, i})
	}
	return l
}

func isCueByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '\'' || c == '_' }

func (l lowered) word(i int) string {
	if i < 0 || i >= len(l.words) {
		return ""
	}
	return l.s[l.words[i].from:l.words[i].to]
}

// find returns the index of the first word at which a phrase of c starts and
// the phrase, or ok = false. A wide phrase reports word -1.
func (c cueSet) find(l lowered) (word int, phrase string, ok bool) {
	for i, w := range l.words {
		for _, p := range c.byFirst[l.s[w.from:w.to]] {
			end := w.from + len(p)
			if strings.HasPrefix(l.s[w.from:], p) && (end == len(l.s) || !isCueByte(l.s[end])) {
				return i, p, true
			}
		}
	}
	if l.wide {
		for _, p := range c.wide {
			if strings.Contains(l.s, p) {
				return -1, p, true
			}
		}
	}
	return 0, "", false
}

func (c cueSet) in(l lowered) bool {
	_, _, ok := c.find(l)
	return ok
}

// The cues. Chinese, Japanese and Korean ones stand beside the English.
var (
	standing = cues("always", "never", "from now on", "i prefer", "i'd prefer", "i would prefer", "prefer", "we prefer",
		"going forward", "in future", "in the future", "whenever", "every time", "each time", "remember that", "remember to",
		"keep in mind", "as a rule", "by default", "i hate", "i don't like", "i dislike", "i'd rather", "i would only",
		"i only want", "don't ever", "do not ever", "under no circumstances", "at all times", "unless i", "my preference",
		"until i say", "until i tell", "must always", "must never", "standing rule", "stick to", "no longer",
		"总是", "總是", "永远", "永遠", "不要", "以后", "以後", "今后", "从现在起", "从现在开始", "從現在起", "務必", "务必",
		"禁止", "别再", "別再", "我喜欢", "我更喜欢", "我偏好", "我希望", "记住", "記住", "始终", "始終", "每次", "一律", "绝不", "必须",
		"必須", "默认", "一定要", "常に", "必ず", "決して", "今後", "しないで", "항상", "절대", "앞으로", "하지 마")
	forbid = cues("don't", "do not", "dont", "avoid", "must not", "mustn't", "stop", "only use", "make sure", "be sure to",
		"no need to", "refrain", "must", "ensure")
	deciding = cues("decided", "decide", "decision", "chose", "choose", "chosen", "instead of", "rather than", "because",
		"therefore", "so that", "trade-off", "tradeoff", "going with", "go with", "will use", "we'll use", "i'll use", "agreed",
		"root cause", "the problem is", "the issue is", "the reason", "turns out", "this means", "must", "cannot", "can't",
		"must not", "constraint", "requirement", "requires", "required", "not allowed", "policy", "the fix", "the solution",
		"recommend", "the approach", "the plan", "since", "due to", "in order to", "we should", "should be", "needs to",
		"决定", "因为", "因此", "所以", "采用", "改为", "改用", "必须", "不能", "约束", "原因", "方案", "选择", "建议", "決定", "ため", "理由", "때문", "결정")
	doing = cues("done", "fixed", "created", "added", "implemented", "updated", "committed", "completed", "complete", "renamed",
		"removed", "moved", "passes", "passed", "passing", "works", "working", "finished", "merged", "deployed", "pushed",
		"refactored", "successfully", "resolved", "replaced", "verified", "booked", "cancelled", "canceled", "refunded",
		"installed", "released", "written", "wrote", "migrated",
		"完成", "已修复", "修复了", "已创建", "创建了", "已添加", "添加了", "实现了", "更新了", "已更新", "成功", "提交", "通过",
		"完了", "修正", "追加", "완료", "수정")
	pending = cues("next step", "next steps", "next up", "next i", "next we", "remaining", "not yet", "still need", "still needs", "still to",
		"pending", "in progress", "blocked", "blocker", "waiting for", "want me to", "would you like", "shall i", "should i",
		"do you want", "please confirm", "unfinished", "open question", "follow-up", "not implemented",
		"下一步", "待办", "尚未", "还需要", "未完成", "正在", "剩余", "需要确认", "接下来", "次に", "未対応", "残り", "다음", "진행 중", "남은")
	narrating = cues("let me", "let's", "now", "i'll", "i will", "i'm going to", "first let", "looking at",
		"okay", "ok", "great", "good", "perfect", "sure", "you're right", "got it", "excellent", "thanks", "thank you", "here's",
		"让我", "好的", "现在", "首先")
	pleasant = cues("thanks", "thank you", "thx", "ok", "okay", "great", "cool", "nice", "perfect", "good", "yes", "hi", "hello",
		"hey", "sure", "谢谢", "好的", "你好", "ありがとう", "감사")
	filler = cues("apologize", "sorry", "confusion", "mix-up", "misunderstanding", "appreciate", "assist you", "feel free",
		"any other questions", "anything else", "further assistance", "let me know", "have a great", "for your help", "抱歉", "すみません")
	failing = cues("error", "errors", "failed", "failure", "exception", "panic", "fatal", "traceback", "crash", "crashed", "broken",
		"timed out", "timeout", "错误", "失败", "异常", "报错", "エラー", "失敗", "오류", "실패")
)

// narrators are the words before "always" and "never" that make a report of
// them, not a rule: "it always fails", "has never worked".
var narrators = wordSet(`it this that which they he she code has have had is was were are i've we've test tests build
	server script does did why almost nearly`)

// instruction tells how much a user's sentence is a standing instruction or
// preference: 0 no, 1 a constraint on the task, 2 standing.
func instruction(s string) int {
	l := lower(s)
	question := strings.HasSuffix(l.s, "?") || strings.HasSuffix(l.s, "？")
	if i, p, ok := standing.find(l); ok {
		report := (p == "always" || p == "never" || p == "no longer") && (question || narrators[l.word(i-1)])
		if !report {
			return 2
		}
	}
	if i, p, ok := forbid.find(l); ok && !question && clauseStart(l, i) {
		if p != "stop" || strings.HasSuffix(l.word(i+1), "ing") {
			return 1
		}
	}
	return 0
}

// clauseStart reports whether word i begins a clause: an imperative does.
func clauseStart(l lowered, i int) bool {
	switch l.word(i - 1) {
	case "", "please", "and", "but", "so", "just", "then", "also", "you", "we", "pls":
		return true
	}
	between := l.s[l.words[i-1].to:l.words[i].from]
	return strings.IndexFunc(between, unicode.IsPunct) >= 0
}
