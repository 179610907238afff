package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"headgate/internal/config"
	"headgate/web/api"
)

const (
	adminVariable = "HEADGATE_ADMIN"
	tokenVariable = "HEADGATE_TOKEN"

	defaultAdmin   = "http://127.0.0.1:8485"
	defaultDataDir = "./data"
)

// placeFlags say where the running service is to be found.
type placeFlags struct{ admin, config, dataDir string }

func (f *placeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.admin, "admin", "", "`URL` of the admin listener (default $HEADGATE_ADMIN, or http://127.0.0.1:8485)")
	f.addData(cmd)
}

// addData adds what finds the data directory only.
func (f *placeFlags) addData(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "settings `file` of the service: says where data directory and admin listener are")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "data `directory` of the service (default ./data)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // these fail only for a flag that is not there
	_ = cmd.MarkFlagDirname("data-dir")
}

// shown repeats the flags as they were given, for commands that a person may
// want to copy.
func (f *placeFlags) shown() string {
	var b strings.Builder
	for _, given := range [][2]string{{"--admin", f.admin}, {"--config", f.config}, {"--data-dir", f.dataDir}} {
		if given[1] != "" {
			fmt.Fprintf(&b, " %s %s", given[0], shellWord(given[1]))
		}
	}
	return b.String()
}

// place is where the running service is, as far as can be told.
type place struct {
	url     string
	dataDir string
	token   config.Secret
	closed  error // why the admin API cannot even be asked; nil if it can
	here    bool  // its database may be in dataDir
}

// data looks for the data directory only.
func (f *placeFlags) data(h host, stderr io.Writer) string {
	return cmp.Or(f.dataDir, f.settings(h, stderr).dataDir, defaultDataDir)
}

// find looks for the service. Settings that are not right are no reason to fail:
// whoever wants to undo something must not have to mend them first.
func (f *placeFlags) find(h host, stderr io.Writer) (place, error) {
	s := f.settings(h, stderr)
	fromEnv, _ := h.env(adminVariable)
	asked := cmp.Or(f.admin, fromEnv)
	p := place{url: cmp.Or(asked, s.url, defaultAdmin), dataDir: cmp.Or(f.dataDir, s.dataDir, defaultDataDir)}
	u, err := api.ParseAdminURL(p.url)
	switch {
	case err != nil && asked != "":
		return p, usageError{err}
	case err != nil:
		p.here, p.closed = true, err // the settings are of this machine
	default:
		p.here = api.Local(u) || f.config != "" || f.dataDir != ""
		p.token, p.closed = p.findToken(h, s)
	}
	return p, nil
}

func (p place) findToken(h host, s found) (config.Secret, error) {
	given, _ := h.env(tokenVariable)
	switch {
	case given != "":
		return config.NewSecret(given), nil
	case !s.token.Empty():
		return s.token, nil
	case !p.here: // the token beside a database here is for the service here
		return config.Secret{}, tokenHint(fmt.Errorf("there is no token for %s", p.url), "")
	}
	token, err := h.token(p.dataDir)
	if err != nil {
		return token, tokenHint(err, p.dataDir)
	}
	return token, nil
}

func tokenHint(err error, dir string) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no headgate.token in %s", dir)
	}
	return fmt.Errorf("%w; set HEADGATE_TOKEN, or say where the data directory of the service is with --data-dir or --config", err)
}

// client returns a client for the admin API of the place.
func (p place) client(actor string) (*api.Client, error) {
	if p.closed != nil {
		return nil, usageError{p.closed}
	}
	c, err := api.NewClient(api.ClientConfig{URL: p.url, Token: p.token.Reveal(), Actor: actor})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// found is what settings say about where the service is.
type found struct {
	url, dataDir string
	token        config.Secret
}

// settings reads the settings file, if there is one, and what can be read of it
// if it is not right.
func (f *placeFlags) settings(h host, stderr io.Writer) found {
	if f.config == "" {
		return found{}
	}
	c, err := config.Load(f.config, h.env)
	if err == nil {
		return found{adminURL(c.Admin.Listen), c.DataDir, c.Admin.Token}
	}
	s := glance(f.config)
	fmt.Fprintf(stderr, "headgate: warning: the settings are not right, looking in %s and at %s all the same: %v\n",
		cmp.Or(f.dataDir, s.dataDir, defaultDataDir), cmp.Or(f.admin, s.url, defaultAdmin), err)
	return s
}

// glance reads the two settings that matter out of a file that may be wrong, or
// may want variables that are not set here.
func glance(path string) found {
	const most = 1 << 20
	var s struct {
		DataDir string `yaml:"data_dir"`
		Admin   struct {
			Listen string `yaml:"listen"`
		} `yaml:"admin"`
	}
	file, err := os.Open(path)
	if err != nil {
		return found{}
	}
	defer file.Close()
	// An error leaves what has been read until then; that is as good as it gets.
	_ = yaml.NewDecoder(io.LimitReader(file, most)).Decode(&s)
	var out found
	if !strings.Contains(s.DataDir, "${") {
		out.dataDir = s.DataDir
	}
	if s.Admin.Listen != "" && !strings.Contains(s.Admin.Listen, "${") {
		out.url = adminURL(s.Admin.Listen)
	}
	return out
}

// adminURL returns how to reach a listener from its own machine.
func adminURL(listen string) string {
	name, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen
	}
	addr, err := netip.ParseAddr(name)
	switch {
	case name == "" || err == nil && addr.IsUnspecified() && addr.Is4():
		name = "127.0.0.1"
	case err == nil && addr.IsUnspecified():
		name = "::1"
	}
	return "http://" + net.JoinHostPort(name, port)
}
