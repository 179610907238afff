package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// authenticate returns the client whose key the request carries. Without
// configured clients everybody is the nameless one.
func authenticate(clients []Client, r *http.Request) (Client, *failure) {
	if len(clients) == 0 {
		return Client{}, nil
	}
	key, ok := bearer(r.Header.Get("Authorization"))
	if !ok {
		return Client{}, unauthorized("No API key given: send it as `Authorization: Bearer KEY`.")
	}
	sum := sha256.Sum256([]byte(key))
	found := -1
	for i := range clients { // all of them, so that time does not tell which one
		if subtle.ConstantTimeCompare(sum[:], clients[i].KeySHA256[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Client{}, unauthorized("Unknown API key.")
	}
	return clients[found], nil
}

func unauthorized(message string) *failure {
	return invalidRequest(http.StatusUnauthorized, "invalid_api_key", "%s", message)
}

func bearer(header string) (string, bool) {
	scheme, key, ok := strings.Cut(header, " ")
	key = strings.TrimSpace(key)
	return key, ok && strings.EqualFold(scheme, "Bearer") && key != ""
}
