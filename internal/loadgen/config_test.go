package loadgen

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestConfigDefaults(t *testing.T) {
	c, err := Config{URL: "http://127.0.0.1:8484"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if c.Model != "default" || c.Speed != 1 || c.MaxOutstanding != 10_000 {
		t.Errorf("got %+v", c)
	}
	if c.Timeout != 10*time.Minute || c.SLO != time.Minute || c.MaxAttempts != 1 {
		t.Errorf("got timeout %v, SLO %v, %d attempts", c.Timeout, c.SLO, c.MaxAttempts)
	}
}

func TestConfigRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no URL":            {func(c *Config) { c.URL = "" }, "URL"},
		"no scheme":         {func(c *Config) { c.URL = "127.0.0.1:8484" }, "http://"},
		"other scheme":      {func(c *Config) { c.URL = "ftp://x" }, "http://"},
		"no host":           {func(c *Config) { c.URL = "http:///v1" }, "http://"},
		"unreadable URL":    {func(c *Config) { c.URL = "http://x\x00" }, "URL"},
		"negative speed":    {func(c *Config) { c.Speed = -1 }, "speed"},
		"NaN speed":         {func(c *Config) { c.Speed = math.NaN() }, "speed"},
		"infinite speed":    {func(c *Config) { c.Speed = math.Inf(1) }, "speed"},
		"too fast":          {func(c *Config) { c.Speed = 10_001 }, "at most 10000"},
		"negative limit":    {func(c *Config) { c.MaxOutstanding = -1 }, "max outstanding"},
		"huge limit":        {func(c *Config) { c.MaxOutstanding = 1_000_001 }, "max outstanding"},
		"negative timeout":  {func(c *Config) { c.Timeout = -1 }, "timeout"},
		"negative SLO":      {func(c *Config) { c.SLO = -1 }, "SLO"},
		"negative attempts": {func(c *Config) { c.MaxAttempts = -1 }, "attempts"},
		"too many attempts": {func(c *Config) { c.MaxAttempts = 101 }, "attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{URL: "http://127.0.0.1:1"}
			c.change(&cfg)
			_, err := cfg.withDefaults()
			wantError(t, err, c.says)
		})
	}
}

func TestURLErrorsKeepSecrets(t *testing.T) {
	_, err := Config{URL: "ftp://user:hunter2@host"}.withDefaults()
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error without the password", err)
	}
}

func TestTarget(t *testing.T) {
	for url, want := range map[string]string{
		"http://h:1":                     "http://h:1/v1/chat/completions",
		"http://h:1/":                    "http://h:1/v1/chat/completions",
		"http://h:1/v1":                  "http://h:1/v1/chat/completions",
		"http://h:1/v1/":                 "http://h:1/v1/chat/completions",
		"http://h:1/v1/chat/completions": "http://h:1/v1/chat/completions",
		"https://h/openai/v1":            "https://h/openai/v1/chat/completions",
		"http://h/v1?key=1":              "http://h/v1/chat/completions?key=1",
	} {
		got, err := Config{URL: url}.target()
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", url, got, err, want)
		}
	}
}

func TestParseRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		after, ms string
		want      RetryAfter
	}{
		"absent":          {"", "", RetryAfter{}},
		"one":             {"1", "", RetryAfter{"1", time.Second, true}},
		"the most":        {"59", "", RetryAfter{"59", 59 * time.Second, true}},
		"zero":            {"0", "", RetryAfter{Raw: "0"}},
		"too long":        {"60", "", RetryAfter{Raw: "60"}},
		"fraction":        {"0.5", "", RetryAfter{Raw: "0.5"}},
		"negative":        {"-1", "", RetryAfter{Raw: "-1"}},
		"plus":            {"+1", "", RetryAfter{Raw: "+1"}},
		"date":            {"Wed, 21 Oct 2015 07:28:00 GMT", "", RetryAfter{Raw: "Wed, 21 Oct 2015 07:28:00 GMT"}},
		"NaN":             {"NaN", "", RetryAfter{Raw: "NaN"}},
		"huge":            {"99999999999999999999", "", RetryAfter{Raw: "99999999999999999999"}},
		"long":            {strings.Repeat("x", 500), "", RetryAfter{Raw: strings.Repeat("x", 128)}},
		"no UTF-8":        {"\xff\xfe", "", RetryAfter{}},
		"finer":           {"3", "2100", RetryAfter{"3", 2100 * time.Millisecond, true}},
		"finer alone":     {"", "2100", RetryAfter{}},
		"finer too long":  {"3", "59001", RetryAfter{"3", 3 * time.Second, true}},
		"finer malformed": {"3", "2.1", RetryAfter{"3", 3 * time.Second, true}},
	} {
		h := http.Header{}
		if c.after != "" {
			h.Set("Retry-After", c.after)
		}
		if c.ms != "" {
			h.Set("Retry-After-Ms", c.ms)
		}
		if got := parseRetryAfter(h); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestParseReason(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "queue_age": "queue_age", "x2": "x2", "Queue": "invalid", "a b": "invalid", "a\"": "invalid", strings.Repeat("a", 200): "invalid",
	} {
		if got := parseReason(http.Header{"Headgate-Reason": {in}}); got != want {
			t.Errorf("reason %q: got %q, want %q", in, got, want)
		}
	}
}

func TestClockNeverSendsEarly(t *testing.T) {
	for _, speed := range []float64{1, 3, 7, 20, 0.3, 1e4} {
		c := clock{speed: speed}
		for _, at := range []time.Duration{0, 1, 2, 3, 999, 123_456_789, 300 * time.Second, MaxSpan} {
			if w := c.toWall(at); c.toScenario(w) < at {
				t.Errorf("speed %v: %v is sent at %v", speed, at, c.toScenario(w))
			}
		}
	}
	if got := (clock{speed: 1}).toWall(time.Second); got != time.Second {
		t.Errorf("at speed 1 the wall clock is %v for 1 s", got)
	}
}
