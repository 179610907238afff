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
	Instructions       json.RawMessage    `json:"instructions"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []outputItem       `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Reasoning          json.RawMessage    `json:"reasoning"`
	ServiceTier        string             `json:"service_tier"`
	Store              bool               `json:"store"`
	Temperature        json.RawMessage    `json:"temperature"`
	Text               json.RawMessage    `json:"text"`
	ToolChoice         json.RawMessage    `json:"tool_choice"`
	Tools              []json.RawMessage  `json:"tools"`
	TopP               json.RawMessage    `json:"top_p"`
	Truncation         string             `json:"truncation"`
	Usage              *responseUsage     `json:"usage"`
	User               *string            `json:"user"`
	Metadata           json.RawMessage    `json:"metadata"`
	Unknown            json.RawMessage    `json:"x_stub"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens   int                `json:"input_tokens"`
	InputDetails  inputTokenDetails  `json:"input_tokens_details"`
	OutputTokens  int                `json:"output_tokens"`
	OutputDetails outputTokenDetails `json:"output_tokens_details"`
	TotalTokens   int                `json:"total_tokens"`
}

type inputTokenDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

type outputTokenDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
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

// responsePlan is what the responses endpoint is going to say.
type responsePlan struct {
	*job
	text   text
	finish string
	tool   *toolCall
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
	p := &responsePlan{job: j, tool: toolCallFor(j.request, j.prompt.userText)}
	texts, finish := j.newTexts(1)
	p.text, p.finish = texts[0], finish
	r := j.newReply()
	r.outputTokens = p.outputTokens()
	if j.Stream {
		r.contentType, r.events, r.gaps = typeEvents, p.stream(), len(p.deltas())
		return r, nil
	}
	r.body = encode(p.object(p.endStatus()))
	return r, nil
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

func (p *responsePlan) outputTokens() int {
	if p.tool != nil {
		return p.tool.tokens()
	}
	return p.text.tokens()
}

func (p *responsePlan) endStatus() string {
	if p.tool == nil && p.finish == "length" {
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
	r.Output = []outputItem{p.item(status, p.fullText())}
	in, out := p.prompt.tokens(), p.outputTokens()
	r.Usage = &responseUsage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
	return r
}

func (p *responsePlan) newResponse() response {
	return response{
		ID: p.id.name("resp_"), Object: "response", CreatedAt: p.id.created(), Model: p.model,
		Instructions: orDefault(p.Instructions, "null"), MaxOutputTokens: p.MaxOutputTokens, Output: []outputItem{},
		ParallelToolCalls: p.ParallelToolCalls == nil || *p.ParallelToolCalls,
		Reasoning:         orDefault(p.Reasoning, `{"effort":null,"summary":null}`),
		ServiceTier:       "default", Store: p.Store == nil || *p.Store,
		Temperature: orDefault(p.Temperature, "1.0"), Text: orDefault(p.Text, `{"format":{"type":"text"}}`),
		ToolChoice: orDefault(p.ToolChoice, `"auto"`), Tools: append([]json.RawMessage{}, p.Tools...),
		TopP: orDefault(p.TopP, "1.0"), Truncation: "disabled", Metadata: orDefault(p.Metadata, "{}"), Unknown: unknownField,
	}
}

func orDefault(raw json.RawMessage, otherwise string) json.RawMessage {
	if isNull(raw) {
		return json.RawMessage(otherwise)
	}
	return raw
}

// fullText is everything that the item says: text, or arguments.
func (p *responsePlan) fullText() string {
	if p.tool != nil {
		return p.tool.Arguments
	}
	return p.text.full()
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
