package api

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	tokenFile    = "headgate.token"
	maxTokenFile = 4 << 10 // bytes that are read of a token file
)

// NewToken returns a random token.
func NewToken() string { return rand.Text() }

// ReadToken reads the token of the admin API from a data directory. The error is fs.ErrNotExist if there is none yet.
func ReadToken(dir string) (string, error) {
	path := filepath.Join(dir, tokenFile)
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
		return "", fmt.Errorf("admin token in %s: %w; remove the file and start again to have one made", path, err)
	}
	return token, nil
}

// ReadOrMakeToken reads the token from a data directory, or makes one: the file is there as a whole or not at all.
func ReadOrMakeToken(dir string) (string, error) {
	if token, err := ReadToken(dir); !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	token := NewToken()
	if err := writeToken(dir, token); err != nil {
		return "", fmt.Errorf("make the admin token: %w", err)
	}
	return token, nil
}

func writeToken(dir, token string) error {
	f, err := os.CreateTemp(dir, tokenFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // renamed already if all went well
	_, err = f.WriteString(token + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, tokenFile))
}
