package modelstub

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// An output limit of at most exactUpTo tokens is used completely, so that replays of
// recorded lengths get them. A higher limit is only an upper bound, and the answer has
// a natural length, from naturalMin to naturalMax.
const (
	exactUpTo  = 2048
	naturalMin = 16
	naturalMax = 96
)

// defaultChunks is how many text chunks a streamed answer has at most when
// the call does not say; a longer answer puts several tokens into each.
const defaultChunks = 128

// vocabulary has the words of answers. It includes text that careless re-encoding
// breaks: quotes, a backslash, markup, a line end, and UTF-8 sequences of two to four
// bytes.
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

// output is the generated content of an answer: every choice has the same number of
// pieces, of text or of the arguments of a tool call.
type output struct {
	texts     []text
	finish    string
	tool      *toolCall
	fragments []string // of the tool call's arguments
}

// newOutput generates the choices of an answer, with a tool call if tool is not nil.
func (j *job) newOutput(choices int, tool *toolCall) output {
	tokens, finish := outputLength(j.id.rand(-1), j.request, choices)
	tokens = max(tokens, j.chunks)
	chunks := min(tokens, defaultChunks)
	if j.chunks > 0 {
		chunks = j.chunks
	}
	o := output{finish: finish, tool: tool}
	for i := range choices {
		o.texts = append(o.texts, newText(j.id.rand(i), tokens, chunks))
	}
	if tool != nil {
		o.finish, o.fragments = "tool_calls", tool.fragments()
	}
	return o
}

// steps is the number of pieces of each choice.
func (o *output) steps() int {
	if o.tool != nil {
		return len(o.fragments)
	}
	return o.texts[0].chunks
}

func (o *output) piece(choice, step int) string {
	if o.tool != nil {
		return o.fragments[step]
	}
	return o.texts[choice].chunk(step)
}

func (o *output) full(choice int) string {
	if o.tool != nil {
		return o.tool.Arguments
	}
	return o.texts[choice].full()
}

// tokens is the number of output tokens of each choice.
func (o *output) tokens() int {
	if o.tool != nil {
		return o.tool.tokens()
	}
	return len(o.texts[0].words)
}

// outputLength decides how many tokens an answer has and why it ends.
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

// toolCall is a call with generated arguments.
type toolCall struct {
	Name      string
	Arguments string // JSON
}

// tool is a tool description in either shape: chat completions nest the
// function, responses do not.
type tool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Function   struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// toolChoice is the object form of tool_choice in either shape.
type toolChoice struct {
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// toolCallFor returns the call that a request leads to, or nil. A tool is
// called when tool_choice forces it, or when the user spoke last and asked to
// "call NAME", "use NAME", or to call or use "a tool" or "the tool".
func toolCallFor(req *request, asked string) *toolCall {
	functions := readFunctions(req.Tools)
	if len(functions) == 0 {
		return nil
	}
	mode, name := readToolChoice(req.ToolChoice)
	if mode == "none" {
		return nil
	}
	for _, f := range functions {
		if f.Name == name || (name == "" && (mode == "required" || requestsTool(asked, f.Name))) {
			return &toolCall{Name: f.Name, Arguments: argumentsFor(f.Parameters)}
		}
	}
	return nil
}

// readFunctions returns the function tools, without tools of other kinds and invalid
// ones.
func readFunctions(raw []json.RawMessage) []tool {
	var functions []tool
	for _, r := range raw {
		var t tool
		if json.Unmarshal(r, &t) != nil || t.Type != "function" {
			continue
		}
		if t.Name == "" {
			t.Name, t.Parameters = t.Function.Name, t.Function.Parameters
		}
		if t.Name != "" {
			functions = append(functions, t)
		}
	}
	return functions
}

func readToolChoice(raw json.RawMessage) (mode, name string) {
	if json.Unmarshal(raw, &mode) == nil {
		return mode, ""
	}
	var choice toolChoice
	if json.Unmarshal(raw, &choice) != nil {
		return "", ""
	}
	if choice.Name != "" {
		return "", choice.Name
	}
	return "", choice.Function.Name
}

func requestsTool(asked, name string) bool {
	asked = strings.ToLower(asked)
	for _, verb := range []string{"call ", "use "} {
		for _, object := range []string{strings.ToLower(name), "a tool", "the tool"} {
			if strings.Contains(asked, verb+object) {
				return true
			}
		}
	}
	return false
}

// schema is the part of a JSON schema that sample arguments need.
type schema struct {
	Type       json.RawMessage            `json:"type"`
	Enum       []json.RawMessage          `json:"enum"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

// argumentsFor generates arguments with every required property.
func argumentsFor(parameters json.RawMessage) string {
	var s schema
	args := map[string]json.RawMessage{}
	if json.Unmarshal(parameters, &s) == nil {
		for _, name := range s.Required {
			args[name] = sampleFor(s.Properties[name])
		}
	}
	return string(encode(args)) // in the order of the names, so it repeats
}

func sampleFor(property json.RawMessage) json.RawMessage {
	var s schema
	if json.Unmarshal(property, &s) != nil {
		return json.RawMessage(`"stub"`)
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	samples := map[string]string{
		`"integer"`: "1", `"number"`: "1.5", `"boolean"`: "true", `"array"`: "[]", `"object"`: "{}",
	}
	return json.RawMessage(cmp.Or(samples[string(s.Type)], `"stub"`))
}

// fragments splits arguments as a model streams them, between characters.
func (t *toolCall) fragments() []string {
	const size = 8
	var out []string
	for rest := t.Arguments; rest != ""; {
		cut := min(size, len(rest))
		for cut < len(rest) && !utf8.RuneStart(rest[cut]) {
			cut++
		}
		out, rest = append(out, rest[:cut]), rest[cut:]
	}
	return out
}

// tokens is how many output tokens the call costs.
func (t *toolCall) tokens() int { return max((len(t.Name)+len(t.Arguments))/bytesPerToken, 1) }
