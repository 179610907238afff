package modelstub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Bounds on what a request may ask for.
const (
	maxChoices     = 128
	maxTokens      = 1 << 15 // per choice
	maxTotalTokens = 1 << 18 // over all choices
	maxInputs      = 2048    // prompts or embedding inputs in one call
	maxFloats      = 4 << 20 // over all embeddings of one call
)

// request is the union of the fields that the endpoints read. Unknown fields are
// accepted, as by real servers.
type request struct {
	Model               string          `json:"model"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	N                   *int            `json:"n"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MaxOutputTokens     *int            `json:"max_output_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Input               json.RawMessage `json:"input"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	EncodingFormat      string          `json:"encoding_format"`
	Dimensions          *int            `json:"dimensions"`
	Store               *bool           `json:"store"`

	// The object of /v1/responses repeats these as they were sent.
	Instructions json.RawMessage   `json:"instructions"`
	Metadata     json.RawMessage   `json:"metadata"`
	Reasoning    json.RawMessage   `json:"reasoning"`
	Temperature  json.RawMessage   `json:"temperature"`
	Text         json.RawMessage   `json:"text"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Tools        []json.RawMessage `json:"tools"`
	TopP         json.RawMessage   `json:"top_p"`
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

// parseRequest reads a JSON object and checks the fields that all endpoints share.
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

// readInputs reads what completions call a prompt and embeddings an input: a
// string, strings, token numbers, or arrays of token numbers. It returns each
// input's JSON and the size of all in bytes of text.
func readInputs(param string, raw json.RawMessage) (inputs []json.RawMessage, size int, err error) {
	if isNull(raw) {
		return nil, 0, nil
	}
	if raw[0] != '[' {
		size, err = inputSize(param, raw)
		return []json.RawMessage{raw}, size, err
	}
	if err := json.Unmarshal(raw, &inputs); err != nil || len(inputs) == 0 {
		return nil, 0, badRequest(param, fmt.Sprintf("Invalid '%s': the array is empty.", param))
	}
	if isNumber(inputs[0]) { // one input, given as token numbers
		size, err = inputSize(param, raw)
		return []json.RawMessage{raw}, size, err
	}
	if len(inputs) > maxInputs {
		return nil, 0, badRequest(param, fmt.Sprintf("Invalid '%s': %d inputs, want at most %d.", param, len(inputs), maxInputs))
	}
	for _, input := range inputs {
		n, err := inputSize(param, input)
		if err != nil {
			return nil, 0, err
		}
		size += n
	}
	return inputs, size, nil
}

// inputSize returns the size of one input: of text its bytes, of a token number
// bytesPerToken.
func inputSize(param string, raw json.RawMessage) (int, error) {
	var text string
	if !isNull(raw) && json.Unmarshal(raw, &text) == nil {
		return len(text), nil
	}
	var tokens []int64
	if !isNull(raw) && json.Unmarshal(raw, &tokens) == nil {
		return len(tokens) * bytesPerToken, nil
	}
	return 0, badRequest(param, fmt.Sprintf("Invalid '%s': want a string, strings, token numbers or arrays of token numbers.", param))
}

func isNumber(raw json.RawMessage) bool {
	return raw[0] == '-' || (raw[0] >= '0' && raw[0] <= '9')
}

// bytesPerToken is the usual rule of thumb for English text.
const bytesPerToken = 4

// prompt is the size of a request's prompt, and the text of the last message if it is
// the user's.
type prompt struct {
	bytes    int
	userText string
}

func (p prompt) tokens() int { return max(p.bytes/bytesPerToken, 1) }

// isNull also holds for a field that was not sent.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// readMessages measures chat messages or /v1/responses items.
func readMessages(messages []message) prompt {
	var p prompt
	for _, m := range messages {
		text := contentText(m.Content)
		p.bytes += len(text) + len(contentText(m.Output))
		p.userText = ""
		if m.Role == "user" {
			p.userText = text
		}
	}
	return p
}

// contentText returns a content's text: a string, or the text of its parts. A
// part without text, such as an image, counts with its JSON.
func contentText(raw json.RawMessage) string {
	if isNull(raw) {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var b strings.Builder
	for _, part := range parts {
		if part.Text == nil {
			return string(raw)
		}
		b.WriteString(*part.Text)
	}
	return b.String()
}

// addTools adds the size of the tool descriptions, which a model reads too.
func (p *prompt) addTools(tools []json.RawMessage) {
	for _, t := range tools {
		p.bytes += len(t)
	}
}

// Control headers of a request. A value that cannot be read is answered with a
// 400 that names the valid values.
const (
	// HeaderFault asks for a [Fault], as read by [ParseFault].
	HeaderFault = "Stub-Fault"
	// HeaderService replaces the service time of the call: a duration.
	HeaderService = "Stub-Service"
	// HeaderChunks is the number of text chunks in a streamed answer, 1 to
	// 10000. The answer grows to at least as many tokens.
	HeaderChunks = "Stub-Chunks"
	// HeaderStream answers with the edge-case stream of that name; see [EdgeCaseStreams].
	HeaderStream = "Stub-Stream"
	// HeaderEncoding compresses the answer: gzip, br or zstd.
	HeaderEncoding = "Stub-Encoding"
	// HeaderTrailer, when not empty, adds the trailer [TrailerChecksum].
	HeaderTrailer = "Stub-Trailer"
	// TrailerChecksum is the name of a response trailer: the CRC-32 (IEEE) of
	// the body as sent, in hexadecimal.
	TrailerChecksum = "Stub-Checksum"
)

const maxChunks = 10_000

// options are what the control headers of one request ask for.
type options struct {
	fault    Fault
	service  Service // nil: the stub's
	chunks   int
	stream   *EdgeCaseStream
	encoding string
	trailer  bool
}

func parseOptions(h http.Header) (o options, err error) {
	o.trailer = h.Get(HeaderTrailer) != ""
	read := func(name string, parse func(string) error) {
		value := h.Get(name)
		if value == "" || err != nil {
			return
		}
		if err = parse(value); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	read(HeaderFault, func(s string) (err error) {
		o.fault, err = ParseFault(s)
		return err
	})
	read(HeaderService, func(s string) error {
		d, err := parseDuration(s, MaxService)
		o.service = Fixed(d)
		return err
	})
	read(HeaderChunks, func(s string) (err error) {
		if o.chunks, err = strconv.Atoi(s); err != nil || o.chunks < 1 || o.chunks > maxChunks {
			return fmt.Errorf("%q, want 1 to %d", clip(s), maxChunks)
		}
		return nil
	})
	read(HeaderStream, o.readStream)
	read(HeaderEncoding, func(s string) error {
		o.encoding = s
		return checkEncoding(s)
	})
	return o, err
}

func (o *options) readStream(s string) error {
	var names []string
	for _, e := range EdgeCaseStreams() {
		if e.Name == s {
			o.stream = &e
			return nil
		}
		names = append(names, e.Name)
	}
	return fmt.Errorf("%q, want one of %s", clip(s), strings.Join(names, ", "))
}
