package modelstub

import "fmt"

// object is a JSON object of an answer.
type object map[string]any

// fingerprint stands for the server's configuration, which never changes.
const fingerprint = "fp_57ab000000"

// completionPlan is the answer of the chat or the completions endpoint.
type completionPlan struct {
	*job
	output
}

func (p *completionPlan) usage() object {
	in, out := p.prompt.tokens(), p.tokens()*len(p.texts)
	return object{
		"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out, "x_stub_energy_mj": 0,
		"prompt_tokens_details": object{"cached_tokens": 0, "audio_tokens": 0},
		"completion_tokens_details": object{
			"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
		},
	}
}

// object is a whole completion or a chunk of one. A chunk has no usage, which is null
// if the request asked for it.
func (p *completionPlan) object(kind string, usage any, choices ...object) object {
	o := object{
		"id": p.id.name("chatcmpl-"), "object": kind, "created": p.id.created(), "model": p.model, "service_tier": "default",
		"system_fingerprint": fingerprint, "choices": append([]object{}, choices...), "x_stub": unknownField,
	}
	if kind == "text_completion" {
		o["id"] = p.id.name("cmpl-")
		delete(o, "service_tier")
	}
	if usage != nil || p.StreamOptions.IncludeUsage {
		o["usage"] = usage
	}
	return o
}

// choice has its content in the given field.
func (p *completionPlan) choice(index int, field string, content any, ended bool) object {
	c := object{"index": index, field: content, "logprobs": nil, "finish_reason": nil}
	if ended {
		c["finish_reason"] = p.finish
	}
	return c
}

// whole is an answer in one piece.
func (p *completionPlan) whole(kind string, choice func(i int) object) reply {
	var choices []object
	for i := range p.texts {
		choices = append(choices, choice(i))
	}
	return p.newReply(&p.output, encode(p.object(kind, p.usage(), choices...)))
}

// stream is chunks of one choice each, then the usage if it was requested, then [DONE].
func (p *completionPlan) stream(kind string, chunks int, chunk func(i int) (choice object, paced bool)) reply {
	s := stream{length: chunks + 1, paced: p.steps() * len(p.texts)}
	if p.StreamOptions.IncludeUsage {
		s.length++
	}
	s.event = func(i int) event {
		switch {
		case i < chunks:
			choice, paced := chunk(i)
			return event{data: sseFrame("", encode(p.object(kind, nil, choice))), paced: paced}
		case i < s.length-1:
			return event{data: sseFrame("", encode(p.object(kind, p.usage())))}
		}
		return event{data: doneEvent, last: true}
	}
	return p.newStreamReply(&p.output, s)
}

func (j *job) chat() (reply, error) {
	if len(j.Messages) == 0 {
		return reply{}, missingParam("messages")
	}
	j.prompt = readMessages(j.Messages)
	j.prompt.addTools(j.Tools)
	p := &completionPlan{j, j.newOutput(j.choices(), toolCallFor(j.request, j.prompt.userText))}
	if !j.Stream {
		return p.whole("chat.completion", func(i int) object { return p.choice(i, "message", p.message(i), true) }), nil
	}
	// Every choice is opened, continued and closed in turn. A step of -1 opens it, steps() closes it.
	n, steps := len(p.texts), p.steps()
	return p.stream("chat.completion.chunk", (steps+2)*n, func(i int) (object, bool) {
		choice, step := i%n, i/n-1
		return p.choice(choice, "delta", p.delta(choice, step), step == steps), step >= 0 && step < steps
	}), nil
}

func (p *completionPlan) message(choice int) object {
	m := object{"role": "assistant", "content": nil, "refusal": nil, "annotations": []object{}}
	if full := p.full(choice); p.tool != nil {
		m["tool_calls"] = []object{p.toolCall(choice, full)}
	} else {
		m["content"] = full
	}
	return m
}

func (p *completionPlan) toolCall(choice int, arguments string) object {
	return object{"id": p.id.callID(choice), "type": "function", "function": object{"name": p.tool.Name, "arguments": arguments}}
}

func (p *completionPlan) delta(choice, step int) object {
	switch {
	case step == p.steps():
		return object{}
	case step < 0 && p.tool != nil:
		call := p.toolCall(choice, "")
		call["index"] = 0
		return object{"role": "assistant", "content": nil, "tool_calls": []object{call}}
	case step < 0:
		return object{"role": "assistant", "content": ""}
	case p.tool != nil:
		return object{"tool_calls": []object{{"index": 0, "function": object{"arguments": p.piece(choice, step)}}}}
	}
	return object{"content": p.piece(choice, step)}
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
	p := &completionPlan{j, j.newOutput(n, nil)}
	if !j.Stream {
		return p.whole("text_completion", func(i int) object { return p.choice(i, "text", p.full(i), true) }), nil
	}
	return p.stream("text_completion", p.steps()*n, func(i int) (object, bool) {
		choice, step := i%n, i/n
		return p.choice(choice, "text", p.piece(choice, step), step == p.steps()-1), true
	}), nil
}
