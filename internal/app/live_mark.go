package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// drillHeader marks a task that a live drill may touch: a time as seconds since
// 1970, a dot, and its signature. The proxy passes no header of headgate's own on.
const drillHeader = "Headgate-Drill"

// maxMarkAge is how far the time of a mark may be from now, either way.
const maxMarkAge = 5 * time.Minute

// markKey makes the key of marks out of the admin token, so that whoever has a mark
// has nothing else.
func markKey(token string) []byte {
	return hmacSHA256([]byte(token), "headgate drill header")
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

// DrillMark returns a value of the header Headgate-Drill, for whoever has the admin
// token. It holds for five minutes.
func DrillMark(token string, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return at + "." + hex.EncodeToString(hmacSHA256(markKey(token), at))
}

// validMark says whether a header is a mark that holds.
func validMark(key []byte, header string, now time.Time) bool {
	at, signature, ok := strings.Cut(header, ".")
	if !ok || len(at) > 12 {
		return false
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > maxMarkAge {
		return false
	}
	given, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(given, hmacSHA256(key, at))
}
