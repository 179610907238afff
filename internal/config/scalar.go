package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	errWhole  = errors.New("must be a whole number")
	errNumber = errors.New("must be a number such as 0.95")
	errBool   = errors.New("must be true or false")
)

// isText reports whether v is one of our types that are written as text.
func isText(v reflect.Value) bool {
	switch v.Interface().(type) {
	case time.Duration, Bytes:
		return true
	}
	return false
}

// scalar fills references in and sets target to what the text then says.
func (d *decoder) scalar(n *yaml.Node, target any, path string) {
	if n.Kind != yaml.ScalarNode {
		d.report(path, fmt.Sprintf("must be a single value, is %s", kindOf(n)))
		return
	}
	text, refs, err := d.expander.expand(n.Value)
	if err != nil {
		d.report(path, err.Error())
		return
	}
	if refs != "" {
		d.source.references[path] = refs
	} else if needsQuotes(n, target) {
		d.report(path, "must be text, is "+kindOf(n)+": put it in quotes")
		return
	}
	if err := setScalar(target, text); err != nil {
		d.report(path, d.withActual(path, err.Error(), quote(text)))
	}
}

// needsQuotes reports whether YAML takes n for something else than the text that
// is wanted. Numbers in quotes where a number is wanted do no harm.
func needsQuotes(n *yaml.Node, target any) bool {
	switch target.(type) {
	case *string, *Secret:
		return n.ShortTag() != "!!str"
	}
	return false
}

func setScalar(target any, text string) (err error) {
	switch t := target.(type) {
	case *string:
		*t = text
	case *Secret:
		*t = NewSecret(text)
	case *bool:
		err = setParsed(t, text, parseBool, nil)
	case *int:
		err = setParsed(t, text, strconv.Atoi, errWhole)
	case *float64:
		err = setParsed(t, text, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, errNumber)
	case *time.Duration:
		err = setParsed(t, text, parseDuration, nil)
	case *Bytes:
		err = setParsed(t, text, parseBytes, nil)
	default:
		err = fmt.Errorf("cannot be set: no rule reads a %T", target)
	}
	return err
}

// parseBool takes the two words of YAML 1.2 and no others.
func parseBool(text string) (bool, error) {
	switch text {
	case "true", "false":
		return text == "true", nil
	}
	return false, errBool
}

// setParsed leaves target alone when text cannot be parsed, so that its default
// stays and no second problem follows. A non-nil instead replaces the error.
func setParsed[T any](target *T, text string, parse func(string) (T, error), instead error) error {
	value, err := parse(text)
	switch {
	case err != nil && instead != nil:
		return instead
	case err != nil:
		return err
	}
	*target = value
	return nil
}

// kindOf names what a node is, in words for people. It never shows its content.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}

// withActual adds to a rule what was found instead, unless it was filled in: that may be
// secret, so only its origin is named.
func (l *checker) withActual(path, rule, shown string) string {
	if origin := l.source.reference(path); origin != "" {
		return rule + ", unlike what comes from " + origin
	}
	return rule + ", is " + shown + l.defaultSuffix(path)
}

// defaultSuffix tells that nobody wrote the setting at path, if so.
func (l *checker) defaultSuffix(path string) string {
	if l.source.isSet(path) {
		return ""
	}
	return " by default"
}

// quote shows text on one line and not at length.
func quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}
