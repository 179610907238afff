package modelstub

import (
	"math"
	"strings"
	"testing"
)

func TestConfigValidateNamesTheField(t *testing.T) {
	tests := []struct {
		config Config
		want   string
	}{
		{Config{Slots: -1}, "Slots"},
		{Config{Slots: MaxSlots + 1}, "Slots"},
		{Config{Speed: -2}, "Speed"},
		{Config{Speed: math.NaN()}, "Speed"},
		{Config{Speed: math.Inf(1)}, "Speed"},
		{Config{MaxBody: -1}, "MaxBody"},
		{Config{Models: []string{"a", ""}}, "Models: name 2"},
	}
	for _, tt := range tests {
		err := tt.config.Validate()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one that names %s", tt.config, err, tt.want)
		}
		if s, err := New(tt.config); err == nil || s != nil {
			t.Errorf("New(%+v) = %v, %v: want no stub and an error", tt.config, s, err)
		}
	}
}

func TestConfigZeroValueIsValid(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Fatal(err)
	}
	c := Config{}.withDefaults()
	if c.Speed != 1 || c.MaxBody != DefaultMaxBody || len(c.Models) != 1 || c.Service == nil || c.Log == nil {
		t.Errorf("defaults are incomplete: %+v", c)
	}
}
