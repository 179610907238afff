package app

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"headgate/internal/config"
	"headgate/web/api"
)

const (
	tokenFile  = "headgate.token"
	tokenBytes = 4 << 10 // the most that is read of a token file
)

// adminToken returns the token of the admin API: the one in the settings, or the
// one in the data directory, which is made at the first start.
func (a *App) adminToken() (config.Secret, error) {
	if t := a.cfg.Admin.Token; !t.Empty() {
		return t, nil
	}
	if a.ephemeral {
		a.log.Warn("the admin API has a token that nobody knows: set admin.token to use it")
		return config.NewSecret(rand.Text()), nil
	}
	token, err := Token(a.cfg.DataDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	return makeToken(a.cfg.DataDir)
}

// Token reads the token from a data directory. The error is fs.ErrNotExist if
// there is none yet.
func Token(dir string) (config.Secret, error) {
	path := filepath.Join(dir, tokenFile)
	f, err := os.Open(path)
	if err != nil {
		return config.Secret{}, fmt.Errorf("admin token: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, tokenBytes))
	if err != nil {
		return config.Secret{}, fmt.Errorf("admin token: %w", err)
	}
	token := string(bytes.TrimSpace(text))
	if err := api.CheckToken(token); err != nil {
		return config.Secret{}, fmt.Errorf("admin token in %s: %w; remove the file and start again to have one made", path, err)
	}
	return config.NewSecret(token), nil
}

// makeToken makes a token that is there whole or not at all.
func makeToken(dir string) (config.Secret, error) {
	fail := func(err error) (config.Secret, error) {
		return config.Secret{}, fmt.Errorf("make the admin token: %w", err)
	}
	token := rand.Text()
	f, err := os.CreateTemp(dir, tokenFile+".*") // 0600
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name()) // gone already if all went well
	_, err = f.WriteString(token + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fail(err)
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, tokenFile)); err != nil {
		return fail(err)
	}
	return config.NewSecret(token), nil
}
