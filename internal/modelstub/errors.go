package modelstub

import (
	"errors"
	"net/http"
)

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
	e := &apiError{status: status, message: "The stub was asked to fail this call.", code: "stub_fault"}
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

type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *apiError) body() []byte {
	return encode(errorBody{errorDetail{e.message, e.kind(), orNull(e.param), orNull(e.code)}})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
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
