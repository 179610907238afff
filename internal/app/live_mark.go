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

// markAge is how far the time of a mark may be from now, either way.
const markAge = 5 * time.Minute

// markKey makes the key of marks out of the admin token, so that whoever has a mark
// has nothing else.
func markKey(token string) []byte {
	return sign([]byte(token), "headgate drill header")
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

// DrillMark returns a value of the header Headgate-Drill, for whoever has the admin
// token. It holds for five minutes.
func DrillMark(token string, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return at + "." + hex.EncodeToString(sign(markKey(token), at))
}

// marked says whether a header is a mark that holds.
func marked(key []byte, header string, now time.Time) bool {
	at, signature, ok := strings.Cut(header, ".")
	if !ok || len(at) > 12 {
		return false
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > markAge {
		return false
	}
	given, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(given, sign(key, at))
}
