package modelstub

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// defaultDimensions is the length of an embedding unless the call says.
const defaultDimensions = 1536

func (j *job) embeddings() (reply, error) {
	inputs, size, err := readInputs("input", j.Input)
	if err != nil {
		return reply{}, err
	}
	if len(inputs) == 0 {
		return reply{}, missingParam("input")
	}
	if err := j.checkEmbeddings(len(inputs)); err != nil {
		return reply{}, err
	}
	j.prompt.bytes = size
	data := make([]object, len(inputs))
	for i, input := range inputs {
		data[i] = object{"object": "embedding", "index": i, "embedding": j.embed(input)}
	}
	tokens := j.prompt.tokens()
	body := encode(object{
		"object": "list", "data": data, "model": j.model, "x_stub": unknownField,
		"usage": object{"prompt_tokens": tokens, "total_tokens": tokens},
	})
	return reply{id: requestID(j.id), contentType: typeJSON, body: body, promptTokens: tokens}, nil
}

func (j *job) dimensions() int {
	if j.Dimensions == nil {
		return defaultDimensions
	}
	return *j.Dimensions
}

func (j *job) checkEmbeddings(inputs int) error {
	if f := j.EncodingFormat; f != "" && f != "float" && f != "base64" {
		return badRequest("encoding_format", fmt.Sprintf("Invalid value for 'encoding_format': %q, want float or base64.", clip(f)))
	}
	if inputs*j.dimensions() > maxFloats {
		return badRequest("input", fmt.Sprintf("Inputs times dimensions is %d: want at most %d.", inputs*j.dimensions(), maxFloats))
	}
	return nil
}

// embed returns a vector of length one, or its bytes in base64. It follows from the input alone, so
// that equal inputs have equal embeddings in every call.
func (j *job) embed(input json.RawMessage) any {
	r := newDigest(0, j.model, input).rand(0)
	v := make([]float32, j.dimensions())
	var sum float64
	for i := range v {
		x := r.NormFloat64()
		v[i] = float32(x)
		sum += float64(x * x) // converted, so that no machine fuses the two and rounds differently
	}
	norm := float32(math.Sqrt(max(sum, math.SmallestNonzeroFloat32)))
	for i := range v {
		v[i] /= norm
	}
	if j.EncodingFormat != "base64" {
		return v
	}
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
