package modelstub

import (
	"encoding/json"
	"fmt"
	"iter"
)

type completion struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []completionChoice `json:"choices"`
	Usage             json.RawMessage    `json:"usage,omitempty"`
	SystemFingerprint string             `json:"system_fingerprint"`
	Unknown           json.RawMessage    `json:"x_stub"`
}

type completionChoice struct {
	Text         string    `json:"text"`
	Index        int       `json:"index"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

// completionPlan is what the completions endpoint is going to say.
type completionPlan struct {
	*job
	texts  []text
	finish string
}

func (j *job) completions() (reply, error) {
	inputs, size, err := readInputs("prompt", j.Prompt)
	if err != nil {
		return reply{}, err
	}
	choices := max(len(inputs), 1) * j.choices()
	if choices > maxInputs {
		return reply{}, badRequest("n", fmt.Sprintf("Prompts times n is %d: want at most %d.", choices, maxInputs))
	}
	j.prompt.bytes = size
	p := &completionPlan{job: j}
	p.texts, p.finish = j.newTexts(choices)
	r := j.newReply()
	r.outputTokens = p.texts[0].tokens()
	if j.Stream {
		r.contentType, r.events, r.gaps = typeEvents, p.stream(), choices*p.texts[0].chunks
		return r, nil
	}
	r.body = encode(p.completion())
	return r, nil
}

func (p *completionPlan) usage() json.RawMessage {
	return encode(newUsage(p.prompt.tokens(), p.texts[0].tokens()*len(p.texts)))
}

func (p *completionPlan) envelope(choices []completionChoice, used json.RawMessage) completion {
	return completion{
		ID: p.id.name("cmpl-"), Object: "text_completion", Created: p.id.created(), Model: p.model,
		Choices: choices, Usage: used, SystemFingerprint: fingerprint, Unknown: unknownField,
	}
}

func (p *completionPlan) completion() completion {
	choices := make([]completionChoice, len(p.texts))
	for i, t := range p.texts {
		choices[i] = completionChoice{Text: t.full(), Index: i, FinishReason: &p.finish}
	}
	return p.envelope(choices, p.usage())
}

// stream sends the choices' chunks in turn; the last chunk of each says why it
// ends.
func (p *completionPlan) stream() iter.Seq[event] {
	return func(yield func(event) bool) {
		chunks := p.texts[0].chunks
		for n := range chunks * len(p.texts) {
			if !yield(p.chunk(n%len(p.texts), n/len(p.texts), chunks)) {
				return
			}
		}
		if p.StreamOptions.IncludeUsage {
			if !yield(event{data: sseFrame("", encode(p.envelope([]completionChoice{}, p.usage())))}) {
				return
			}
		}
		yield(event{data: doneEvent, last: true})
	}
}

func (p *completionPlan) chunk(choice, step, steps int) event {
	c := completionChoice{Text: p.texts[choice].chunk(step), Index: choice}
	if step == steps-1 {
		c.FinishReason = &p.finish
	}
	var used json.RawMessage
	if p.StreamOptions.IncludeUsage {
		used = json.RawMessage("null")
	}
	return event{paced: true, data: sseFrame("", encode(p.envelope([]completionChoice{c}, used)))}
}
