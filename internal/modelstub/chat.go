package modelstub

import (
	"encoding/json"
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
