package config

import (
	"errors"
	"fmt"
	"reflect"

	"headgate/internal/strictyaml"
)

// checkLost refuses a file that no longer sets what the running file sets, if the value would change: a file that was
// emptied, cut short or half written must not replace the settings with the built-in ones.
func (c *Config) checkLost(after *Config) error {
	if c.src.File() == "" || after.src.File() == "" {
		return nil // built in, or of the environment: there is nothing that a file could lose
	}
	l := lostSettings{before: c, after: after}
	l.compare(reflect.ValueOf(c).Elem(), reflect.ValueOf(after).Elem(), "", "")
	return errors.Join(l.errs...)
}

// lostSettings collects the settings that a new file has lost.
type lostSettings struct {
	before, after *Config
	errs          []error
}

// compare compares two structs, which may stand at different places of the files.
func (l *lostSettings) compare(before, after reflect.Value, was, is string) {
	for _, s := range strictyaml.SettingsOf(before.Type()) {
		b, a := before.Field(s.Index), after.Field(s.Index)
		wasAt, isAt := strictyaml.Join(was, s.Name), strictyaml.Join(is, s.Name)
		switch {
		case !l.before.src.IsSet(wasAt):
		case !l.after.src.IsSet(isAt):
			if !reflect.DeepEqual(b.Interface(), a.Interface()) {
				l.lost(isAt, a)
			}
		case b.Kind() == reflect.Struct && len(strictyaml.SettingsOf(b.Type())) > 0:
			l.compare(b, a, wasAt, isAt)
		case b.Kind() == reflect.Slice:
			l.compareNamed(b, a, wasAt, isAt)
		}
	}
}

// compareNamed compares the elements of two lists that have the same name. An element may be removed.
func (l *lostSettings) compareNamed(before, after reflect.Value, was, is string) {
	names := make(map[string]int)
	for i := range after.Len() {
		if name, ok := nameOf(after.Index(i)); ok {
			names[name] = i
		}
	}
	for i := range before.Len() {
		name, ok := nameOf(before.Index(i))
		if j, still := names[name]; ok && still {
			l.compare(before.Index(i), after.Index(j), fmt.Sprintf("%s[%d]", was, i), fmt.Sprintf("%s[%d]", is, j))
		}
	}
}

func nameOf(v reflect.Value) (string, bool) {
	if v.Kind() != reflect.Struct {
		return "", false
	}
	name := v.FieldByName("Name")
	if !name.IsValid() || name.Kind() != reflect.String {
		return "", false
	}
	return name.String(), true
}

// lost records a setting that is gone. It says what to write if the default is meant.
func (l *lostSettings) lost(path string, fallback reflect.Value) {
	meant := "write it out, as headgate check prints it, if the default is meant"
	switch {
	case path == "clients":
		meant = "write clients: [] to let everyone in"
	case path == "pools":
		meant = "a reload does not replace the pools with the built-in one"
	case fallback.Kind() == reflect.String:
		meant = fmt.Sprintf("write %q if the default is meant", formatScalar(fallback))
	case fallback.Kind() != reflect.Struct && fallback.Kind() != reflect.Slice:
		meant = fmt.Sprintf("write %s if the default is meant", formatScalar(fallback))
	}
	l.errs = append(l.errs, l.after.At(path, errors.New("is gone from the file and would change: "+meant)))
}
