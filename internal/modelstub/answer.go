package modelstub

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
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

// unknownField is added to every object, to test that a proxy forwards unknown fields
// unchanged: a JSON library would write its number and text in another form.
var unknownField = json.RawMessage(`{"exact":1.50,"power":1e2,"text":"\u0073tub","none":null}`)

// pathLabel keeps arbitrary paths out of the statistics.
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

// job is a request that has been read and must be answered.
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

func (j *job) newReply(o *output, body []byte) reply {
	return reply{
		id: requestID(j.id), contentType: typeJSON, body: body,
		promptTokens: j.prompt.tokens(), outputTokens: o.tokens(),
	}
}

func (j *job) newStreamReply(o *output, s stream) reply {
	r := j.newReply(o, nil)
	r.contentType, r.stream = typeEvents, s
	return r
}

// sseFrame writes one server-sent event; an empty name is left out.
func sseFrame(name string, data []byte) []byte {
	if name != "" {
		name = "event: " + name + "\n"
	}
	return fmt.Appendf(nil, "%sdata: %s\n\n", name, data)
}

var doneEvent = []byte("data: [DONE]\n\n")

// models answers GET /v1/models and GET /v1/models/{id}, at once and without a
// slot.
func (c *call) models() (reply, error) {
	config := c.stub.config
	r := reply{
		id:          requestID(newDigest(config.Seed, c.r.URL.Path, nil)),
		contentType: typeJSON, noSlot: true,
	}
	if c.r.URL.Path == pathModels {
		list := []object{}
		for _, name := range config.Models {
			list = append(list, modelInfo(name))
		}
		r.body = encode(object{"object": "list", "data": list})
		return r, nil
	}
	name := strings.TrimPrefix(c.r.URL.Path, pathModels+"/")
	if !slices.Contains(config.Models, name) {
		return reply{}, modelNotFound(name)
	}
	r.body = encode(modelInfo(name))
	return r, nil
}

func modelInfo(name string) object {
	return object{"id": name, "object": "model", "created": createdBase, "owned_by": "modelstub"}
}

// digest is what an answer's bytes follow from: a digest of the seed, the path
// and the decoded request body.
type digest [sha256.Size]byte

// createdBase is the least creation time that an answer carries, in Unix seconds.
const createdBase = 1_700_000_000

func newDigest(seed uint64, path string, body []byte) digest {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, seed))
	h.Write([]byte(path))
	h.Write([]byte{0}) // so that a path's end and a body's start cannot be confused
	h.Write(body)
	return digest(h.Sum(nil))
}

// name returns an identifier such as "chatcmpl-5f2a…".
func (id digest) name(prefix string) string { return prefix + hex.EncodeToString(id[:12]) }

// created returns a creation time in Unix seconds.
func (id digest) created() int64 {
	return createdBase + int64(binary.BigEndian.Uint32(id[12:])%(1<<25))
}

// rand returns a generator for one part of the answer, such as a choice.
func (id digest) rand(part int) *rand.Rand {
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(id[16:]), splitMix64(uint64(part))))
}

func requestID(id digest) string { return id.name("req_") }

// splitMix64 spreads consecutive numbers over all 64 bits (the finaliser of
// SplitMix64, Steele, Lea and Flood, 2014).
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// callID names the tool call of one choice.
func (id digest) callID(choice int) string { return id.name("call_") + strconv.Itoa(choice) }

// apiError is an answer in OpenAI's error shape.
type apiError struct {
	status  int
	message string
	param   string // "" is null
	code    string // "" is null
	allow   string // for 405
}

// Error returns the message that the client sees.
func (e *apiError) Error() string { return e.message }

func badRequest(param, message string) *apiError {
	return &apiError{status: http.StatusBadRequest, message: message, param: param}
}

// faultError is the answer of an injected status.
func faultError(status int) *apiError {
	e := &apiError{status: status, message: "The stub was configured to fail this call.", code: "stub_fault"}
	if status == http.StatusTooManyRequests {
		e.code = "rate_limit_exceeded"
	}
	return e
}

func (e *apiError) kind() string {
	switch {
	case e.status == http.StatusUnauthorized:
		return "authentication_error"
	case e.status == http.StatusForbidden:
		return "permission_error"
	case e.status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

func (e *apiError) body() []byte {
	detail := object{"message": e.message, "type": e.kind(), "param": nil, "code": nil}
	if e.param != "" {
		detail["param"] = e.param
	}
	if e.code != "" {
		detail["code"] = e.code
	}
	return encode(object{"error": detail})
}

// reject answers with an error of the stub's own, or not at all when the
// client has left.
func (c *call) reject(err error) outcome {
	var api *apiError
	if !errors.As(err, &api) {
		return outcomeOf(err)
	}
	c.finish(rejected)
	if api.allow != "" {
		c.w.Header().Set("Allow", api.allow)
	}
	c.writeError(api)
	return rejected
}

func (c *call) writeError(e *apiError) {
	h := c.w.Header()
	setCommonHeaders(h, requestID(newDigest(c.stub.config.Seed, c.path, []byte(e.message))))
	h.Set("Content-Type", "application/json")
	c.w.WriteHeader(e.status)
	_, _ = c.w.Write(e.body()) // the call is over; a client that left does not change that
}
