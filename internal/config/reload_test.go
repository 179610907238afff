package config

import (
	"slices"
	"testing"
)

func TestHostNames(t *testing.T) {
	known := (&Config{
		Listen: "gate.internal:8484", Admin: Admin{Listen: ":8485"}, Hosts: []string{"Models.Example.com"},
	}).HostNames()
	for _, want := range []string{"localhost", "gate.internal", "models.example.com"} {
		if !slices.Contains(known, want) {
			t.Errorf("%s is not in %q", want, known)
		}
	}
	if slices.Contains(known, "") {
		t.Errorf("an empty name is in %q", known)
	}
}
