package modelstub

import (
	"encoding/json"
)

// response is the object of /v1/responses. What a request sets comes back as
// it was sent, as the real one does.
type response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	Error              *struct{}          `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []outputItem       `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	ServiceTier        string             `json:"service_tier"`
	Store              bool               `json:"store"`
	Truncation         string             `json:"truncation"`
	Usage              *responseUsage     `json:"usage"`
	User               *string            `json:"user"`
	echoed
	Unknown json.RawMessage `json:"x_stub"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens   int             `json:"input_tokens"`
	InputDetails  json.RawMessage `json:"input_tokens_details"`
	OutputTokens  int             `json:"output_tokens"`
	OutputDetails json.RawMessage `json:"output_tokens_details"`
	TotalTokens   int             `json:"total_tokens"`
}

// outputItem is a message or a function call.
type outputItem struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Status    string         `json:"status"`
	Role      string         `json:"role,omitempty"`
	Content   *[]contentPart `json:"content,omitempty"`
	CallID    string         `json:"call_id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Arguments *string        `json:"arguments,omitempty"`
}

type contentPart struct {
	Type        string     `json:"type"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
	Text        string     `json:"text"`
}

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

// object is the response at a status; only an ended one has output and usage.
func (p *responsePlan) object(status string) response {
	r := p.newResponse()
	r.Status = status
	if status == "in_progress" {
		return r
	}
	if status == "incomplete" {
		r.IncompleteDetails = &incompleteDetails{Reason: "max_output_tokens"}
	}
	r.Output = []outputItem{p.item(status, p.full(0))}
	in, out := p.prompt.tokens(), p.tokens()
	r.Usage = &responseUsage{
		InputTokens: in, OutputTokens: out, TotalTokens: in + out,
		InputDetails: json.RawMessage(`{"cached_tokens":0}`), OutputDetails: json.RawMessage(`{"reasoning_tokens":0}`),
	}
	return r
}

func (p *responsePlan) newResponse() response {
	return response{
		ID: p.id.name("resp_"), Object: "response", CreatedAt: p.id.created(), Model: p.model,
		MaxOutputTokens: p.MaxOutputTokens, Output: []outputItem{},
		ParallelToolCalls: p.ParallelToolCalls == nil || *p.ParallelToolCalls,
		ServiceTier:       "default", Store: p.Store == nil || *p.Store, Truncation: "disabled",
		echoed: p.echoed.withDefaults(), Unknown: unknownField,
	}
}

func (p *responsePlan) itemID() string {
	if p.tool != nil {
		return p.id.name("fc_")
	}
	return p.id.name("msg_")
}

// item is the one output item, having said this much.
func (p *responsePlan) item(status, said string) outputItem {
	if p.tool != nil {
		return outputItem{
			ID: p.itemID(), Type: "function_call", Status: status,
			CallID: p.id.callID(0), Name: p.tool.Name, Arguments: &said,
		}
	}
	content := []contentPart{}
	if said != "" {
		content = append(content, p.part(said))
	}
	return outputItem{ID: p.itemID(), Type: "message", Status: status, Role: "assistant", Content: &content}
}

func (p *responsePlan) part(said string) contentPart {
	return contentPart{Type: "output_text", Annotations: []struct{}{}, Logprobs: []struct{}{}, Text: said}
}

// The events of a streamed response. Pointers are fields that some events
// have and others do not.
type responseEvent struct {
	Type           string       `json:"type"`
	SequenceNumber int          `json:"sequence_number"`
	Response       *response    `json:"response,omitempty"`
	ItemID         string       `json:"item_id,omitempty"`
	OutputIndex    *int         `json:"output_index,omitempty"`
	ContentIndex   *int         `json:"content_index,omitempty"`
	Item           *outputItem  `json:"item,omitempty"`
	Part           *contentPart `json:"part,omitempty"`
	Delta          *string      `json:"delta,omitempty"`
	Text           *string      `json:"text,omitempty"`
	Name           string       `json:"name,omitempty"`
	Arguments      *string      `json:"arguments,omitempty"`
	Logprobs       *[]struct{}  `json:"logprobs,omitempty"`
	Obfuscation    string       `json:"obfuscation,omitempty"`
}

// stream is the opening events, the deltas and the closing events, numbered.
func (p *responsePlan) stream() stream {
	opening, closing := p.opening(), p.closing()
	return stream{length: len(opening) + p.steps() + len(closing), paced: p.steps(), event: func(i int) event {
		var e responseEvent
		switch step := i - len(opening); {
		case step < 0:
			e = opening[i]
		case step < p.steps():
			e = p.delta(p.piece(0, step))
		default:
			e = closing[step-p.steps()]
		}
		e.SequenceNumber = i
		ended := e.Response != nil && e.Response.Status != "in_progress"
		return event{data: sseFrame(e.Type, encode(e)), paced: e.Delta != nil, last: ended}
	}}
}

func (p *responsePlan) opening() []responseEvent {
	begun := p.object("in_progress")
	item := p.item("in_progress", "")
	events := []responseEvent{
		{Type: "response.created", Response: &begun},
		{Type: "response.in_progress", Response: &begun},
		{Type: "response.output_item.added", OutputIndex: new(0), Item: &item},
	}
	if p.tool == nil {
		events = append(events, p.positioned("response.content_part.added", responseEvent{Part: new(p.part(""))}))
	}
	return events
}

func (p *responsePlan) delta(piece string) responseEvent {
	if p.tool != nil {
		return p.positioned("response.function_call_arguments.delta", responseEvent{Delta: &piece, Obfuscation: "stub"})
	}
	return p.positioned("response.output_text.delta", responseEvent{Delta: &piece, Logprobs: new([]struct{}{}), Obfuscation: "stub"})
}

func (p *responsePlan) closing() []responseEvent {
	full, status := p.full(0), p.endStatus()
	item, ended := p.item(status, full), p.object(status)
	var events []responseEvent
	if p.tool != nil {
		events = append(events, p.positioned("response.function_call_arguments.done", responseEvent{Name: p.tool.Name, Arguments: &full}))
	} else {
		events = append(events,
			p.positioned("response.output_text.done", responseEvent{Text: &full, Logprobs: new([]struct{}{})}),
			p.positioned("response.content_part.done", responseEvent{Part: new(p.part(full))}))
	}
	return append(events,
		responseEvent{Type: "response.output_item.done", OutputIndex: new(0), Item: &item},
		responseEvent{Type: "response." + status, Response: &ended})
}

// positioned places an event in the one item, and in its one part when it has parts.
func (p *responsePlan) positioned(kind string, e responseEvent) responseEvent {
	e.Type, e.ItemID, e.OutputIndex = kind, p.itemID(), new(0)
	if p.tool == nil {
		e.ContentIndex = new(0)
	}
	return e
}
