package modelstub

import (
	"math/rand/v2"
	"strings"
)

// A bound of at most exactUpTo tokens is used up to its last token, so that
// whoever replays recorded lengths gets them; above, it is taken as room, and
// the answer has its natural length, from naturalMin to naturalMax.
const (
	exactUpTo  = 2048
	naturalMin = 16
	naturalMax = 96
)

// defaultChunks is how many text chunks a streamed answer has at most when
// the call does not say; a longer answer puts several tokens into each.
const defaultChunks = 128

// vocabulary is what answers are made of. It has what breaks careless
// re-encoding: quotes, a backslash, markup, a line end, and UTF-8 sequences of
// two to four bytes.
var vocabulary = [...]string{
	"water", "gate", "level", "canal", "lock", "flow", "basin", "weir", "rises", "holds",
	"falls", "the", "a", "of", "under", "over", "keeps", "turns", "slow", "steady",
	"\"quoted\"", "back\\slash", "<b>&amp;</b>", "line\nend", "größe", "水門", "δ=0.5", "🌊", "e\u0301", "data:",
}

// text is one choice's words, split into chunks.
type text struct {
	words  []uint8 // into vocabulary
	chunks int
}

func newText(r *rand.Rand, tokens, chunks int) text {
	words := make([]uint8, tokens)
	for i := range words {
		words[i] = uint8(r.IntN(len(vocabulary)))
	}
	return text{words: words, chunks: chunks}
}

// chunk returns the text of chunk i. Together the chunks are the whole text.
func (t text) chunk(i int) string {
	from, to := i*len(t.words)/t.chunks, (i+1)*len(t.words)/t.chunks
	var b strings.Builder
	for at := from; at < to; at++ {
		if at > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(vocabulary[t.words[at]])
	}
	return b.String()
}

func (t text) full() string { return text{words: t.words, chunks: 1}.chunk(0) }

// outputLength settles how many tokens an answer has and why it ends.
func outputLength(r *rand.Rand, req *request, choices int) (tokens int, finish string) {
	tokens = naturalMin + r.IntN(naturalMax-naturalMin+1)
	tokens = max(tokens, min(req.MinTokens, maxTokens))
	finish = "stop"
	if bound := req.maxOutput(); bound > 0 && (bound <= max(tokens, exactUpTo) || req.IgnoreEOS) {
		tokens, finish = bound, "length"
	}
	most := min(maxTokens, maxTotalTokens/choices)
	return max(min(tokens, most), 1), finish
}

func (t text) tokens() int { return len(t.words) }
