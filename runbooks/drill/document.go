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

// Problem is one thing that is wrong with a definition.
type Problem = strictyaml.Problem

// Problems are all that is wrong with definitions, in the order of their file.
type Problems = strictyaml.Problems

// ledger reads the settings of definitions, and collects what is wrong with them.
type ledger struct{ *strictyaml.Ledger }

func newLedger(file string) ledger { return ledger{strictyaml.NewLedger(file)} }

// list reads the items of a list.
func (l ledger) list(item strictyaml.Reader) strictyaml.Reader { return l.List(maxItems, item) }

// text reads text of bounded length that shows as what it is.
func (l ledger) text(to *string, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		before := l.Count()
		var text string
		l.Text(&text)(n, path)
		switch {
		case l.Count() > before:
		case utf8.RuneCountInString(n.Value) > most:
			l.RefuseAt(strictyaml.PlaceOf(n), path, fmt.Sprintf("must be at most %d characters", most))
		case strings.ContainsFunc(n.Value, hidden):
			l.RefuseAt(strictyaml.PlaceOf(n), path, "must not have control characters")
		default:
			*to = text
		}
	}
}

// hidden says whether a rune could make text show as something else.
func hidden(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// number reads a finite number from least to most.
func (l ledger) number(to *float64, least, most float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || v < least || v > most {
			l.RefuseAt(strictyaml.PlaceOf(n), path, fmt.Sprintf("must be a number from %v to %v, is %s", least, most, strictyaml.Shown(n)))
			return
		}
		*to = v
	}
}

// whole reads a whole number from least to most.
func (l ledger) whole(to *int, least, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			l.RefuseAt(strictyaml.PlaceOf(n), path, fmt.Sprintf("must be a whole number from %d to %d, is %s", least, most, strictyaml.Shown(n)))
			return
		}
		*to = v
	}
}

// share reads a part of 1, as a number or a percentage.
func (l ledger) share(to *float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := parseShare(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.RefuseAt(strictyaml.PlaceOf(n), path, "must be 0 to 1 or 0% to 100%, is "+strictyaml.Shown(n))
			return
		}
		*to = v
	}
}

// duration reads 90s, 5m or 7d.
func (l ledger) duration(to *time.Duration) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		d, err := parseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.RefuseAt(strictyaml.PlaceOf(n), path, "must be a duration such as 90s, 5m or 7d, is "+strictyaml.Shown(n))
			return
		}
		*to = d
	}
}
