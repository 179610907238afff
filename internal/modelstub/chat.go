package modelstub

import (
	"encoding/json"
	"fmt"
	"iter"
)

type chatCompletion struct {
	ID                string          `json:"id"`
	Object            string          `json:"object"`
	Created           int64           `json:"created"`
	Model             string          `json:"model"`
	Choices           []chatChoice    `json:"choices"`
	Usage             *usage          `json:"usage"`
	ServiceTier       string          `json:"service_tier"`
	SystemFingerprint string          `json:"system_fingerprint"`
	Unknown           json.RawMessage `json:"x_stub"`
}

type chatChoice struct {
	Index        int         `json:"index"`
	Message      chatMessage `json:"message"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason string      `json:"finish_reason"`
}

type chatMessage struct {
	Role        string         `json:"role"`
	Content     *string        `json:"content"`
	Refusal     *string        `json:"refusal"`
	ToolCalls   []chatToolCall `json:"tool_calls,omitempty"`
	Annotations []struct{}     `json:"annotations"`
}

type chatToolCall struct {
	Index    *int         `json:"index,omitempty"` // only while streaming
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// chatPlan is what the chat endpoint is going to say.
type chatPlan struct {
	*job
	texts        []text
	finish       string
	tool         *toolCall
	outputTokens int // over all choices
}

func (j *job) chat() (reply, error) {
	if len(j.Messages) == 0 {
		return reply{}, missingParam("messages")
	}
	j.prompt = readMessages(j.Messages)
	j.prompt.addTools(j.Tools)
	p := j.planChat()
	r := j.newReply()
	r.outputTokens = p.texts[0].tokens()
	if p.tool != nil {
		r.outputTokens = p.tool.tokens()
	}
	p.outputTokens = r.outputTokens * len(p.texts)
	if j.Stream {
		r.contentType, r.events, r.gaps = typeEvents, p.stream(), p.steps()*len(p.texts)
		return r, nil
	}
	r.body = encode(p.completion())
	return r, nil
}

func (j *job) planChat() *chatPlan {
	p := &chatPlan{job: j, tool: toolCallFor(j.request, j.prompt.userText)}
	p.texts, p.finish = j.newTexts(j.choices())
	if p.tool != nil {
		p.finish = "tool_calls"
	}
	return p
}

func (p *chatPlan) completion() chatCompletion {
	c := chatCompletion{
		ID: p.id.name("chatcmpl-"), Object: "chat.completion", Created: p.id.created(), Model: p.model,
		Choices: []chatChoice{}, Usage: newUsage(p.prompt.tokens(), p.outputTokens),
		ServiceTier: "default", SystemFingerprint: fingerprint, Unknown: unknownField,
	}
	for i, t := range p.texts {
		m := chatMessage{Role: "assistant", Annotations: []struct{}{}}
		if p.tool != nil {
			m.ToolCalls = []chatToolCall{p.toolCall(i, p.tool.Arguments)}
		} else {
			m.Content = new(t.full())
		}
		c.Choices = append(c.Choices, chatChoice{Index: i, Message: m, FinishReason: p.finish})
	}
	return c
}

func (p *chatPlan) toolCall(choice int, arguments string) chatToolCall {
	return chatToolCall{
		ID: p.id.callID(choice), Type: "function",
		Function: chatFunction{Name: p.tool.Name, Arguments: arguments},
	}
}

// fingerprint stands for the server's configuration, which never changes.
const fingerprint = "fp_57ab000000"

type chatChunk struct {
	ID                string          `json:"id"`
	Object            string          `json:"object"`
	Created           int64           `json:"created"`
	Model             string          `json:"model"`
	ServiceTier       string          `json:"service_tier"`
	SystemFingerprint string          `json:"system_fingerprint"`
	Choices           []chunkChoice   `json:"choices"`
	Usage             json.RawMessage `json:"usage,omitempty"` // null until the last, when asked for
	Unknown           json.RawMessage `json:"x_stub"`
}

type chunkChoice struct {
	Index        int       `json:"index"`
	Delta        delta     `json:"delta"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type delta struct {
	Role      string          `json:"role,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	ToolCalls []chatToolCall  `json:"tool_calls,omitempty"`
}

// steps is how many chunks carry text, or arguments, for each choice.
func (p *chatPlan) steps() int {
	if p.tool != nil {
		return len(p.tool.fragments())
	}
	return p.texts[0].chunks
}

// stream opens every choice, sends their chunks in turn, closes them, and ends
// with the usage, when asked for, and [DONE].
func (p *chatPlan) stream() iter.Seq[event] {
	return func(yield func(event) bool) {
		for e := range p.choiceEvents() {
			if !yield(e) {
				return
			}
		}
		if p.StreamOptions.IncludeUsage {
			used := encode(newUsage(p.prompt.tokens(), p.outputTokens))
			if !yield(p.event([]chunkChoice{}, used, false)) {
				return
			}
		}
		yield(event{data: doneEvent, last: true})
	}
}

func (p *chatPlan) choiceEvents() iter.Seq[event] {
	return func(yield func(event) bool) {
		for step := -1; step <= p.steps(); step++ {
			for i := range p.texts {
				var finish *string
				if step == p.steps() {
					finish = &p.finish
				}
				choice := chunkChoice{Index: i, Delta: p.delta(i, step), FinishReason: finish}
				if !yield(p.event([]chunkChoice{choice}, p.nullUsage(), step >= 0 && finish == nil)) {
					return
				}
			}
		}
	}
}

// delta is what a choice says at a step: -1 opens it, steps() closes it.
func (p *chatPlan) delta(choice, step int) delta {
	switch {
	case step == p.steps():
		return delta{}
	case p.tool != nil:
		return p.toolDelta(choice, step)
	case step < 0:
		return delta{Role: "assistant", Content: json.RawMessage(`""`)}
	}
	return delta{Content: encode(p.texts[choice].chunk(step))}
}

func (p *chatPlan) toolDelta(choice, step int) delta {
	if step < 0 {
		call := p.toolCall(choice, "")
		call.Index = new(0)
		return delta{Role: "assistant", Content: json.RawMessage("null"), ToolCalls: []chatToolCall{call}}
	}
	more := chatToolCall{Index: new(0), Function: chatFunction{Arguments: p.tool.fragments()[step]}}
	return delta{ToolCalls: []chatToolCall{more}}
}

func (p *chatPlan) nullUsage() json.RawMessage {
	if p.StreamOptions.IncludeUsage {
		return json.RawMessage("null")
	}
	return nil
}

func (p *chatPlan) event(choices []chunkChoice, used json.RawMessage, paced bool) event {
	return event{paced: paced, data: sseFrame("", encode(chatChunk{
		ID: p.id.name("chatcmpl-"), Object: "chat.completion.chunk", Created: p.id.created(), Model: p.model,
		ServiceTier: "default", SystemFingerprint: fingerprint,
		Choices: choices, Usage: used, Unknown: unknownField,
	}))}
}

// usage is the token count of chat completions and completions.
type usage struct {
	PromptTokens        int           `json:"prompt_tokens"`
	CompletionTokens    int           `json:"completion_tokens"`
	TotalTokens         int           `json:"total_tokens"`
	PromptDetails       promptDetails `json:"prompt_tokens_details"`
	CompletionDetails   outputDetails `json:"completion_tokens_details"`
	UnknownUsageDetails int           `json:"x_stub_energy_mj"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
	AudioTokens  int `json:"audio_tokens"`
}

type outputDetails struct {
	ReasoningTokens          int `json:"reasoning_tokens"`
	AudioTokens              int `json:"audio_tokens"`
	AcceptedPredictionTokens int `json:"accepted_prediction_tokens"`
	RejectedPredictionTokens int `json:"rejected_prediction_tokens"`
}

func newUsage(promptTokens, outputTokens int) *usage {
	return &usage{PromptTokens: promptTokens, CompletionTokens: outputTokens, TotalTokens: promptTokens + outputTokens}
}

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
