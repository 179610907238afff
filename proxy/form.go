package proxy

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
)

const (
	maxFormParts = 1000
	maxFormField = 1 << 10 // bytes of a field that routing needs
)

var errForm = errors.New("not a form")

// formBoundary returns the boundary of multipart/form-data, "" for other types.
func formBoundary(contentType string) string {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != "multipart/form-data" {
		return ""
	}
	return params["boundary"]
}

// inspectForm reads the fields model and stream of multipart/form-data, as inspect
// does those of JSON.
func inspectForm(body []byte, boundary string) (requestInfo, *failure) {
	fields, err := formFields(body, boundary)
	if err != nil {
		f := invalidRequest(http.StatusBadRequest, "invalid_form", "The request body is not valid multipart/form-data, "+
			"or has the field model or stream twice.")
		f.cause = err
		return requestInfo{}, f
	}
	return requestInfo{model: fields["model"], stream: fields["stream"] == "true"}, nil
}

// formFields returns the fields of a form that routing needs.
func formFields(body []byte, boundary string) (map[string]string, error) {
	fields := make(map[string]string, 2)
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxFormParts {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return fields, nil
		}
		if err != nil {
			return nil, err
		}
		name := part.FormName()
		if name != "model" && name != "stream" {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, maxFormField+1))
		if _, twice := fields[name]; err != nil || twice || len(value) > maxFormField {
			return nil, errors.Join(err, errForm)
		}
		fields[name] = string(value)
	}
	return nil, errForm
}
