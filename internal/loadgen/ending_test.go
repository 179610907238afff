package loadgen

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const big = 1 << 20

func TestStreamEnd(t *testing.T) {
	chunk := func(reason string) string {
		return `data: {"choices":[{"delta":{},"finish_reason":` + reason + `}]}` + "\n\n"
	}
	for name, c := range map[string]struct {
		in   string
		want verdict
	}{
		"nothing":                     {"", unfinished},
		"done":                        {"data: [DONE]\n\n", finished},
		"done without its blank line": {"data: [DONE]\n", finished},
		"done without a line end":     {"data: [DONE]", finished},
		"done without a space":        {"data:[DONE]\n\n", finished},
		"done with CR LF":             {"data: x\r\n\r\ndata: [DONE]\r\n\r\n", finished},
		"done with CR":                {"data: x\r\rdata: [DONE]\r\r", finished},
		"done in a comment":           {": data: [DONE]\n\n", unfinished},
		"done in another field":       {"id: [DONE]\n\n", unfinished},
		"done among other data":       {"data: [DONE]\ndata: x\n\n", unfinished},
		"done as a text":              {`data: {"choices":[{"delta":{"content":"[DONE]"},"finish_reason":null}]}` + "\n\n", unfinished},
		"half of done":                {"data: [DON", unfinished},
		"finish reason":               {chunk(`"stop"`), finished},
		"finish reason of a later one": {
			`data: {"choices":[{"finish_reason":null},{"finish_reason": "length"}]}` + "\n\n", finished},
		"no finish reason yet":       {chunk("null"), unfinished},
		"empty finish reason":        {chunk(`""`), unfinished},
		"finish reason, then usage":  {chunk(`"stop"`) + "data: {\"choices\":[],\"usage\":{}}\n\n", finished},
		"finish reason in a text":    {`data: {"choices":[{"delta":{"content":"\"finish_reason\":\"stop\""}}]}` + "\n\n", unfinished},
		"half a finish":              {`data: {"choices":[{"delta":{},"finish_reason":"stop"`, unfinished},
		"over several lines":         {"data: {\"choices\":\ndata: [{\"finish_reason\":\ndata: \"stop\"}]}\n\n", finished},
		"comments around":            {": ping\n: ping\n\n" + chunk(`"stop"`) + ": bye\n", finished},
		"response completed":         {"event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n", finished},
		"completed by type alone":    {`data: {"type":"response.completed","response":{"error":null}}` + "\n\n", finished},
		"response incomplete":        {`data: {"type":"response.incomplete"}` + "\n\n", finished},
		"response failed":            {`data: {"type":"response.failed","response":{"error":{}}}` + "\n\n", failed},
		"response begun":             {`data: {"type":"response.created","response":{"error":null}}` + "\n\n", unfinished},
		"completed in a text":        {`data: {"type":"response.output_text.delta","delta":"response.completed"}` + "\n\n", unfinished},
		"error event":                {`data: {"error":{"message":"x"}}` + "\n\n", failed},
		"error as a string":          {`data: {"error":"x"}` + "\n\n", failed},
		"no error":                   {`data: {"error":null,"choices":[{"finish_reason":"stop"}]}` + "\n\n", finished},
		"error type":                 {`data: {"type":"error","message":"x"}` + "\n\n", failed},
		"error, then done":           {`data: {"error":{}}` + "\n\ndata: [DONE]\n\n", failed},
		"named error":                {"event: error\ndata: x\n\n", failed},
		"huge event, then done":      {"data: " + strings.Repeat("x", big) + "\n\ndata: [DONE]\n\n", finished},
		"huge event only":            {"data: " + strings.Repeat("x", big) + "\n\n", unfinished},
		"huge completed":             {"event: response.completed\ndata: {\"a\":\"" + strings.Repeat("x", big) + "\"}\n\n", finished},
		"many lines of one event":    {strings.Repeat("data: "+strings.Repeat("y", 999)+"\n", big/1000) + "\ndata: [DONE]\n\n", finished},
		"no JSON":                    {"data: {\"finish_reason\":\"\n\n", unfinished},
		"choices of another type":    {"data: {\"choices\":7,\"finish_reason\":\"stop\"}\n\n", unfinished},
		"finish_reason out of place": {"data: {\"finish_reason\":\"stop\"}\n\n", unfinished},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"at once":       strings.NewReader(c.in),
				"byte for byte": iotest.OneByteReader(strings.NewReader(c.in)),
			} {
				s := &streamEnd{}
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

func TestStreamEndKeepsLittle(t *testing.T) {
	s := &streamEnd{}
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

func TestDocumentEnd(t *testing.T) {
	for in, want := range map[string]verdict{
		``: unfinished, `{`: unfinished, `{}`: finished, ` {"a":[1,2]} ` + "\n": finished, `[]`: finished,
		`{"a":"}"`: unfinished, `{"a":"}"}`: finished, `{"a":"\"}`: unfinished, `{"a":"\"}"}`: finished,
		`{"a":"\\"}`: finished, `{"a":{}`: unfinished, `}`: unfinished, `"text"`: unfinished, `true`: unfinished, `{}{`: unfinished,
	} {
		for how, r := range map[string]io.Reader{
			"at once": strings.NewReader(in), "byte for byte": iotest.OneByteReader(strings.NewReader(in)),
		} {
			d := &documentEnd{}
			if _, err := io.Copy(struct{ io.Writer }{d}, r); err != nil {
				t.Fatal(err)
			}
			if got := d.Close(); got != want {
				t.Errorf("%s %s: verdict %d, want %d", in, how, got, want)
			}
		}
	}
}

func FuzzStreamEnd(f *testing.F) {
	f.Add(stream, 3)
	f.Add("data: {\"error\":{}}\r\n\r\ndata: [DONE]", 1)
	f.Add("event: response.failed\rdata: x\r\r", 5)
	f.Fuzz(func(t *testing.T, in string, piece int) {
		whole := &streamEnd{}
		_, _ = whole.Write([]byte(in))
		parts := &streamEnd{}
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
