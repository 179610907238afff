package modelstub

import (
	"encoding/json"
	"fmt"
)

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

// inputSize weighs one input: text by its bytes, a token number as
// bytesPerToken of them.
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
