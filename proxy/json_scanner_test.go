package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// jsonCases are JSON and what is almost JSON.
var jsonCases = []string{
	``, ` `, `{}`, `[]`, `[1]`, `{"a":1}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{"a" : [ ] , "b" : { } }`,
	`{a:1}`, `{1:1}`, `[1 2]`, `{"a":1 "b":2}`, `[}`, `{]`, `[[]`, `[]]`, `{}{}`, `1 2`, ` null `, `nul`, `nulll`, `true`, `tru`, `false`, `falsy`,
	`0`, `-0`, `00`, `01`, `-`, `-1`, `+1`, `1.`, `.5`, `1.5`, `1e`, `1e+`, `1e5`, `1E-5`, `1e5.5`, `0x1`, `1a`, `NaN`,
	`""`, `"`, `"a`, `"\`, `"\"`, `"\\"`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\uD83d\uDE00"`, `"\u0000"`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\xfe\"", "\"a\nb\"", "\"a\tb\"",
	`"1234567"`, `"12345678"`, `"123456789012345"`, `"1234567\n"`, `"12345678\"12345678"`, "\"1234567\n\"", "\"123456789\x01\"", `"ÄÖÜäöüß€"`, "\"\x80\x80\x80\x80\x80\x80\x80\x80\"",
	"\x00", "{}\x00", "\ufeff{}", "\v{}", "{\"a\":1}\n\t\r ", `{"a":{"b":[1,{"c":"}"}]},"d":"]"}`,
}

func validByStdlib(text string) bool {
	j := jsonScanner{text: []byte(text), member: func(int, []byte, []byte) {}}
	return j.scan() == nil
}

func TestJSONTextAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range jsonCases {
		if got, want := validByStdlib(text), json.Valid([]byte(text)); got != want {
			t.Errorf("%q: valid %t, want %t", text, got, want)
		}
		for pad := range 9 { // so that everything comes at every place of eight
			padded := `["` + strings.Repeat("x", pad) + `",` + text + `]`
			if got, want := validByStdlib(padded), json.Valid([]byte(padded)); got != want {
				t.Errorf("%q: valid %t, want %t", padded, got, want)
			}
		}
	}
}

func TestJSONTextMembers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		` { "a" : 1 , "b":[1,{"x":2}],"c" :{"y":{}}, "d":"e\"", "\u0061": null } `: {
			`1 "a"=1`, `3 "x"=2`, `1 "b"=[1,{"x":2}]`, `2 "y"={}`, `1 "c"={"y":{}}`, `1 "d"="e\""`, `1 "\u0061"=null`,
		},
		`{}`:                              nil,
		`[{"a":1},{"b":[[{"c":[]}]]}]`:    {`2 "a"=1`, `2 "b"=[[{"c":[]}]]`},
		`"a"`:                             nil,
		`{"a":{"a":{"a":{"a":1}},"b":0}}`: {`3 "a"={"a":1}`, `2 "a"={"a":{"a":1}}`, `2 "b"=0`, `1 "a"={"a":{"a":{"a":1}},"b":0}`},
	} {
		var got []string
		j := jsonScanner{text: []byte(text), member: func(level int, k, v []byte) { got = append(got, fmt.Sprintf("%d %s=%s", level, k, v)) }}
		if err := j.scan(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: members (-want +got):\n%s", text, diff)
		}
	}
}

func TestJSONTextDepth(t *testing.T) {
	t.Parallel()
	for _, side := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {`[{"a":`, "}]"}} {
		levels := strings.Count(side[0], "[") + strings.Count(side[0], "{")
		nested := func(depth int) string {
			return strings.Repeat(side[0], depth/levels) + "1" + strings.Repeat(side[1], depth/levels)
		}
		if !validByStdlib(nested(maxNesting)) {
			t.Errorf("%s nested as deep as may be is not valid", side[0])
		}
		j := jsonScanner{text: []byte(nested(maxNesting + levels)), member: func(int, []byte, []byte) {}}
		if err := j.scan(); err != errTooDeep {
			t.Errorf("%s nested deeper: %v, want %v", side[0], err, errTooDeep)
		}
	}
	if deep := strings.Repeat(`[{"a":`, 100) + "1" + strings.Repeat("]}", 100); validByStdlib(deep) {
		t.Error("brackets closed in the wrong order count as valid")
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want requestInfo
		code string // of the failure
		says string
	}{
		{body: `{"model":"m"}`, want: requestInfo{model: "m"}},
		{body: ` {"stream":true,"model":"m/ü"}`, want: requestInfo{model: "m/ü", stream: true}},
		{body: `{"stream":false,"model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"stream":"true","model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"\u006dodel":"a\"\u0062"}`, want: requestInfo{model: `a"b`}},
		{body: `{"messages":[{"model":"x","stream":true}],"model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"Model":"x","model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"model":"m","model":"m"}`, code: "invalid_json", says: `"model" twice`},
		{body: `{"model":"m","\u006dodel":"n"}`, code: "invalid_json", says: `"model" twice`},
		{body: `{"stream":true,"model":"m","str\u0065am":null}`, code: "invalid_json", says: `"stream" twice`},
		{body: `{"stream":1,"model":"m","model":1,"stream":1}`, code: "invalid_json", says: `"model" twice`},
		{body: `{"model":"m","model":"n"`, code: "invalid_json", says: "not valid JSON"},
		{body: `["model"]`, code: "invalid_json", says: "must be a JSON object"},
		{body: `"{"`, code: "invalid_json", says: "must be a JSON object"},
		{body: ``, code: "invalid_json", says: "not valid JSON"},
		{body: `{"model":""}`, code: "model_required"},
		{body: `{"model":7}`, code: "model_required"},
		{body: `{"model":null}`, code: "model_required"},
		{body: `{"model":["m"]}`, code: "model_required"},
		{body: `{}`, code: "model_required"},
		{body: `{"model":` + strings.Repeat("[", maxNesting), code: "invalid_json", says: "nests deeper"},
	} {
		got, f := inspect([]byte(c.body))
		if got != c.want {
			t.Errorf("%.60s: %+v, want %+v", c.body, got, c.want)
		}
		switch {
		case (f != nil) != (c.code != ""):
			t.Errorf("%.60s: failure %v", c.body, f)
		case f != nil && (f.code != c.code || f.status != 400 || !strings.Contains(f.message, c.says)):
			t.Errorf("%.60s: %d %s %q, want 400 %s saying %q", c.body, f.status, f.code, f.message, c.code, c.says)
		}
	}
}

// FuzzJSONText holds the one pass against two parsers: encoding/json on what is
// valid, gjson on the members.
func FuzzJSONText(f *testing.F) {
	for _, text := range jsonCases {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"a \"long\" text, longer than eight\n"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want []string
		j := jsonScanner{text: text, member: func(level int, k, v []byte) {
			if level == 1 {
				got = append(got, string(k), string(v))
			}
		}}
		err := j.scan()
		if valid := json.Valid(text); err != errTooDeep && valid != (err == nil) {
			t.Fatalf("%q: %v, but encoding/json says %t", text, err, valid)
		}
		if root := gjson.ParseBytes(text); err == nil && root.IsObject() {
			root.ForEach(func(k, v gjson.Result) bool {
				want = append(want, k.Raw, v.Raw)
				return true
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q: members (-gjson +ours):\n%s", text, diff)
			}
		}
	})
}

func BenchmarkInspect(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("total = total + price[i]; ", 160) + `"}],"max_tokens":256}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, f := inspect(body); f != nil {
			b.Fatal(f)
		}
	}
}
