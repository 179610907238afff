package strictyaml

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NotImplemented says of a setting that it is planned.
const NotImplemented = "is not in this version yet"

var (
	indexPattern = regexp.MustCompile(`\[\d+\]`)
	keyPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)
)

func (d *Decoder) unimplemented(path string) bool {
	return d.Unimplemented[indexPattern.ReplaceAllString(path, "[]")]
}

// unknownKey refuses a key that is not a setting, and says what may be meant. A key that does not look like one is not
// repeated: it may be a value without its space after the colon.
func (d *Decoder) unknownKey(key *yaml.Node, known []Field, path string) {
	at := PositionOf(key)
	switch {
	case d.full():
		d.dropped++ // spare the search for a suggestion that is not printed
	case key.ShortTag() == "!!merge":
		d.add(at, path, noMerge)
	case key.Kind != yaml.ScalarNode || !keyPattern.MatchString(key.Value):
		d.add(at, path, "this key is not a setting; "+knownHere(known))
	case d.unimplemented(Join(path, key.Value)):
		d.ReportAt(at, Join(path, key.Value), NotImplemented+"; remove it")
	default:
		d.add(at, path, fmt.Sprintf("unknown key %q; %s", key.Value, d.suggest(key.Value, known)))
	}
}

func knownHere(known []Field) string {
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.Name
	}
	return "known here: " + strings.Join(names, ", ")
}

// suggest says what an unknown key may have meant.
func (d *Decoder) suggest(key string, known []Field) string {
	if name := nearest(key, known); name != "" {
		return "did you mean " + name + "?"
	}
	if d.root != nil {
		for _, p := range SettingPaths(d.root, "") {
			if at := parent(p); p == Join(at, key) {
				if at == "" {
					at = "the top level"
				}
				return "it belongs under " + at
			}
		}
	}
	return knownHere(known)
}

// SettingPaths lists every setting below a type, with [] for the elements of lists.
func SettingPaths(t reflect.Type, path string) []string {
	var all []string
	for _, s := range SettingsOf(t) {
		p, ft := Join(path, s.Name), t.Field(s.Index).Type
		all = append(all, p)
		if ft.Kind() == reflect.Slice {
			p, ft = p+"[]", ft.Elem()
		}
		if ft.Kind() == reflect.Struct {
			all = append(all, SettingPaths(ft, p)...)
		}
	}
	return all
}

// nearest returns the known name that key is closest to, if it is close.
func nearest(key string, known []Field) string {
	best, least := "", 0
	for _, f := range known {
		d := editDistance(normalizeKey(key), normalizeKey(f.Name))
		if d <= max(1, len(f.Name)/3) && (best == "" || d < least) {
			best, least = f.Name, d
		}
	}
	return best
}

// normalizeKey makes maxQueueAge, max-queue-age and max_queue_age the same.
func normalizeKey(key string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
}

// editDistance counts the letters to insert, delete or replace between a and b (Levenshtein 1966).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
