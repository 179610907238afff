package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
)

// messagesPath is Anthropic's endpoint. Errors there and below have Anthropic's shape.
const messagesPath = "/v1/messages"

func isAnthropic(path string) bool {
	return path == messagesPath || strings.HasPrefix(path, messagesPath+"/")
}

// anthropicErrors are Anthropic's names of errors by status.
var anthropicErrors = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// anthropicBody returns the failure in Anthropic's shape.
func (f *failure) anthropicBody() any {
	kind := anthropicErrors[f.status]
	switch {
	case kind != "":
	case f.status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": f.message}}
}

// streamErrorEvent returns an error body as an event of the stream at a path. OpenAI's
// clients find an error by its key, Anthropic's by the event's name.
func streamErrorEvent(path string, body []byte) []byte {
	event := "data: "
	if isAnthropic(path) {
		event = "event: error\ndata: "
	}
	return append(append([]byte(event), strings.TrimSpace(string(body))...), "\n\n"...)
}

// body returns the failure in the shape that clients of a path expect.
func (f *failure) body(path string) []byte {
	var shape any = f.openAIBody()
	if isAnthropic(path) {
		shape = f.anthropicBody()
	}
	b, err := json.Marshal(shape)
	if err != nil { // strings always marshal
		panic(err)
	}
	return append(b, '\n')
}
