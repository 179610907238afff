package loadgen

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestPromptSizes(t *testing.T) {
	p, err := newBodyBuilder(DefaultEndpoint, "m", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a    Arrival
		want int // bytes of prompt
	}{
		{Arrival{}, 4}, {Arrival{PromptTokens: 1}, 4}, {Arrival{PromptTokens: 720, Large: true}, 2880},
		{Arrival{PromptTokens: promptBlock/4 + 1}, promptBlock + 4}, {Arrival{PromptTokens: MaxTokens, OutputTokens: 7}, 4 * MaxTokens},
	} {
		body, length := p.body(c.a, "")
		text, err := io.ReadAll(body)
		if err != nil || int64(len(text)) != length {
			t.Fatalf("%+v: read %d bytes, %v, want %d", c.a, len(text), err, length)
		}
		var got struct {
			Messages  []struct{ Content string }
			MaxTokens *int `json:"max_tokens"`
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%+v: %v", c.a, err)
		}
		content := got.Messages[0].Content
		opening := smallText
		if c.a.Large {
			opening = largeText
		}
		opening = opening[:min(len(opening), c.want)]
		if len(content) != c.want || !strings.HasPrefix(content, opening) {
			t.Errorf("%+v: prompt of %d bytes %.40q, want %d that begin with %.40q", c.a, len(content), content, c.want, opening)
		}
		if (got.MaxTokens == nil) != (c.a.OutputTokens == 0) || got.MaxTokens != nil && *got.MaxTokens != c.a.OutputTokens {
			t.Errorf("%+v: max_tokens %v", c.a, got.MaxTokens)
		}
	}
}

func TestABodyReadsTheSameInAnyPieces(t *testing.T) {
	p, err := newBodyBuilder(responsesPath, "m", true)
	if err != nil {
		t.Fatal(err)
	}
	a := Arrival{PromptTokens: promptBlock/4 + 9, OutputTokens: 3}
	whole, _ := p.body(a, "")
	want, err := io.ReadAll(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 7, 4096, 1 << 20} {
		body, _ := p.body(a, "")
		var got []byte
		piece := make([]byte, size)
		for {
			n, err := body.Read(piece)
			got = append(got, piece[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("read %d, %v", n, err)
			}
		}
		if string(got) != string(want) {
			t.Errorf("in pieces of %d it reads differently", size)
		}
	}
}

// A user makes two requests differ that ask for the same.
func TestUserIsInTheBody(t *testing.T) {
	for _, endpoint := range []string{DefaultEndpoint, completionsPath, responsesPath, embeddingsPath} {
		p, err := newBodyBuilder(endpoint, "m", endpoint != embeddingsPath)
		if err != nil {
			t.Fatal(err)
		}
		body, length := p.body(Arrival{PromptTokens: 9}, `task "1"`)
		text, err := io.ReadAll(body)
		var got struct{ User, Model string }
		if err != nil || int64(len(text)) != length || json.Unmarshal(text, &got) != nil || got.User != `task "1"` || got.Model != "m" {
			t.Errorf("%s: read %s, %v", endpoint, text[:min(len(text), 100)], err)
		}
	}
}
