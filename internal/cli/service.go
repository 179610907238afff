package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"headgate/internal/config"
	"headgate/internal/format"
	"headgate/web/api"
)

const (
	adminEnv = "HEADGATE_ADMIN"
	tokenEnv = "HEADGATE_TOKEN"

	defaultAdmin   = "http://127.0.0.1:8485"
	defaultDataDir = "./data"

	maxItems     = 10_000 // shown, or searched, at one time
	fullIDLength = 36     // characters of an ID that is not only a prefix
)

// Service is the running headgate that a command talks to, and where its output goes.
type Service struct {
	Env
	Endpoint
	JSON     bool
	Out, Err io.Writer // data, messages
}

// Endpoint says where the service is. Empty fields stand for the environment and
// the defaults.
type Endpoint struct {
	Admin   string // URL of the admin listener
	Config  string // settings file of the service
	DataDir string
}

// shellArgs repeats the flags as they were given, for commands that a person may copy.
func (e *Endpoint) shellArgs() string {
	var b strings.Builder
	for _, given := range [][2]string{{"--admin", e.Admin}, {"--config", e.Config}, {"--data-dir", e.DataDir}} {
		if given[1] != "" {
			fmt.Fprintf(&b, " %s %s", given[0], shellQuote(given[1]))
		}
	}
	return b.String()
}

// target is where the running service is, as far as is known.
type target struct {
	url      string
	dataDir  string
	token    config.Secret
	unusable error // why the admin API cannot even be asked; nil if it can
	local    bool  // its database may be in dataDir
}

// ResolveDataDir returns the data directory of the service.
func (s *Service) ResolveDataDir() string {
	return cmp.Or(s.DataDir, s.hints().dataDir, defaultDataDir)
}

// target finds the service. A wrong settings file is no reason to fail: a rollback
// must not require that the settings are fixed first.
func (s *Service) target() (target, error) {
	h := s.hints()
	fromEnv, _ := s.LookupEnv(adminEnv)
	asked := cmp.Or(s.Admin, fromEnv)
	t := target{url: cmp.Or(asked, h.url, defaultAdmin), dataDir: cmp.Or(s.DataDir, h.dataDir, defaultDataDir)}
	u, err := api.ParseAdminURL(t.url)
	switch {
	case err != nil && asked != "":
		return t, Usage(err)
	case err != nil:
		t.local, t.unusable = true, err // the settings are of this machine
	default:
		t.local = api.IsLocal(u) || s.Config != "" || s.DataDir != ""
		t.token, t.unusable = s.findToken(t, h)
	}
	return t, nil
}

// findToken looks for the token in the environment, in the settings, and in the data
// directory of a service on this machine, in this order.
func (s *Service) findToken(t target, h configHints) (config.Secret, error) {
	given, _ := s.LookupEnv(tokenEnv)
	switch {
	case given != "":
		return config.NewSecret(given), nil
	case !h.token.Empty():
		return h.token, nil
	case !t.local: // the token beside a database here is for the service here
		return config.Secret{}, tokenHint(fmt.Errorf("there is no token for %s", t.url))
	}
	token, err := s.Token(t.dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no headgate.token in %s", t.dataDir)
	}
	if err != nil {
		return token, tokenHint(err)
	}
	return token, nil
}

func tokenHint(err error) error {
	return fmt.Errorf("%w; set %s, or give the data directory of the service with --data-dir or --config", err, tokenEnv)
}

// connect calls f with a client of a service that answers a ping. A dead service is
// detected within a second that way, before anything is sent.
func (s *Service) connect(ctx context.Context, t target, f func(*api.Client) error) error {
	if t.unusable != nil {
		return &api.UnreachableError{Err: t.unusable}
	}
	c, err := api.NewClient(api.ClientConfig{URL: t.url, Token: t.token.Reveal(), Actor: s.Actor()})
	if err != nil {
		return Usage(err)
	}
	defer c.Close()
	if err := c.Ping(ctx); err != nil {
		return err
	}
	return f(c)
}

// call calls f with a client of the service.
func (s *Service) call(ctx context.Context, f func(*api.Client) error) error {
	t, err := s.target()
	if err != nil {
		return err
	}
	if t.unusable != nil {
		return Usage(t.unusable)
	}
	return s.callTarget(ctx, t, f)
}

// callTarget calls f with a client of the target, and says what to try if nothing answers.
func (s *Service) callTarget(ctx context.Context, t target, f func(*api.Client) error) error {
	err := s.connect(ctx, t, f)
	if isUnreachable(err) {
		return fmt.Errorf("%w\nis it running? its admin listener is looked for at --admin URL, %s, "+
			"or where --config FILE says", err, adminEnv)
	}
	return err
}

// caller is a Service, or a type around one that says more when there is no answer.
type caller interface {
	call(ctx context.Context, f func(*api.Client) error) error
	show(v any, text func(*printer)) error
}

// ask sends a request to the service, and shows its reply.
func ask[T any](ctx context.Context, s caller, request func(*api.Client) (T, error), text func(*printer, *T)) error {
	return s.call(ctx, func(c *api.Client) error {
		reply, err := request(c)
		if err != nil {
			return err
		}
		return s.show(reply, func(p *printer) { text(p, &reply) })
	})
}

// callOrRead asks the service, and reads its database if there is no answer: history
// is wanted most while the service is down.
func (s *Service) callOrRead(ctx context.Context, ask func(*api.Client) error, read func(dir string) error) error {
	t, err := s.target()
	if err != nil {
		return err
	}
	if err = s.connect(ctx, t, ask); !isUnreachable(err) || !t.local {
		return err
	}
	s.messagef("%v", err)
	s.messagef("reading from the database in %s instead", t.dataDir)
	if err := read(t.dataDir); err != nil {
		return Error{ExitUnreachable, fmt.Errorf("the database cannot be read either: %w", err)}
	}
	return nil
}

// Complete asks the service for shell completions. Without an answer within a
// moment nothing is completed.
func (s *Service) Complete(ctx context.Context, ask func(context.Context, *api.Client) error) {
	const timeout = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.Err = io.Discard
	if t, err := s.target(); err == nil {
		_ = s.connect(ctx, t, func(c *api.Client) error { return ask(ctx, c) })
	}
}

// maybeApplied adds what to do about an order that was sent and not answered.
func maybeApplied(err error) error {
	if sentUnanswered(err) {
		return fmt.Errorf("%w\nit may have been applied; repeating the command is safe", err)
	}
	return err
}

// sentUnanswered reports whether a request may have been applied although no answer came.
func sentUnanswered(err error) bool {
	var u *api.UnreachableError
	return errors.As(err, &u) && u.Sent
}

// reasonLine returns a reason on one line.
func reasonLine(reason string) (string, error) {
	if n := utf8.RuneCountInString(reason); n > api.MaxReason {
		return "", Usagef("--reason: at most %d characters, has %d", api.MaxReason, n)
	}
	return format.Printable(format.Line(reason)), nil
}

// checkPool checks the syntax of a name; whether the pool exists is known to the service
// only.
func checkPool(pool string) error {
	if pool != "" {
		if err := api.CheckPool(pool); err != nil {
			return Usagef("--pool: %w", err)
		}
	}
	return nil
}

// readPages reads up to maxItems items, page by page. The rest is the key of the
// page that would follow, empty if there is none.
func readPages[T any](read func(after string) (items []T, next string, err error)) (all []T, rest string, err error) {
	all = []T{} // JSON shows an empty list as [], not as null
	for {
		items, next, err := read(rest)
		if err != nil {
			return nil, "", err
		}
		all = append(all, items...)
		if next == "" || next == rest || len(all) >= maxItems {
			return all, next, nil
		}
		rest = next
	}
}

// warnTruncated says that a list was cut.
func (s *Service) warnTruncated(rest, what string) {
	if rest != "" {
		s.messagef("warning: there are more than %d %s; shorten --since", maxItems, what)
	}
}

// resolveID returns the one ID that begins as given. A full one is not looked up.
func resolveID[T any](what, given string, all func() ([]T, string, error), idOf func(*T) string) (string, error) {
	given = strings.ToLower(given)
	if err := api.CheckID(given); err != nil {
		return "", Usage(err)
	}
	if len(given) >= fullIDLength {
		return given, nil
	}
	items, _, err := all()
	if err != nil {
		return "", err
	}
	var fit []string
	for i := range items {
		id := idOf(&items[i])
		if id == given {
			return id, nil
		}
		if strings.HasPrefix(id, given) {
			fit = append(fit, format.Printable(id))
		}
	}
	switch {
	case len(fit) == 0:
		return "", fmt.Errorf("no %s has an ID that begins with %s", what, given)
	case len(fit) > 1:
		return "", Usagef("%d %ss have IDs that begin with %s: %s; give more of it",
			len(fit), what, given, format.List(fit, ", ", 5))
	}
	return fit[0], nil
}

// configHints is what settings say about where the service is.
type configHints struct {
	url, dataDir string
	token        config.Secret
}

// hints reads the settings file, if there is one; of a wrong one, what can be read.
func (s *Service) hints() configHints {
	if s.Config == "" {
		return configHints{}
	}
	c, err := config.Load(s.Config, s.LookupEnv)
	if err == nil {
		return configHints{AdminURL(c.Admin.Listen), c.DataDir, c.Admin.Token}
	}
	h := scanConfig(s.Config)
	fmt.Fprintf(s.Err, "headgate: warning: invalid configuration, using %s and %s: %v\n",
		cmp.Or(s.DataDir, h.dataDir, defaultDataDir), cmp.Or(s.Admin, h.url, defaultAdmin), err)
	return h
}

// scanConfig reads the two settings that matter out of a file that may be wrong, or
// may need variables that are not set here.
func scanConfig(path string) configHints {
	const maxBytes = 1 << 20
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
	// After an error, what has been decoded until then is used.
	_ = yaml.NewDecoder(io.LimitReader(file, maxBytes)).Decode(&s)
	var out configHints
	if !strings.Contains(s.DataDir, "${") {
		out.dataDir = s.DataDir
	}
	if s.Admin.Listen != "" && !strings.Contains(s.Admin.Listen, "${") {
		out.url = AdminURL(s.Admin.Listen)
	}
	return out
}

// AdminURL returns the URL of a listener as seen from its own machine.
func AdminURL(listen string) string {
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
