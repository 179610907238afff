package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// Bounds of a token, in bytes. A short one could be guessed, since a right one
// is never held back.
const (
	minToken = 8
	maxToken = 512
)

// CheckToken says whether a text may serve as the token. The error never quotes
// it.
func CheckToken(token string) error {
	if len(token) < minToken || len(token) > maxToken {
		return fmt.Errorf("must have %d to %d characters, has %d", minToken, maxToken, len(token))
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("must consist of printable ASCII characters without spaces")
		}
	}
	return nil
}

// tokenHash knows a token by its sum.
type tokenHash [sha256.Size]byte

func newTokenHash(token string) tokenHash { return sha256.Sum256([]byte(token)) }

// authorizes says whether a request carries the token. What cannot be a token is not even
// summed up.
func (g *tokenHash) authorizes(r *http.Request) bool {
	token, ok := bearer(r)
	return ok && g.matches(token)
}

// matches compares a token. It takes the same time whatever was sent.
func (g *tokenHash) matches(token string) bool {
	if len(token) < minToken || len(token) > maxToken {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g[:]) == 1
}

// bearer returns the token of a request, false if it has none that could be one.
func bearer(r *http.Request) (string, bool) {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "bearer") || len(token) < minToken || len(token) > maxToken {
		return "", false
	}
	return token, true
}
