package config

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// Validate checks every setting and returns [Problems], or nil. Settings that
// were loaded have passed it; it is for those that code has put together.
func (c *Config) Validate() error {
	l := newLedger(c.src)
	l.validate(c)
	return l.err()
}

func (l *ledger) validate(c *Config) {
	l.tags(reflect.ValueOf(c).Elem(), "")
	l.listeners(c)
	l.secret("admin.token", c.Admin.Token)
	l.hosts(c.Hosts)
	if c.DataDir == "" || !printable(c.DataDir) {
		l.invalid("data_dir", "must be the path of a directory", quote(c.DataDir))
	}
	l.pools(c.Pools)
	l.clients(c.Clients)
	l.relay(c)
	l.alerting(c)
}

// invalid records a value that breaks a rule. Like all checks it says nothing
// about a setting that has a problem already.
func (l *ledger) invalid(path, rule, shown string) {
	if l.clean(path) {
		l.refuse(path, l.got(path, rule, shown))
	}
}

// hidden is invalid for values that may hold something secret by mistake.
func (l *ledger) hidden(path, rule string) {
	if !l.clean(path) {
		return
	}
	if origin := l.src.origin(path); origin != "" {
		rule = l.got(path, rule, "")
	}
	l.refuse(path, rule)
}

// secret checks text that is to be sent in a header.
func (l *ledger) secret(path string, s Secret) {
	for _, r := range s.Reveal() {
		if r <= ' ' || r > '~' {
			l.hidden(path, "must be visible ASCII characters without spaces or line ends")
			return
		}
	}
}

// name checks a name that becomes a label or a log field.
func (l *ledger) name(path, name string) {
	const most = 63
	strange := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	if name != "" && (strange || len(name) > most) {
		l.invalid(path, "must be 1 to 63 characters out of a-z, 0-9 and -", quote(name))
	}
}

func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// firsts finds what must be unique but is not.
type firsts map[string]string

// again returns the path that had the same text before, or remembers this one.
func (f firsts) again(text, path string) (before string, repeated bool) {
	before, repeated = f[text]
	if !repeated {
		f[text] = path
	}
	return before, repeated
}

// unique refuses text that another path has already.
func (l *ledger) unique(seen firsts, path, text, what string) {
	if before, repeated := seen.again(text, path); repeated && text != "" && l.clean(path) {
		l.refuse(path, fmt.Sprintf("must be %s of its own, and %s has the same%s", what, before, l.byDefault(path)))
	}
}
