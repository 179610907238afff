package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// unimplemented lists settings that are designed but do nothing yet. They are refused by
// name, since an option without effect would be a lie. Remove an entry when its
// setting arrives. "path=value" stands for one value of a setting.
var unimplemented = map[string]bool{
	"clients[].share":                   true,
	"pools[].admission.policy=deadline": true,
}

const unimplementedMessage = "is not in this version yet"

// field is a setting as its type declares it.
type field struct {
	name  string
	index int
	tag   reflect.StructTag
}

type fields []field

// fieldsOf lists the settings of a struct type in the order of declaration.
func fieldsOf(t reflect.Type) fields {
	var all fields
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			all = append(all, field{name, i, t.Field(i).Tag})
		}
	}
	return all
}

func (fs fields) find(name string) (field, bool) {
	i := slices.IndexFunc(fs, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fs[i], true
}

func (fs fields) names() string {
	var names []string
	for _, f := range fs {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// settingPaths lists every setting below a type, with [] for the elements of lists.
func settingPaths(t reflect.Type, path string) []string {
	var all []string
	for _, f := range fieldsOf(t) {
		p, ft := join(path, f.name), t.Field(f.index).Type
		all = append(all, p)
		if ft.Kind() == reflect.Slice {
			p, ft = p+"[]", ft.Elem()
		}
		if ft.Kind() == reflect.Struct {
			all = append(all, settingPaths(ft, p)...)
		}
	}
	return all
}

var indexPattern = regexp.MustCompile(`\[\d+\]`)

// withoutIndexes leaves the indexes out: pools[3].mode becomes pools[].mode.
func withoutIndexes(path string) string { return indexPattern.ReplaceAllString(path, "[]") }

var keyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

// looksLikeKey reports whether an unknown key may be repeated in a message. What
// does not look like a key may be a value that lacks its space after the colon.
func looksLikeKey(key string) bool { return keyPattern.MatchString(key) }

// suggest says what an unknown key may have meant.
func suggest(key string, known fields) string {
	if name := nearest(key, known); name != "" {
		return "did you mean " + name + "?"
	}
	for _, p := range settingPaths(reflect.TypeFor[Config](), "") {
		if at := parent(p); p == join(at, key) {
			if at == "" {
				at = "the top level"
			}
			return "it belongs under " + at
		}
	}
	return "known here: " + known.names()
}

// nearest returns the known name that key is closest to, if it is close.
func nearest(key string, known fields) string {
	best, least := "", 0
	for _, f := range known {
		d := editDistance(normalizeKey(key), normalizeKey(f.name))
		if d <= max(1, len(f.name)/3) && (best == "" || d < least) {
			best, least = f.name, d
		}
	}
	return best
}

// normalizeKey makes maxQueueAge, max-queue-age and max_queue_age the same.
func normalizeKey(key string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
}

// editDistance counts the letters to insert, delete or replace between a and b
// (Levenshtein 1966).
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
