package modelstub

import "iter"

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

// deltas are what the deltas carry.
func (p *responsePlan) deltas() []string {
	if p.tool != nil {
		return p.tool.fragments()
	}
	pieces := make([]string, p.text.chunks)
	for i := range pieces {
		pieces[i] = p.text.chunk(i)
	}
	return pieces
}

// stream numbers the events and frames them.
func (p *responsePlan) stream() iter.Seq[event] {
	return func(yield func(event) bool) {
		number := 0
		for e := range p.events() {
			e.SequenceNumber = number
			number++
			out := event{data: sseFrame(e.Type, encode(e)), paced: e.Delta != nil, last: e.Response != nil && e.Response.Status != "in_progress"}
			if !yield(out) {
				return
			}
		}
	}
}

// events is the events in their order, without numbers.
func (p *responsePlan) events() iter.Seq[responseEvent] {
	return func(yield func(responseEvent) bool) {
		for _, e := range p.opening() {
			if !yield(e) {
				return
			}
		}
		for _, piece := range p.deltas() {
			if !yield(p.delta(piece)) {
				return
			}
		}
		for _, e := range p.closing() {
			if !yield(e) {
				return
			}
		}
	}
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
	full, status := p.fullText(), p.endStatus()
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
