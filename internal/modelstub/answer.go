package modelstub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The endpoints.
const (
	pathModels      = "/v1/models"
	pathChat        = "/v1/chat/completions"
	pathCompletions = "/v1/completions"
	pathResponses   = "/v1/responses"
	pathEmbeddings  = "/v1/embeddings"
	pathOther       = "other"
)

// Content types of answers.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream; charset=utf-8"
)

// unknownField is added to every object, to show whether what a middleman does
// not know arrives as it was sent: its number and text have no second form
// that a JSON library would write.
var unknownField = json.RawMessage(`{"exact":1.50,"power":1e2,"text":"\u0073tub","none":null}`)

// pathLabel keeps what strangers ask for out of the statistics.
func pathLabel(path string) string {
	switch path {
	case pathModels, pathChat, pathCompletions, pathResponses, pathEmbeddings:
		return path
	}
	if strings.HasPrefix(path, pathModels+"/") {
		return pathModels
	}
	return pathOther
}

func isModelPath(path string) bool { return path != pathModels && path != pathOther }

// job is a request that has been read, on its way to an answer.
type job struct {
	*request
	id     digest
	model  string
	chunks int // asked for; 0 is not
	prompt prompt
}

// answer turns the request into a reply, or an error for the client.
func (c *call) answer() (reply, error) {
	if err := c.checkRoute(); err != nil {
		return reply{}, err
	}
	if c.path == pathModels {
		return c.models()
	}
	body, err := c.readBody()
	if err != nil {
		return reply{}, err
	}
	if c.stub.config.Tap != nil {
		c.stub.config.Tap(c.r, body)
	}
	j, err := c.readJob(body)
	if err != nil {
		return reply{}, err
	}
	if c.options.stream != nil {
		return c.options.stream.reply(j), nil
	}
	return j.answer(c.path)
}

func (c *call) checkRoute() error {
	want := http.MethodPost
	switch c.path {
	case pathOther:
		return &apiError{
			status:  http.StatusNotFound,
			message: fmt.Sprintf("Invalid URL (%s %s)", clip(c.r.Method), clip(c.r.URL.Path)),
		}
	case pathModels:
		want = http.MethodGet
	}
	if c.r.Method == want {
		return nil
	}
	return &apiError{
		status:  http.StatusMethodNotAllowed,
		message: fmt.Sprintf("Not allowed to %s on %s: use %s.", clip(c.r.Method), c.path, want),
		code:    "method_not_supported", allow: want,
	}
}

func (c *call) readJob(raw []byte) (*job, error) {
	config := c.stub.config
	body, err := decodeBody(c.r.Header.Get("Content-Encoding"), raw, config.MaxBody)
	if err != nil {
		return nil, err
	}
	req, err := parseRequest(body)
	if err != nil {
		return nil, err
	}
	if config.StrictModels && !slices.Contains(config.Models, req.Model) {
		return nil, modelNotFound(req.Model)
	}
	j := &job{request: req, id: newDigest(config.Seed, c.path, body), model: req.Model, chunks: c.options.chunks}
	if j.model == "" {
		j.model = config.Models[0]
	}
	return j, nil
}

func (j *job) answer(path string) (reply, error) {
	switch path {
	case pathChat:
		return j.chat()
	case pathCompletions:
		return j.completions()
	case pathResponses:
		return j.responses()
	default:
		return j.embeddings()
	}
}

func modelNotFound(model string) *apiError {
	return &apiError{
		status:  http.StatusNotFound,
		message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", clip(model)),
		code:    "model_not_found",
	}
}

func missingParam(param string) *apiError {
	e := badRequest(param, fmt.Sprintf("Missing required parameter: '%s'.", param))
	e.code = "missing_required_parameter"
	return e
}

// newTexts makes the choices of an answer.
func (j *job) newTexts(choices int) (texts []text, finish string) {
	tokens, finish := outputLength(j.id.rand(-1), j.request, choices)
	tokens = max(tokens, j.chunks)
	chunks := min(tokens, defaultChunks)
	if j.chunks > 0 {
		chunks = j.chunks
	}
	for i := range choices {
		texts = append(texts, newText(j.id.rand(i), tokens, chunks))
	}
	return texts, finish
}

func (j *job) newReply() reply {
	return reply{id: requestID(j.id), contentType: typeJSON, promptTokens: j.prompt.tokens()}
}

// sseFrame writes one server-sent event; an empty name is left out.
func sseFrame(name string, data []byte) []byte {
	var b []byte
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	b = append(append(b, "data: "...), data...)
	return append(b, "\n\n"...)
}

var doneEvent = []byte("data: [DONE]\n\n")
