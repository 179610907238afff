package strictyaml

import (
	"reflect"
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	type slo struct {
		Turnaround int `yaml:"turnaround"`
	}
	type pool struct {
		Name            string `yaml:"name"`
		Workers         int    `yaml:"workers"`
		StreamKeepalive int    `yaml:"stream_keepalive"`
		SLO             slo    `yaml:"slo"`
	}
	type file struct {
		Listen string `yaml:"listen"`
		Pools  []pool `yaml:"pools"`
	}
	d := NewDecoder("f")
	d.root = reflect.TypeFor[file]()
	known := []Field{{Name: "name"}, {Name: "workers"}, {Name: "stream_keepalive"}, {Name: "slo"}}
	for key, want := range map[string]string{
		"wokers": "did you mean workers?", "Workers": "did you mean workers?",
		"streamKeepalive":  "did you mean stream_keepalive?",
		"stream-keepalive": "did you mean stream_keepalive?", "turnaround": "it belongs under pools[].slo",
		"listen": "it belongs under the top level", "zzzz": "known here: name, workers, stream_keepalive, slo",
	} {
		if got := d.suggest(key, known); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("%q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
