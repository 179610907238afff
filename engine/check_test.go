package engine

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Config){
		"Interval":     func(c *Config) { c.Interval = 0 },
		"SlowEvery":    func(c *Config) { c.SlowEvery = -1 },
		"EvalTimeout":  func(c *Config) { c.EvalTimeout = 0 },
		"SaveTimeout":  func(c *Config) { c.SaveTimeout = 0 },
		"MissingGrace": func(c *Config) { c.MissingGrace = -1 },
		"IdleClose":    func(c *Config) { c.IdleClose = 0 },
		"ReopenWindow": func(c *Config) { c.ReopenWindow = -1 },
		"Flap.Window":  func(c *Config) { c.Flap.Window = 0 },
		"Flap.Digest":  func(c *Config) { c.Flap.Digest = 0 },
		"Flap.Count":   func(c *Config) { c.Flap.Count = 1 },
		"from 2 to 64": func(c *Config) { c.Flap.Count = 65 },
		"Remind.Warn":  func(c *Config) { c.Remind.Warn = -1 },
		"Remind.Page":  func(c *Config) { c.Remind.Page = -1 },
		"AckFor":       func(c *Config) { c.AckFor = 0 },
		"AckMax":       func(c *Config) { c.AckMax = time.Hour },
		"SilenceMax":   func(c *Config) { c.SilenceMax = 0 },
	}
	for says, edit := range tests {
		c := DefaultConfig()
		edit(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if _, err := NewMachine(c); err == nil {
			t.Errorf("%s: a machine was made all the same", says)
		}
	}
}

func TestCheckRules(t *testing.T) {
	if err := CheckRules([]Rule{ageRule(), {Name: "b", Page: Threshold{Set: true}}}); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		edit func(*Rule)
		says string
	}{
		"nameless":     {func(r *Rule) { r.Name = "" }, "has no name"},
		"toothless":    {func(r *Rule) { r.Warn.Set, r.Page.Set = false, false }, "neither warn nor page"},
		"not a number": {func(r *Rule) { r.Warn.At = math.NaN() }, "finite"},
		"endless":      {func(r *Rule) { r.Page.At = math.Inf(1) }, "finite"},
		"backwards":    {func(r *Rule) { r.Page.At = 14 }, "page.at must be at least warn.at"},
		"never clear":  {func(r *Rule) { r.Clear.Below = 15.5 }, "clear.below must be at most"},
		"in the past":  {func(r *Rule) { r.Clear.For = -1 }, "negative"},
	}
	for name, test := range tests {
		r := ageRule()
		test.edit(&r)
		if err := CheckRules([]Rule{r}); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := ageRule()
	other.Pool = "q"
	if err := CheckRules([]Rule{ageRule(), other, ageRule()}); err == nil || !strings.Contains(err.Error(), "repeated") {
		t.Errorf("a key twice: %v", err)
	}
}
