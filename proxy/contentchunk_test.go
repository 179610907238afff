package proxy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// chunkCases are chunks of all kinds, with whether they are dull while choices
// 0 and 2 are open.
var chunkCases = map[string]bool{
	`{"id":"c","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`:                      true,
	`{"choices":[{"delta":{"content":"\"finish_reason\":\"stop\" \n\u00e4"},"index":2,"finish_reason":null}]}`: true,
	`{"choices":[{"text":"x"},{"text":"y","index":2}]}`:                                                        true,
	`{"choices":[{"delta":{"tool_calls":[{"index":9}]},"index":0}]}`:                                           true,
	`{"choices":[],"usage":{"total_tokens":1}}`:                                                                true,
	`{}`:                                                                      true,
	`{"choices":[{"index":1,"delta":{}}]}`:                                    false,
	`{"choices":[{"index":"0","delta":{}}]}`:                                  false,
	`{"choices":[{"index":12}]}`:                                              false,
	`{"choices":[{"index":0,"finish_reason":"stop"}]}`:                        false,
	`{"choices":[{"index":0,"finish_reason":""}]}`:                            false,
	`{"choices":[{"index":0,"finish\u005freason":"stop"}]}`:                   false,
	`{"choices":[{"index":0,"finish_reason":null,"finish_reason":"length"}]}`: false,
	`{"error":{"message":"overloaded"}}`:                                      false,
	`{"\u0065rror":"x","choices":[]}`:                                         false,
	`{"choices":[{"index":0,"finish_reason":"stop"}`:                          false,
	`{"choices":[{"index":0`:                                                  false,
}

func TestContentChunk(t *testing.T) {
	t.Parallel()
	var d contentChunk
	for chunk, want := range chunkCases {
		if got := d.matches([]byte(chunk), 0b101); got != want {
			t.Errorf("%s: dull %t, want %t", chunk, got, want)
		}
		if d.matches([]byte(chunk), 0b100) {
			t.Errorf("%s: dull although the first choice is not open", chunk)
		}
	}
}

// TestContentChunksChangeNothing looks closely at what counts as dull, chunks with
// bytes changed at random among them.
func TestContentChunksChangeNothing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	dull := 0
	for chunk := range chunkCases {
		for range 5000 {
			data := []byte(chunk)
			for range r.IntN(3) {
				data[1+r.IntN(len(data)-1)] = `"\{}[]:,01 naex`[r.IntN(15)]
			}
			if wantUnchanged(t, data, r.Uint64()|1) {
				dull++
			}
		}
	}
	if dull < 1000 {
		t.Errorf("only %d chunks were dull", dull)
	}
}

func wantUnchanged(t *testing.T, data []byte, open uint64) bool {
	t.Helper()
	s := sseEnd{protocol: protocolChoices, open: open}
	if !s.content.matches(data, open) {
		return false
	}
	s.inspectChunk(data)
	if s.open != open || s.finished != 0 || s.done || s.failureSeen {
		t.Fatalf("%q counts as dull, but changes open %b to %b, finished %b, done %t", data, open, s.open, s.finished, s.done)
	}
	return true
}

func FuzzContentChunk(f *testing.F) {
	for chunk := range chunkCases {
		f.Add([]byte(chunk), uint64(0b101))
	}
	f.Fuzz(func(t *testing.T, data []byte, open uint64) {
		if len(data) > 0 && data[0] == '{' {
			wantUnchanged(t, data, open)
		}
	})
}

func BenchmarkSSE(b *testing.B) {
	var stream strings.Builder
	for i := range 50 {
		fmt.Fprintf(&stream, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",`+
			`"choices":[{"index":0,"delta":{"content":" word%d"},"finish_reason":null}]}`+"\n\n", i)
	}
	text := []byte(stream.String())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		end := sseEnd{protocol: protocolChoices}
		_, _ = end.Write(text) // never fails
	}
}
