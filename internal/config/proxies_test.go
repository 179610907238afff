package config

import (
	"strings"
	"testing"

	"golang.org/x/net/http/httpproxy"
)

func TestProxiesOfTheEnvironment(t *testing.T) {
	c := Default()
	c.Pools = append(c.Pools, DefaultPool(), DefaultPool())
	c.Pools[1].Name, c.Pools[1].Upstream = "far", "https://models.example.com/v1"
	c.Pools[2].Name, c.Pools[2].Upstream = "near", "http://vllm.internal:8000/v1"
	for name, test := range map[string]struct {
		env  httpproxy.Config
		want []string // parts of the text; none: no text
	}{
		"none": {httpproxy.Config{}, nil},
		"for https": {httpproxy.Config{HTTPSProxy: "http://user:" + secretMarker + "@proxy:3128"},
			[]string{"default reaches http://127.0.0.1:8080 directly", "far reaches https://models.example.com by http://user:xxxxx@proxy:3128",
				"near reaches http://vllm.internal:8000 directly"}},
		"for http, with exceptions": {httpproxy.Config{HTTPProxy: "proxy:80", NoProxy: ".internal"},
			[]string{"default reaches http://127.0.0.1:8080 directly", "far reaches https://models.example.com directly",
				"near reaches http://vllm.internal:8000 directly"}},
		"for http": {httpproxy.Config{HTTPProxy: "proxy:80"}, []string{"near reaches http://vllm.internal:8000 by http://proxy:80"}},
	} {
		var out strings.Builder
		if err := c.WriteProxies(&out, &test.env); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, part := range test.want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in %s", name, part, text)
			}
		}
		if strings.Contains(text, secretMarker) || len(test.want) == 0 && text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
}
