package modelstub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds on what a request may ask for.
const (
	maxChoices     = 128
	maxTokens      = 1 << 15 // per choice
	maxTotalTokens = 1 << 18 // over all choices
	maxInputs      = 2048    // prompts or embedding inputs in one call
	maxFloats      = 4 << 20 // over all embeddings of one call
)

// request is the union of the fields that the endpoints read. Unknown fields
// are let through, as real servers do.
type request struct {
	Model               string            `json:"model"`
	Stream              bool              `json:"stream"`
	StreamOptions       streamOptions     `json:"stream_options"`
	N                   *int              `json:"n"`
	MaxTokens           *int              `json:"max_tokens"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	MaxOutputTokens     *int              `json:"max_output_tokens"`
	MinTokens           int               `json:"min_tokens"`
	IgnoreEOS           bool              `json:"ignore_eos"`
	Messages            []message         `json:"messages"`
	Prompt              json.RawMessage   `json:"prompt"`
	Input               json.RawMessage   `json:"input"`
	Instructions        json.RawMessage   `json:"instructions"`
	Tools               []json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls   *bool             `json:"parallel_tool_calls"`
	EncodingFormat      string            `json:"encoding_format"`
	Dimensions          *int              `json:"dimensions"`
	Metadata            json.RawMessage   `json:"metadata"`
	Temperature         json.RawMessage   `json:"temperature"`
	TopP                json.RawMessage   `json:"top_p"`
	Text                json.RawMessage   `json:"text"`
	Reasoning           json.RawMessage   `json:"reasoning"`
	Store               *bool             `json:"store"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// message is a chat message, or one item of a /v1/responses input.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
}

// parseRequest reads a JSON object and checks what is common to all endpoints.
func parseRequest(body []byte) (*request, error) {
	var req request
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&req); err != nil {
		return nil, jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest("", "We could not parse the JSON body of your request: there is more after the object.")
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); first[0] != '{' {
		return nil, badRequest("", "We could not parse the JSON body of your request: want an object.")
	}
	return &req, req.check()
}

func jsonError(err error) *apiError {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return badRequest(wrong.Field, fmt.Sprintf("Invalid type for '%s': want %s, got %s.", clip(wrong.Field), wrong.Type, wrong.Value))
	}
	return badRequest("", fmt.Sprintf("We could not parse the JSON body of your request: %v", err))
}

func (r *request) check() error {
	for _, field := range []struct {
		name      string
		value     *int
		low, high int
	}{
		{"n", r.N, 1, maxChoices},
		{"max_tokens", r.MaxTokens, 1, 1 << 30},
		{"max_completion_tokens", r.MaxCompletionTokens, 1, 1 << 30},
		{"max_output_tokens", r.MaxOutputTokens, 1, 1 << 30},
		{"min_tokens", &r.MinTokens, 0, 1 << 30},
		{"dimensions", r.Dimensions, 1, 8192},
	} {
		if field.value != nil && (*field.value < field.low || *field.value > field.high) {
			return badRequest(field.name, fmt.Sprintf("Invalid value for '%s': want %d to %d, got %d.", field.name, field.low, field.high, *field.value))
		}
	}
	return nil
}

func (r *request) choices() int {
	if r.N == nil {
		return 1
	}
	return *r.N
}

// maxOutput is the most output tokens that the client wants; 0 is no bound.
func (r *request) maxOutput() int {
	for _, limit := range []*int{r.MaxOutputTokens, r.MaxCompletionTokens, r.MaxTokens} {
		if limit != nil {
			return *limit
		}
	}
	return 0
}
