package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// secretHolder keeps a secret where fmt cannot call its methods.
type secretHolder struct{ key Secret }

func TestSecretIsNeverPrinted(t *testing.T) {
	s := NewSecret(secretMarker)
	verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%U", "%e", "%10v", "%-3.1s", "%p",
		"%T"}
	values := map[string]any{
		"secret": s, "pointer": &s, "in a slice": []Secret{s}, "in a map": map[string]Secret{"k": s},
		"exported field": Admin{Token: s}, "unexported field": secretHolder{s}, "behind a pointer": &secretHolder{s},
		"config": Config{Admin: Admin{Token: s}}, "error": fmt.Errorf("with %v", s),
		"joined": errors.Join(fmt.Errorf("%+v", s)),
	}
	for name, v := range values {
		for _, verb := range verbs {
			if got := fmt.Sprintf(verb, v); wantHidden(got) != nil {
				t.Errorf("%s with %s prints %s", name, verb, got)
			}
		}
		if got := fmt.Sprint(v) + fmt.Sprintln(v); wantHidden(got) != nil {
			t.Errorf("%s prints %s", name, got)
		}
	}
}

// wantHidden refuses text that holds the leak, plain or in hexadecimal.
func wantHidden(text string) error {
	for _, form := range []string{secretMarker, fmt.Sprintf("%x", secretMarker), fmt.Sprintf("%X", secretMarker),
		"[76 69"} {
		if strings.Contains(text, form) {
			return errors.New("it shows")
		}
	}
	return nil
}

func TestSecretPrintsAsRedactedOrNothing(t *testing.T) {
	for format, want := range map[string]string{
		"%v": "[redacted]", "%+v": "[redacted]", "%s": "[redacted]", "%x": "[redacted]",
		"%q": `"[redacted]"`, "%#v": `"[redacted]"`,
	} {
		if got := fmt.Sprintf(format, NewSecret(secretMarker)); got != want {
			t.Errorf("%s gives %s, want %s", format, got, want)
		}
		empty := strings.ReplaceAll(want, "[redacted]", "")
		if got := fmt.Sprintf(format, Secret{}); got != empty {
			t.Errorf("%s of an empty one gives %s, want %s", format, got, empty)
		}
	}
}

func TestSecretIsNeverMarshalled(t *testing.T) {
	type outer struct{ Key, None Secret }
	v := outer{Key: NewSecret(secretMarker)}
	for name, test := range map[string]struct {
		marshal func(any) ([]byte, error)
		want    string
	}{
		"json": {json.Marshal, `{"Key":"[redacted]","None":""}`},
		"yaml": {yaml.Marshal, "key: '[redacted]'\nnone: \"\"\n"},
		"xml":  {xml.Marshal, `<outer><Key>[redacted]</Key><None></None></outer>`},
	} {
		got, err := test.marshal(v)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
	}
}

func TestSecretIsNeverLogged(t *testing.T) {
	var out bytes.Buffer
	s := NewSecret(secretMarker)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("m", "key", s, "pointer", &s, "held", secretHolder{s}, "admin", Admin{Token: s})
	}
	if wantHidden(out.String()) != nil || strings.Count(out.String(), redacted) < 4 {
		t.Error(out.String())
	}
}

func TestSecretRevealsAndCompares(t *testing.T) {
	a, b := NewSecret(secretMarker), NewSecret(secretMarker)
	if a.Reveal() != secretMarker || a.Empty() || !a.Equal(b) {
		t.Error("a secret does not hold its text")
	}
	if a.Equal(NewSecret("other")) || a.Equal(Secret{}) {
		t.Error("different secrets are equal")
	}
	if e := NewSecret(""); e != (Secret{}) || !e.Empty() || e.Reveal() != "" || !e.Equal(Secret{}) {
		t.Error("an empty secret is not empty")
	}
}
