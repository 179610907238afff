package modelstub

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// toolCall is a call that the stub makes up.
type toolCall struct {
	Name      string
	Arguments string // JSON
}

// tool is a tool description in either shape: chat completions nest the
// function, responses do not.
type tool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Function   struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// toolChoice is the object form of tool_choice in either shape.
type toolChoice struct {
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// toolCallFor returns the call that a request leads to, or nil. A tool is
// called when tool_choice forces it, or when the user spoke last and asked to
// "call NAME", "use NAME", or to call or use "a tool" or "the tool".
func toolCallFor(req *request, asked string) *toolCall {
	functions := readFunctions(req.Tools)
	if len(functions) == 0 {
		return nil
	}
	mode, name := readToolChoice(req.ToolChoice)
	if mode == "none" {
		return nil
	}
	for _, f := range functions {
		if f.Name == name || (name == "" && (mode == "required" || requestsTool(asked, f.Name))) {
			return &toolCall{Name: f.Name, Arguments: argumentsFor(f.Parameters)}
		}
	}
	return nil
}

// readFunctions returns the function tools; of other kinds, and of what cannot
// be read, the stub has no use.
func readFunctions(raw []json.RawMessage) []tool {
	var functions []tool
	for _, r := range raw {
		var t tool
		if json.Unmarshal(r, &t) != nil || t.Type != "function" {
			continue
		}
		if t.Name == "" {
			t.Name, t.Parameters = t.Function.Name, t.Function.Parameters
		}
		if t.Name != "" {
			functions = append(functions, t)
		}
	}
	return functions
}

func readToolChoice(raw json.RawMessage) (mode, name string) {
	if json.Unmarshal(raw, &mode) == nil {
		return mode, ""
	}
	var choice toolChoice
	if json.Unmarshal(raw, &choice) != nil {
		return "", ""
	}
	if choice.Name != "" {
		return "", choice.Name
	}
	return "", choice.Function.Name
}

func requestsTool(asked, name string) bool {
	asked = strings.ToLower(asked)
	for _, verb := range []string{"call ", "use "} {
		for _, object := range []string{strings.ToLower(name), "a tool", "the tool"} {
			if strings.Contains(asked, verb+object) {
				return true
			}
		}
	}
	return false
}

// schema is the part of a JSON schema that sample arguments need.
type schema struct {
	Type       json.RawMessage            `json:"type"`
	Enum       []json.RawMessage          `json:"enum"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

// argumentsFor makes up arguments that have every required property.
func argumentsFor(parameters json.RawMessage) string {
	var s schema
	args := map[string]json.RawMessage{}
	if json.Unmarshal(parameters, &s) == nil {
		for _, name := range s.Required {
			args[name] = sampleFor(s.Properties[name])
		}
	}
	return string(encode(args)) // in the order of the names, so it repeats
}

func sampleFor(property json.RawMessage) json.RawMessage {
	var s schema
	if json.Unmarshal(property, &s) != nil {
		return json.RawMessage(`"stub"`)
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch string(s.Type) {
	case `"integer"`:
		return json.RawMessage(`1`)
	case `"number"`:
		return json.RawMessage(`1.5`)
	case `"boolean"`:
		return json.RawMessage(`true`)
	case `"array"`:
		return json.RawMessage(`[]`)
	case `"object"`:
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(`"stub"`)
}

// fragments splits arguments as a model streams them, between characters.
func (t *toolCall) fragments() []string {
	const size = 8
	var out []string
	for rest := t.Arguments; rest != ""; {
		cut := min(size, len(rest))
		for cut < len(rest) && !utf8.RuneStart(rest[cut]) {
			cut++
		}
		out, rest = append(out, rest[:cut]), rest[cut:]
	}
	return out
}

// tokens is how many output tokens the call costs.
func (t *toolCall) tokens() int { return max((len(t.Name)+len(t.Arguments))/bytesPerToken, 1) }
