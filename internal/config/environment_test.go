package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/internal/strictyaml"
)

func TestFromEnvironment(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                                    "http://127.0.0.1:8080/v1",
		"http://h:9/v1/chat/completions":      "http://h:9/v1",
		"http://h:9/v1/chat/completions/":     "http://h:9/v1",
		"http://h:9/v1":                       "http://h:9/v1",
		"http://h:9/v1/":                      "http://h:9/v1",
		"http://h:9":                          "http://h:9/v1",
		"http://h:9/":                         "http://h:9/v1",
		"http://h:9/chat/completions":         "http://h:9",
		"https://h/openai/deployments/x":      "https://h/openai/deployments/x",
		"https://h/api/v3/chat/completions//": "https://h/api/v3",
	} {
		c, err := FromEnvironment(env("MC_ENDPOINT", endpoint, "MC_API_KEY", secretMarker, "MC_MODEL", "gpt-4"))
		if err != nil {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		expected := Default()
		expected.Pools[0].Upstream = want
		expected.Pools[0].UpstreamKey = NewSecret(secretMarker)
		expected.Pools[0].Models = []string{"gpt-4"}
		if diff := cmp.Diff(expected, c, settings); diff != "" {
			t.Errorf("%s:\n%s", endpoint, diff)
		}
	}
}

func TestAnEmptyEnvironmentGivesTheDefaults(t *testing.T) {
	for name, lookup := range map[string]func(string) (string, bool){
		"none": nil, "unset": env(), "empty": env("MC_ENDPOINT", "", "MC_API_KEY", "", "MC_MODEL", ""),
	} {
		c, err := FromEnvironment(lookup)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Default(), c, settings); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestABadEnvironmentIsNamedButNotShown(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"MC_ENDPOINT", secretMarker, "pools[0].upstream: must be an absolute http or https URL such as http://127.0.0.1:8080/v1, unlike the value of MC_ENDPOINT"},
		{"MC_ENDPOINT", "http://u:" + secretMarker + "@h/v1",
			"pools[0].upstream: must be a URL without user and password: a key belongs in upstream_key, unlike the value of MC_ENDPOINT"},
		{"MC_ENDPOINT", "http://h?k=" + secretMarker,
			"pools[0].upstream: must be a URL without query and fragment, unlike the value of MC_ENDPOINT"},
		{"MC_API_KEY", secretMarker + "\n",
			"pools[0].upstream_key: must be visible ASCII characters without spaces or line ends, unlike the value of MC_API_KEY"},
		{"MC_MODEL", secretMarker + " x",
			"pools[0].models[0]: must be a model's name or a pattern with *, without spaces, of 1 to 256 bytes, unlike the value of MC_MODEL"},
	} {
		c, err := FromEnvironment(env(test.name, test.value))
		if err == nil || c != nil || err.Error() != test.want || strings.Contains(err.Error(), secretMarker) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	const clear = "pools[0].upstream: sends upstream_key over the network in clear text"
	for name, test := range map[string]struct {
		upstream, key string
		want          string
	}{
		"https":             {"https://h/v1", "k", ""},
		"loopback":          {"http://127.0.0.1/v1", "k", ""},
		"localhost":         {"http://localhost/v1", "k", ""},
		"clear, no key":     {"http://h/v1", "", ""},
		"clear with a key":  {"http://h/v1", "k", clear},
		"private, a key":    {"http://10.0.0.7:8000/v1", "k", clear},
		"placeholder as is": {"https://h/v1", redacted, "pools[0].upstream_key: is the placeholder [redacted], not a key"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			c.Pools[0].Upstream, c.Pools[0].UpstreamKey = test.upstream, NewSecret(test.key)
			got := strictyaml.Diagnostics(c.Warnings()).Error()
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestWarningsHaveAPosition(t *testing.T) {
	c, err := Parse("f.yaml", []byte("pools:\n  - name: a\n    upstream: http://h/v1\n    upstream_key: k\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 1 || w[0].File != "f.yaml" || w[0].Line != 3 || w[0].Col != 5 {
		t.Errorf("got %v", w)
	}
}

func TestEnvironmentGivesTheToken(t *testing.T) {
	c, err := FromEnvironment(env("HEADGATE_TOKEN", secretMarker))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Admin.Token.Reveal(); got != secretMarker {
		t.Fatalf("token %q, want the one from the environment", got)
	}
}
