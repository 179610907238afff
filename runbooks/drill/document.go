package drill

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
)

const (
	maxText  = 200
	maxNote  = 4000
	maxItems = 100
)

// SpecError is one thing that is wrong with a definition.
type SpecError = strictyaml.Diagnostic

// SpecErrors are all that is wrong with definitions, in the order of their file.
type SpecErrors = strictyaml.Diagnostics

// specReader reads the settings of definitions, and collects what is wrong with them.
type specReader struct{ *strictyaml.Decoder }

func newSpecReader(file string) specReader { return specReader{strictyaml.NewDecoder(file)} }

// list reads the items of a list.
func (l specReader) list(item strictyaml.Reader) strictyaml.Reader { return l.List(maxItems, item) }

// text reads text of bounded length that shows as what it is.
func (l specReader) text(to *string, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		before := l.Len()
		var text string
		l.Text(&text)(n, path)
		switch {
		case l.Len() > before:
		case utf8.RuneCountInString(n.Value) > most:
			l.ReportAt(strictyaml.PositionOf(n), path, fmt.Sprintf("must be at most %d characters", most))
		case strings.ContainsFunc(n.Value, isHiddenRune):
			l.ReportAt(strictyaml.PositionOf(n), path, "must not have control characters")
		default:
			*to = text
		}
	}
}

// isHiddenRune says whether a rune could make text show as something else.
func isHiddenRune(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// number reads a finite number from least to most.
func (l specReader) number(to *float64, least, most float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || v < least || v > most {
			l.ReportAt(strictyaml.PositionOf(n), path, fmt.Sprintf("must be a number from %v to %v, is %s", least, most, strictyaml.Display(n)))
			return
		}
		*to = v
	}
}

// integer reads a whole number from least to most.
func (l specReader) integer(to *int, least, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			l.ReportAt(strictyaml.PositionOf(n), path, fmt.Sprintf("must be a whole number from %d to %d, is %s", least, most, strictyaml.Display(n)))
			return
		}
		*to = v
	}
}

// share reads a part of 1, as a number or a percentage.
func (l specReader) share(to *float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := parseShare(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be 0 to 1 or 0% to 100%, is "+strictyaml.Display(n))
			return
		}
		*to = v
	}
}

// duration reads 90s, 5m or 7d.
func (l specReader) duration(to *time.Duration) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		d, err := parseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be a duration such as 90s, 5m or 7d, is "+strictyaml.Display(n))
			return
		}
		*to = d
	}
}
