package loadgen

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const big = 1 << 20

func TestSSECompletion(t *testing.T) {
	chunk := func(reason string) string {
		return `data: {"choices":[{"delta":{},"finish_reason":` + reason + `}]}` + "\n\n"
	}
	for name, c := range map[string]struct {
		in   string
		want verdict
	}{
		"nothing":                     {"", incomplete},
		"done":                        {"data: [DONE]\n\n", complete},
		"done without its blank line": {"data: [DONE]\n", complete},
		"done without a line end":     {"data: [DONE]", complete},
		"done without a space":        {"data:[DONE]\n\n", complete},
		"done with CR LF":             {"data: x\r\n\r\ndata: [DONE]\r\n\r\n", complete},
		"done with CR":                {"data: x\r\rdata: [DONE]\r\r", complete},
		"done in a comment":           {": data: [DONE]\n\n", incomplete},
		"done in another field":       {"id: [DONE]\n\n", incomplete},
		"done among other data":       {"data: [DONE]\ndata: x\n\n", incomplete},
		"done as a text":              {`data: {"choices":[{"delta":{"content":"[DONE]"},"finish_reason":null}]}` + "\n\n", incomplete},
		"half of done":                {"data: [DON", incomplete},
		"finish reason":               {chunk(`"stop"`), complete},
		"finish reason of a later one": {
			`data: {"choices":[{"finish_reason":null},{"finish_reason": "length"}]}` + "\n\n", complete},
		"no finish reason yet":       {chunk("null"), incomplete},
		"empty finish reason":        {chunk(`""`), incomplete},
		"finish reason, then usage":  {chunk(`"stop"`) + "data: {\"choices\":[],\"usage\":{}}\n\n", complete},
		"finish reason in a text":    {`data: {"choices":[{"delta":{"content":"\"finish_reason\":\"stop\""}}]}` + "\n\n", incomplete},
		"half a finish":              {`data: {"choices":[{"delta":{},"finish_reason":"stop"`, incomplete},
		"over several lines":         {"data: {\"choices\":\ndata: [{\"finish_reason\":\ndata: \"stop\"}]}\n\n", complete},
		"comments around":            {": ping\n: ping\n\n" + chunk(`"stop"`) + ": bye\n", complete},
		"response completed":         {"event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n", complete},
		"completed by type alone":    {`data: {"type":"response.completed","response":{"error":null}}` + "\n\n", complete},
		"response incomplete":        {`data: {"type":"response.incomplete"}` + "\n\n", complete},
		"response failed":            {`data: {"type":"response.failed","response":{"error":{}}}` + "\n\n", reportedError},
		"response begun":             {`data: {"type":"response.created","response":{"error":null}}` + "\n\n", incomplete},
		"completed in a text":        {`data: {"type":"response.output_text.delta","delta":"response.completed"}` + "\n\n", incomplete},
		"error event":                {`data: {"error":{"message":"x"}}` + "\n\n", reportedError},
		"error as a string":          {`data: {"error":"x"}` + "\n\n", reportedError},
		"no error":                   {`data: {"error":null,"choices":[{"finish_reason":"stop"}]}` + "\n\n", complete},
		"error type":                 {`data: {"type":"error","message":"x"}` + "\n\n", reportedError},
		"error, then done":           {`data: {"error":{}}` + "\n\ndata: [DONE]\n\n", reportedError},
		"named error":                {"event: error\ndata: x\n\n", reportedError},
		"huge event, then done":      {"data: " + strings.Repeat("x", big) + "\n\ndata: [DONE]\n\n", complete},
		"huge event only":            {"data: " + strings.Repeat("x", big) + "\n\n", incomplete},
		"huge completed":             {"event: response.completed\ndata: {\"a\":\"" + strings.Repeat("x", big) + "\"}\n\n", complete},
		"many lines of one event":    {strings.Repeat("data: "+strings.Repeat("y", 999)+"\n", big/1000) + "\ndata: [DONE]\n\n", complete},
		"no JSON":                    {"data: {\"finish_reason\":\"\n\n", incomplete},
		"choices of another type":    {"data: {\"choices\":7,\"finish_reason\":\"stop\"}\n\n", incomplete},
		"finish_reason out of place": {"data: {\"finish_reason\":\"stop\"}\n\n", incomplete},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"at once":       strings.NewReader(c.in),
				"byte for byte": iotest.OneByteReader(strings.NewReader(c.in)),
			} {
				s := &sseCompletion{}
				if _, err := io.Copy(struct{ io.Writer }{s}, r); err != nil {
					t.Fatal(err)
				}
				if got := s.Close(); got != c.want {
					t.Errorf("%s: verdict %d, want %d", how, got, c.want)
				}
			}
		})
	}
}

func TestSSECompletionMemoryIsBounded(t *testing.T) {
	s := &sseCompletion{}
	for range 100 {
		_, _ = s.Write([]byte("data: " + strings.Repeat("x", maxEvent/4)))
	}
	for range 100 {
		_, _ = s.Write([]byte("\ndata: " + strings.Repeat("x", maxEvent/4)))
	}
	if n := cap(s.line) + cap(s.data); n > 4*maxEvent {
		t.Errorf("keeps %d bytes of an endless event, want a few times %d at most", n, maxEvent)
	}
}

func TestJSONCompletion(t *testing.T) {
	for in, want := range map[string]verdict{
		``: incomplete, `{`: incomplete, `{}`: complete, ` {"a":[1,2]} ` + "\n": complete, `[]`: complete,
		`{"a":"}"`: incomplete, `{"a":"}"}`: complete, `{"a":"\"}`: incomplete, `{"a":"\"}"}`: complete,
		`{"a":"\\"}`: complete, `{"a":{}`: incomplete, `}`: incomplete, `"text"`: incomplete, `true`: incomplete, `{}{`: incomplete,
	} {
		for how, r := range map[string]io.Reader{
			"at once": strings.NewReader(in), "byte for byte": iotest.OneByteReader(strings.NewReader(in)),
		} {
			d := &jsonCompletion{}
			if _, err := io.Copy(struct{ io.Writer }{d}, r); err != nil {
				t.Fatal(err)
			}
			if got := d.Close(); got != want {
				t.Errorf("%s %s: verdict %d, want %d", in, how, got, want)
			}
		}
	}
}

func FuzzSSECompletion(f *testing.F) {
	f.Add(stream, 3)
	f.Add("data: {\"error\":{}}\r\n\r\ndata: [DONE]", 1)
	f.Add("event: response.failed\rdata: x\r\r", 5)
	f.Fuzz(func(t *testing.T, in string, piece int) {
		whole := &sseCompletion{}
		_, _ = whole.Write([]byte(in))
		parts := &sseCompletion{}
		piece = max(1, piece)
		for rest := in; rest != ""; {
			n := min(piece, len(rest))
			_, _ = parts.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		a, b := whole.Close(), parts.Close()
		if a != b {
			t.Fatalf("verdict %d at once and %d in pieces of %d", a, b, piece)
		}
	})
}
