package config

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// Validate checks every setting and returns [Diagnostics], or nil. Settings that
// were loaded have passed it; it is for those that code has put together.
func (c *Config) Validate() error {
	l := newChecker(c.src)
	l.validate(c)
	return l.err()
}

func (l *checker) validate(c *Config) {
	l.checkTags(reflect.ValueOf(c).Elem(), "")
	l.checkListeners(c)
	l.checkSecret("admin.token", c.Admin.Token)
	l.checkHosts(c.Hosts)
	if c.DataDir == "" || !printable(c.DataDir) {
		l.invalid("data_dir", "must be the path of a directory", quote(c.DataDir))
	}
	l.checkPools(c.Pools)
	l.checkClients(c.Clients)
	l.checkOpenRelay(c)
	l.checkAlerting(c)
}

// invalid records a value that breaks a rule. Like all checks it says nothing
// about a setting that has a problem already.
func (l *checker) invalid(path, rule, shown string) {
	if l.ok(path) {
		l.report(path, l.withActual(path, rule, shown))
	}
}

// invalidRedacted is invalid for values that may hold something secret by mistake.
func (l *checker) invalidRedacted(path, rule string) {
	if !l.ok(path) {
		return
	}
	if origin := l.source.reference(path); origin != "" {
		rule = l.withActual(path, rule, "")
	}
	l.report(path, rule)
}

// checkSecret checks text that is to be sent in a header.
func (l *checker) checkSecret(path string, s Secret) {
	for _, r := range s.Reveal() {
		if r <= ' ' || r > '~' {
			l.invalidRedacted(path, "must be visible ASCII characters without spaces or line ends")
			return
		}
	}
}

// checkName checks a name that becomes a label or a log field.
func (l *checker) checkName(path, name string) {
	const most = 63
	strange := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	if name != "" && (strange || len(name) > most) {
		l.invalid(path, "must be 1 to 63 characters out of a-z, 0-9 and -", quote(name))
	}
}

func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// firstPaths finds what must be unique but is not.
type firstPaths map[string]string

// lookupOrAdd returns the path that had the same text before, or remembers this one.
func (f firstPaths) lookupOrAdd(text, path string) (before string, repeated bool) {
	before, repeated = f[text]
	if !repeated {
		f[text] = path
	}
	return before, repeated
}

// checkUnique refuses text that another path has already.
func (l *checker) checkUnique(seen firstPaths, path, text, what string) {
	if before, repeated := seen.lookupOrAdd(text, path); repeated && text != "" && l.ok(path) {
		l.report(path, fmt.Sprintf("must be %s of its own, and %s has the same%s", what, before, l.defaultSuffix(path)))
	}
}
