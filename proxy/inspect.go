package proxy

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// maxNesting is how deep JSON may nest; encoding/json stops at the same depth.
const maxNesting = 10000

// requestInfo is what the proxy has to know of a request body.
type requestInfo struct {
	model  string
	stream bool
}

// inspect looks into a JSON request body. A repeated key is refused: which of
// the two counts differs from parser to parser, and the gate must not route by
// one what the upstream serves by the other.
func inspect(body []byte) (requestInfo, *failure) {
	var seen members
	text := jsonScanner{text: body, member: seen.visit}
	switch err := text.scan(); {
	case errors.Is(err, errTooDeep):
		return requestInfo{}, invalidRequest(http.StatusBadRequest, "invalid_json", "The request body nests deeper than %d levels.", maxNesting)
	case err != nil:
		return requestInfo{}, invalidRequest(http.StatusBadRequest, "invalid_json", "The request body is not valid JSON.")
	case bytes.TrimLeft(body, " \t\r\n")[0] != '{':
		return requestInfo{}, invalidRequest(http.StatusBadRequest, "invalid_json", "The request body must be a JSON object.")
	case seen.repeated != "":
		return requestInfo{}, invalidRequest(http.StatusBadRequest, "invalid_json", "The request body has the key %q twice.", seen.repeated)
	}
	model := gjson.ParseBytes(seen.model) // copies no more than the name
	if model.Type != gjson.String || model.Str == "" {
		return requestInfo{}, invalidRequest(http.StatusBadRequest, "model_required", "You must provide a model parameter: a non-empty string.")
	}
	return requestInfo{model: model.Str, stream: string(seen.stream) == "true"}, nil
}

// validJSON tells whether a text is JSON that a parser may be handed: one that
// recurses must not get what nests without end, its stack would kill the process.
func validJSON(body []byte) bool {
	text := jsonScanner{text: body, member: func(int, []byte, []byte) {}}
	return text.scan() == nil
}

// members are those of a request body that the proxy has to know, as written.
type members struct {
	model, stream []byte
	repeated      string // the first key that came twice
}

func (m *members) visit(level int, key, value []byte) {
	if level > 1 {
		return
	}
	switch name := unquote(key); string(name) {
	case "model":
		m.set(&m.model, name, value)
	case "stream":
		m.set(&m.stream, name, value)
	}
}

func (m *members) set(member *[]byte, name, value []byte) {
	if *member != nil && m.repeated == "" {
		m.repeated = string(name)
	}
	*member = value
}

// unquote returns what a JSON string says.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(gjson.ParseBytes(quoted).Str)
}

// isJSON tells whether a Content-Type is application/json or of its family.
func isJSON(contentType string) bool {
	if contentType == "application/json" { // as most say it
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json"))
}

func isEventStream(contentType string) bool {
	switch contentType { // as most say it
	case "text/event-stream":
		return true
	case "application/json":
		return false
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "text/event-stream"
}
