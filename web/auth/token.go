package auth

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	// TokenFile is the name of the file in the data directory that holds the token.
	TokenFile = "headgate.token"

	maxTokenFile = 4 << 10 // bytes that are read of a token file

	// MinToken is the shortest token, in bytes. A shorter one could be guessed, since the right token is never limited.
	MinToken = 8
	// MaxToken is the longest token, in bytes.
	MaxToken = 512
)

// CheckToken says whether a text may serve as the token. The error never quotes it.
func CheckToken(token string) error {
	if len(token) < MinToken || len(token) > MaxToken {
		return fmt.Errorf("must have %d to %d characters, has %d", MinToken, MaxToken, len(token))
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return errors.New("must consist of printable ASCII characters without spaces")
		}
	}
	return nil
}

// ReadToken reads the token from a data directory. The error is fs.ErrNotExist if there is none yet.
func ReadToken(dir string) (string, error) {
	path := filepath.Join(dir, TokenFile)
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	token := string(bytes.TrimSpace(text))
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("admin token in %s: %w; remove the file and restart to have one made", path, err)
	}
	return token, nil
}

// MakeToken writes a new token, with mode 0600. The file is complete or does not exist.
func MakeToken(dir string) (string, error) {
	token := rand.Text()
	f, err := os.CreateTemp(dir, TokenFile+".*") // 0600
	if err != nil {
		return "", fmt.Errorf("make the admin token: %w", err)
	}
	defer os.Remove(f.Name()) // renamed already if all went well
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, TokenFile))
	}
	if err != nil {
		return "", fmt.Errorf("make the admin token: %w", err)
	}
	return token, nil
}
