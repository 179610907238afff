package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Paths whose request bodies have a shape of their own.
const (
	completionsPath = "/v1/completions"
	responsesPath   = "/v1/responses"
	embeddingsPath  = "/v1/embeddings"
)

// bytesPerToken is the usual rule of thumb for English text and code.
const bytesPerToken = 4

// promptBlock is the length of the text that longer prompts repeat, in bytes.
const promptBlock = 64 << 10

// The texts hold nothing that JSON would escape, so that they can be cut
// anywhere and sent as they are.
const (
	smallText = "Does this change keep the meaning? - return a*b + return b*a  "
	largeText = "Please restructure the following module so that a newcomer can follow it, and explain each step. "
	codeLine  = "total = total + price[i] * count[i]; "
)

// bodyBuilder builds request bodies. It is made once for a run and then only read.
type bodyBuilder struct {
	head           string // JSON up to the prompt
	tail           string // JSON from the prompt to the output limit, or to the end
	hasOutputLimit bool   // tail ends in the name of the output limit
	small, large   string
}

func newBodyBuilder(endpoint, model string, stream bool) (*bodyBuilder, error) {
	name, err := json.Marshal(model)
	if err != nil {
		return nil, fmt.Errorf("model name: %w", err)
	}
	p := &bodyBuilder{hasOutputLimit: true, small: repeatText(smallText), large: repeatText(largeText)}
	p.head = `{"model":` + string(name)
	if stream {
		p.head += `,"stream":true`
	}
	limit := "max_tokens"
	switch endpoint {
	case completionsPath:
		p.head, p.tail = p.head+`,"prompt":"`, `"`
	case responsesPath:
		p.head, p.tail, limit = p.head+`,"input":"`, `"`, "max_output_tokens"
	case embeddingsPath:
		p.head, p.tail, p.hasOutputLimit = p.head+`,"input":"`, `"`, false
	default:
		p.head, p.tail = p.head+`,"messages":[{"role":"user","content":"`, `"}]`
	}
	if p.hasOutputLimit {
		p.tail += `,"` + limit + `":`
	}
	return p, nil
}

// repeatText is the opening and then lines of code, promptBlock bytes of them.
func repeatText(opening string) string {
	return (opening + strings.Repeat(codeLine, promptBlock/len(codeLine)+1))[:promptBlock]
}

// body returns a new reader of the request for a, and its length in bytes. An
// arrival without prompt tokens gets a prompt of one. The user is left out when
// empty.
func (p *bodyBuilder) body(a Arrival, user string) (*promptBody, int64) {
	text := p.small
	if a.Large {
		text = p.large
	}
	length := max(a.PromptTokens, 1) * bytesPerToken
	head := p.head
	if user != "" {
		name, _ := json.Marshal(user) // a string always can be
		head = `{"user":` + string(name) + "," + head[1:]
	}
	b := &promptBody{head: head, text: text, left: length, tail: p.tailFor(a.OutputTokens)}
	return b, int64(len(b.head) + length + len(b.tail))
}

func (p *bodyBuilder) tailFor(outputTokens int) string {
	switch {
	case !p.hasOutputLimit:
		return p.tail + "}"
	case outputTokens == 0:
		return p.tail[:strings.LastIndexByte(p.tail, ',')] + "}"
	}
	return p.tail + strconv.Itoa(outputTokens) + "}"
}

// promptBody reads as head, then text over and over until left bytes of it were
// read, then tail. Bodies share the text, so that large prompts cost no memory.
type promptBody struct {
	head, text, tail string
	left             int
	pos              int // in text
}

// Read is part of io.Reader.
func (b *promptBody) Read(out []byte) (int, error) {
	n := copy(out, b.head)
	b.head = b.head[n:]
	for n < len(out) && b.left > 0 {
		k := copy(out[n:], b.text[b.pos:min(len(b.text), b.pos+b.left)])
		b.pos = (b.pos + k) % len(b.text)
		b.left -= k
		n += k
	}
	if b.left == 0 {
		k := copy(out[n:], b.tail)
		b.tail = b.tail[k:]
		n += k
	}
	if n == 0 && len(out) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
