package modelstub

import (
	"encoding/json"
	"fmt"
)

// completion is the object of chat completions, of their chunks and of completions.
type completion[C any] struct {
	ID                string          `json:"id"`
	Object            string          `json:"object"`
	Created           int64           `json:"created"`
	Model             string          `json:"model"`
	ServiceTier       string          `json:"service_tier,omitempty"`
	SystemFingerprint string          `json:"system_fingerprint"`
	Choices           []C             `json:"choices"`
	Usage             json.RawMessage `json:"usage,omitempty"` // of a stream that asked for it: null until the last chunk
	Unknown           json.RawMessage `json:"x_stub"`
}

// chatChoice has a message, or a delta while streaming.
type chatChoice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *delta       `json:"delta,omitempty"`
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

type chatMessage struct {
	Role        string         `json:"role"`
	Content     *string        `json:"content"`
	Refusal     *string        `json:"refusal"`
	ToolCalls   []chatToolCall `json:"tool_calls,omitempty"`
	Annotations []struct{}     `json:"annotations"`
}

type delta struct {
	Role      string          `json:"role,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	ToolCalls []chatToolCall  `json:"tool_calls,omitempty"`
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

type textChoice struct {
	Text         string    `json:"text"`
	Index        int       `json:"index"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

// usage is the token count of chat completions and completions.
type usage struct {
	PromptTokens        int             `json:"prompt_tokens"`
	CompletionTokens    int             `json:"completion_tokens"`
	TotalTokens         int             `json:"total_tokens"`
	PromptDetails       json.RawMessage `json:"prompt_tokens_details"`
	CompletionDetails   json.RawMessage `json:"completion_tokens_details"`
	UnknownUsageDetails int             `json:"x_stub_energy_mj"`
}

// fingerprint stands for the server's configuration, which never changes.
const fingerprint = "fp_57ab000000"

// completionPlan is the answer of the chat or the completions endpoint.
type completionPlan struct {
	*job
	output
	usage json.RawMessage
}

func (j *job) newCompletionPlan(o output) *completionPlan {
	in, out := j.prompt.tokens(), o.tokens()*len(o.texts)
	return &completionPlan{job: j, output: o, usage: encode(usage{
		PromptTokens: in, CompletionTokens: out, TotalTokens: in + out,
		PromptDetails:     json.RawMessage(`{"cached_tokens":0,"audio_tokens":0}`),
		CompletionDetails: json.RawMessage(`{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}`),
	})}
}

// noUsage is the usage of all chunks but the last.
func (p *completionPlan) noUsage() json.RawMessage {
	if p.StreamOptions.IncludeUsage {
		return json.RawMessage("null")
	}
	return nil
}

// stream is chunks, then the usage if it was requested, then [DONE].
func (p *completionPlan) stream(chunks int, chunk func(i int) event, usage func() []byte) stream {
	s := stream{length: chunks + 1, paced: p.steps() * len(p.texts)}
	if p.StreamOptions.IncludeUsage {
		s.length++
	}
	s.event = func(i int) event {
		switch {
		case i < chunks:
			return chunk(i)
		case i < s.length-1:
			return event{data: sseFrame("", usage())}
		}
		return event{data: doneEvent, last: true}
	}
	return s
}

func (j *job) chat() (reply, error) {
	if len(j.Messages) == 0 {
		return reply{}, missingParam("messages")
	}
	j.prompt = readMessages(j.Messages)
	j.prompt.addTools(j.Tools)
	p := j.newCompletionPlan(j.newOutput(j.choices(), toolCallFor(j.request, j.prompt.userText)))
	if !j.Stream {
		choices := make([]chatChoice, len(p.texts))
		for i := range choices {
			choices[i] = chatChoice{Index: i, Message: p.message(i), FinishReason: &p.finish}
		}
		return j.newReply(&p.output, encode(p.chatObject("chat.completion", choices, p.usage))), nil
	}
	// Every choice is opened, continued and closed in turn.
	chunk := func(i int) event { return p.chatChunk(i%len(p.texts), i/len(p.texts)-1) }
	last := func() []byte { return encode(p.chatObject("chat.completion.chunk", []chatChoice{}, p.usage)) }
	return j.newStreamReply(&p.output, p.stream((p.steps()+2)*len(p.texts), chunk, last)), nil
}

func (p *completionPlan) chatObject(object string, choices []chatChoice, usage json.RawMessage) completion[chatChoice] {
	return completion[chatChoice]{
		ID: p.id.name("chatcmpl-"), Object: object, Created: p.id.created(), Model: p.model,
		ServiceTier: "default", SystemFingerprint: fingerprint, Choices: choices, Usage: usage, Unknown: unknownField,
	}
}

func (p *completionPlan) message(choice int) *chatMessage {
	m := &chatMessage{Role: "assistant", Annotations: []struct{}{}}
	if full := p.full(choice); p.tool != nil {
		m.ToolCalls = []chatToolCall{p.toolCall(choice, full)}
	} else {
		m.Content = &full
	}
	return m
}

func (p *completionPlan) toolCall(choice int, arguments string) chatToolCall {
	return chatToolCall{ID: p.id.callID(choice), Type: "function", Function: chatFunction{p.tool.Name, arguments}}
}

// chatChunk is a choice's chunk at a step: -1 opens the choice, steps() closes it.
func (p *completionPlan) chatChunk(choice, step int) event {
	c := chatChoice{Index: choice, Delta: p.delta(choice, step)}
	if step == p.steps() {
		c.FinishReason = &p.finish
	}
	data := encode(p.chatObject("chat.completion.chunk", []chatChoice{c}, p.noUsage()))
	return event{data: sseFrame("", data), paced: step >= 0 && step < p.steps()}
}

func (p *completionPlan) delta(choice, step int) *delta {
	switch {
	case step == p.steps():
		return &delta{}
	case step < 0 && p.tool != nil:
		call := p.toolCall(choice, "")
		call.Index = new(0)
		return &delta{Role: "assistant", Content: json.RawMessage("null"), ToolCalls: []chatToolCall{call}}
	case step < 0:
		return &delta{Role: "assistant", Content: json.RawMessage(`""`)}
	case p.tool != nil:
		return &delta{ToolCalls: []chatToolCall{{Index: new(0), Function: chatFunction{Arguments: p.piece(choice, step)}}}}
	}
	return &delta{Content: encode(p.piece(choice, step))}
}

func (j *job) completions() (reply, error) {
	inputs, size, err := readInputs("prompt", j.Prompt)
	if err != nil {
		return reply{}, err
	}
	n := max(len(inputs), 1) * j.choices()
	if n > maxInputs {
		return reply{}, badRequest("n", fmt.Sprintf("Prompts times n is %d: want at most %d.", n, maxInputs))
	}
	j.prompt.bytes = size
	p := j.newCompletionPlan(j.newOutput(n, nil))
	if !j.Stream {
		choices := make([]textChoice, n)
		for i := range choices {
			choices[i] = textChoice{Text: p.full(i), Index: i, FinishReason: &p.finish}
		}
		return j.newReply(&p.output, encode(p.textObject(choices, p.usage))), nil
	}
	chunk := func(i int) event { return p.textChunk(i%n, i/n) }
	last := func() []byte { return encode(p.textObject([]textChoice{}, p.usage)) }
	return j.newStreamReply(&p.output, p.stream(p.steps()*n, chunk, last)), nil
}

func (p *completionPlan) textObject(choices []textChoice, usage json.RawMessage) completion[textChoice] {
	return completion[textChoice]{
		ID: p.id.name("cmpl-"), Object: "text_completion", Created: p.id.created(), Model: p.model,
		SystemFingerprint: fingerprint, Choices: choices, Usage: usage, Unknown: unknownField,
	}
}

// textChunk is a choice's chunk at a step; the last one has the reason for the end.
func (p *completionPlan) textChunk(choice, step int) event {
	c := textChoice{Text: p.piece(choice, step), Index: choice}
	if step == p.steps()-1 {
		c.FinishReason = &p.finish
	}
	return event{data: sseFrame("", encode(p.textObject([]textChoice{c}, p.noUsage()))), paced: true}
}
