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
	adminEnv = "HEADGATE_ADMIN"
	tokenEnv = "HEADGATE_TOKEN"

	defaultAdmin   = "http://127.0.0.1:8485"
	defaultDataDir = "./data"
)

// endpointFlags say where the running service is to be found.
type endpointFlags struct{ admin, config, dataDir string }

func (f *endpointFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.admin, "admin", "", "`URL` of the admin listener (default $HEADGATE_ADMIN, or http://127.0.0.1:8485)")
	f.addDataDir(cmd)
}

// addDataDir adds what finds the data directory only.
func (f *endpointFlags) addDataDir(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "settings `file` of the service: says where data directory and admin listener are")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "data `directory` of the service (default ./data)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // these fail only for a flag that is not there
	_ = cmd.MarkFlagDirname("data-dir")
}

// shellArgs repeats the flags as they were given, for commands that a person may
// want to copy.
func (f *endpointFlags) shellArgs() string {
	var b strings.Builder
	for _, given := range [][2]string{{"--admin", f.admin}, {"--config", f.config}, {"--data-dir", f.dataDir}} {
		if given[1] != "" {
			fmt.Fprintf(&b, " %s %s", given[0], shellQuote(given[1]))
		}
	}
	return b.String()
}

// endpoint is where the running service is, as far as can be told.
type endpoint struct {
	url      string
	dataDir  string
	token    config.Secret
	unusable error // why the admin API cannot even be asked; nil if it can
	local    bool  // its database may be in dataDir
}

// resolveDataDir looks for the data directory only.
func (f *endpointFlags) resolveDataDir(h environment, stderr io.Writer) string {
	return cmp.Or(f.dataDir, f.fromConfig(h, stderr).dataDir, defaultDataDir)
}

// resolve looks for the service. Settings that are not right are no reason to fail:
// whoever wants to undo something must not have to mend them first.
func (f *endpointFlags) resolve(h environment, stderr io.Writer) (endpoint, error) {
	s := f.fromConfig(h, stderr)
	fromEnv, _ := h.lookupEnv(adminEnv)
	asked := cmp.Or(f.admin, fromEnv)
	p := endpoint{url: cmp.Or(asked, s.url, defaultAdmin), dataDir: cmp.Or(f.dataDir, s.dataDir, defaultDataDir)}
	u, err := api.ParseAdminURL(p.url)
	switch {
	case err != nil && asked != "":
		return p, usageError{err}
	case err != nil:
		p.local, p.unusable = true, err // the settings are of this machine
	default:
		p.local = api.IsLocal(u) || f.config != "" || f.dataDir != ""
		p.token, p.unusable = p.findToken(h, s)
	}
	return p, nil
}

func (p endpoint) findToken(h environment, s configHints) (config.Secret, error) {
	given, _ := h.lookupEnv(tokenEnv)
	switch {
	case given != "":
		return config.NewSecret(given), nil
	case !s.token.Empty():
		return s.token, nil
	case !p.local: // the token beside a database here is for the service here
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
func (p endpoint) client(actor string) (*api.Client, error) {
	if p.unusable != nil {
		return nil, usageError{p.unusable}
	}
	c, err := api.NewClient(api.ClientConfig{URL: p.url, Token: p.token.Reveal(), Actor: actor})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// configHints is what settings say about where the service is.
type configHints struct {
	url, dataDir string
	token        config.Secret
}

// fromConfig reads the settings file, if there is one, and what can be read of it
// if it is not right.
func (f *endpointFlags) fromConfig(h environment, stderr io.Writer) configHints {
	if f.config == "" {
		return configHints{}
	}
	c, err := config.Load(f.config, h.lookupEnv)
	if err == nil {
		return configHints{adminURL(c.Admin.Listen), c.DataDir, c.Admin.Token}
	}
	s := scanConfig(f.config)
	fmt.Fprintf(stderr, "headgate: warning: the settings are not right, looking in %s and at %s all the same: %v\n",
		cmp.Or(f.dataDir, s.dataDir, defaultDataDir), cmp.Or(f.admin, s.url, defaultAdmin), err)
	return s
}

// scanConfig reads the two settings that matter out of a file that may be wrong, or
// may want variables that are not set here.
func scanConfig(path string) configHints {
	const most = 1 << 20
	var s struct {
		DataDir string `yaml:"data_dir"`
		Admin   struct {
			Listen string `yaml:"listen"`
		} `yaml:"admin"`
	}
	file, err := os.Open(path)
	if err != nil {
		return configHints{}
	}
	defer file.Close()
	// An error leaves what has been read until then; that is as good as it gets.
	_ = yaml.NewDecoder(io.LimitReader(file, most)).Decode(&s)
	var out configHints
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
