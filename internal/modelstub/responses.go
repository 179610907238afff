package modelstub

import "encoding/json"

// responsePlan is the answer of the responses endpoint.
type responsePlan struct {
	*job
	output
}

func (j *job) responses() (reply, error) {
	if isNull(j.Input) {
		return reply{}, missingParam("input")
	}
	var err error
	if j.prompt, err = readResponseInput(j.Input); err != nil {
		return reply{}, err
	}
	j.prompt.bytes += len(contentText(j.Instructions))
	j.prompt.addTools(j.Tools)
	p := &responsePlan{job: j, output: j.newOutput(1, toolCallFor(j.request, j.prompt.userText))}
	if j.Stream {
		return j.newStreamReply(&p.output, p.stream()), nil
	}
	return j.newReply(&p.output, encode(p.object(p.endStatus()))), nil
}

func readResponseInput(raw json.RawMessage) (prompt, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return prompt{bytes: len(text), userText: text}, nil
	}
	var items []message
	if json.Unmarshal(raw, &items) != nil {
		return prompt{}, badRequest("input", "Invalid type for 'input': want a string or an array of items.")
	}
	return readMessages(items), nil
}

func (p *responsePlan) endStatus() string {
	if p.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

// object is the response at a status; only an ended one has output and usage. It
// echoes the settings of the request, as the real API does.
func (p *responsePlan) object(status string) object {
	r := object{
		"id": p.id.name("resp_"), "object": "response", "created_at": p.id.created(), "model": p.model, "status": status,
		"background": false, "error": nil, "incomplete_details": nil, "max_output_tokens": p.MaxOutputTokens,
		"output": []object{}, "parallel_tool_calls": p.ParallelToolCalls == nil || *p.ParallelToolCalls,
		"previous_response_id": nil, "service_tier": "default", "store": p.Store == nil || *p.Store,
		"truncation": "disabled", "usage": nil, "user": nil, "x_stub": unknownField,
		"instructions": p.Instructions, "metadata": orJSON(p.Metadata, "{}"),
		"reasoning":   orJSON(p.Reasoning, `{"effort":null,"summary":null}`),
		"temperature": orJSON(p.Temperature, "1.0"), "text": orJSON(p.Text, `{"format":{"type":"text"}}`),
		"tool_choice": orJSON(p.ToolChoice, `"auto"`), "tools": append([]json.RawMessage{}, p.Tools...),
		"top_p": orJSON(p.TopP, "1.0"),
	}
	switch status {
	case "in_progress":
		return r
	case "incomplete":
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	in, out := p.prompt.tokens(), p.tokens()
	r["output"] = []object{p.item(status, p.full(0))}
	r["usage"] = object{
		"input_tokens": in, "output_tokens": out, "total_tokens": in + out,
		"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0},
	}
	return r
}

// orJSON returns a field as it was sent, or a default.
func orJSON(sent json.RawMessage, otherwise string) json.RawMessage {
	if isNull(sent) {
		return json.RawMessage(otherwise)
	}
	return sent
}

func (p *responsePlan) itemID() string {
	if p.tool != nil {
		return p.id.name("fc_")
	}
	return p.id.name("msg_")
}

// item is the one output item, with this text or these arguments.
func (p *responsePlan) item(status, content string) object {
	item := object{"id": p.itemID(), "type": "message", "status": status}
	switch {
	case p.tool != nil:
		item["type"], item["call_id"], item["name"], item["arguments"] = "function_call", p.id.callID(0), p.tool.Name, content
	case content == "":
		item["role"], item["content"] = "assistant", []object{}
	default:
		item["role"], item["content"] = "assistant", []object{textPart(content)}
	}
	return item
}

func textPart(text string) object {
	return object{"type": "output_text", "annotations": []object{}, "logprobs": []object{}, "text": text}
}

// stream is the opening events, the deltas and the closing events, numbered.
func (p *responsePlan) stream() stream {
	opening, closing := p.opening(), p.closing()
	n := len(opening) + p.steps() + len(closing)
	return stream{length: n, paced: p.steps(), event: func(i int) event {
		var e object
		step := i - len(opening)
		switch {
		case step < 0:
			e = opening[i]
		case step < p.steps():
			e = p.delta(p.piece(0, step))
		default:
			e = closing[step-p.steps()]
		}
		e["sequence_number"] = i
		return event{data: sseFrame(e["type"].(string), encode(e)), paced: e["delta"] != nil, last: i == n-1}
	}}
}

func (p *responsePlan) opening() []object {
	begun := p.object("in_progress")
	events := []object{
		{"type": "response.created", "response": begun},
		{"type": "response.in_progress", "response": begun},
		{"type": "response.output_item.added", "output_index": 0, "item": p.item("in_progress", "")},
	}
	if p.tool == nil {
		events = append(events, p.positioned("response.content_part.added", object{"part": textPart("")}))
	}
	return events
}

func (p *responsePlan) delta(piece string) object {
	if p.tool != nil {
		return p.positioned("response.function_call_arguments.delta", object{"delta": piece, "obfuscation": "stub"})
	}
	return p.positioned("response.output_text.delta", object{"delta": piece, "logprobs": []object{}, "obfuscation": "stub"})
}

func (p *responsePlan) closing() []object {
	full, status := p.full(0), p.endStatus()
	var events []object
	if p.tool != nil {
		events = append(events, p.positioned("response.function_call_arguments.done", object{"name": p.tool.Name, "arguments": full}))
	} else {
		events = append(events,
			p.positioned("response.output_text.done", object{"text": full, "logprobs": []object{}}),
			p.positioned("response.content_part.done", object{"part": textPart(full)}))
	}
	return append(events,
		object{"type": "response.output_item.done", "output_index": 0, "item": p.item(status, full)},
		object{"type": "response." + status, "response": p.object(status)})
}

// positioned places an event in the one item, and in its one part when it has parts.
func (p *responsePlan) positioned(kind string, e object) object {
	e["type"], e["item_id"], e["output_index"] = kind, p.itemID(), 0
	if p.tool == nil {
		e["content_index"] = 0
	}
	return e
}
