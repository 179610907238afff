package config

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
)

// redacted is what is shown instead of a secret.
const redacted = "[redacted]"

// Secret is text that must not be shown: every way of printing, logging or
// marshalling it gives [redacted], or nothing when it is empty. The zero value is
// empty. It is safe for concurrent use.
//
// The text sits behind a pointer because fmt does not ask the unexported fields
// of a struct how they want to be printed: such a field shows an address then.
type Secret struct{ text *string }

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text. Use it only where the secret goes to its purpose.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// Equal reports whether both hold the same text, in time that depends only on
// the lengths.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns [redacted], or nothing when s is empty.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return redacted
}

// Format prints what String returns, whatever the verb.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		fmt.Fprintf(f, "%q", s.String())
		return
	}
	_, _ = io.WriteString(f, s.String()) // a fmt.State reports its errors itself
}

// MarshalText returns what String returns. It serves JSON, XML and YAML too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// DecodeNode reads text.
func (s *Secret) DecodeNode(d *strictyaml.Decoder, n *yaml.Node, path string) {
	var text string
	d.Scalar(n, &text, path)
	*s = NewSecret(text)
}

// LogValue returns what String returns.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
