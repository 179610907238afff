package proxy

import (
	"mime"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// maxNesting is how deep JSON may nest; encoding/json stops at the same depth.
const maxNesting = 10000

// wanted is what the proxy has to know of a request body.
type wanted struct {
	model  string
	stream bool
}

// inspect looks into a JSON request body. A repeated key is refused: which of
// the two counts differs from parser to parser, and the gate must not route by
// one what the upstream serves by the other.
func inspect(body []byte) (wanted, *failure) {
	if nestsDeeper(body, maxNesting) {
		return wanted{}, invalid(http.StatusBadRequest, "invalid_json", "The request body nests deeper than %d levels.", maxNesting)
	}
	if !gjson.ValidBytes(body) {
		return wanted{}, invalid(http.StatusBadRequest, "invalid_json", "The request body is not valid JSON.")
	}
	root := gjson.ParseBytes(body)
	if !root.IsObject() {
		return wanted{}, invalid(http.StatusBadRequest, "invalid_json", "The request body must be a JSON object.")
	}
	var model, stream gjson.Result
	repeated := ""
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "model":
			if model.Exists() {
				repeated = key.Str
			}
			model = value
		case "stream":
			if stream.Exists() {
				repeated = key.Str
			}
			stream = value
		}
		return repeated == ""
	})
	if repeated != "" {
		return wanted{}, invalid(http.StatusBadRequest, "invalid_json", "The request body has the key %q twice.", repeated)
	}
	if model.Type != gjson.String || model.Str == "" {
		return wanted{}, invalid(http.StatusBadRequest, "model_required", "You must provide a model parameter: a non-empty string.")
	}
	return wanted{model: model.Str, stream: stream.Type == gjson.True}, nil
}

// isJSON tells whether a Content-Type is application/json or of its family.
func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json"))
}

func isEventStream(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "text/event-stream"
}
