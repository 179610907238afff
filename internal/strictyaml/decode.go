package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"headgate/internal/format"
)

// maxItems bounds a list without an items tag.
const maxItems = 10000

// NodeDecoder is a setting that reads its node itself.
type NodeDecoder interface {
	DecodeNode(d *Decoder, n *yaml.Node, path string)
}

// Defaulter is an element of a list that has its own defaults.
type Defaulter interface{ SetDefaults() }

// Setting is a field of a struct as its type declares it: its key, from the tag yaml, and its limits.
//
// Tags: min and max bound a whole number, both included, and come in pairs. rule is "positive" (more than zero) or
// "natural" (zero or more). oneof lists the only values. required marks a setting without default, and says what to
// give. items bounds the length of a list.
type Setting struct {
	Name  string
	Index int
	Tag   reflect.StructTag
}

// SettingsOf returns the settings of a struct type in the order of declaration.
func SettingsOf(t reflect.Type) []Setting {
	var all []Setting
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name != "" && name != "-" {
			all = append(all, Setting{name, i, t.Field(i).Tag})
		}
	}
	return all
}

// Limits returns the tags min and max, and whether there are such limits.
func (s Setting) Limits() (least, most int64, ok bool) {
	least, errLeast := strconv.ParseInt(s.Tag.Get("min"), 10, 64)
	most, errMost := strconv.ParseInt(s.Tag.Get("max"), 10, 64)
	return least, most, errLeast == nil && errMost == nil
}

// Choices returns the only values of a setting, none if any is accepted.
func (s Setting) Choices() []string { return strings.Fields(s.Tag.Get("oneof")) }

// Decode reads a document into the struct that target points to, over the defaults that it holds. A nil document
// changes nothing.
func (d *Decoder) Decode(root *yaml.Node, target any) {
	if root == nil {
		return
	}
	v := reflect.ValueOf(target).Elem()
	d.root = v.Type()
	if d.CheckPlain(root, "") {
		d.value(root, v, "", "")
	}
}

// Value reads the node of a setting into what target points to, over what that holds.
func (d *Decoder) Value(n *yaml.Node, target any, path string) {
	d.value(n, reflect.ValueOf(target).Elem(), path, "")
}

// value reads a node into v.
func (d *Decoder) value(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	switch target := v.Addr().Interface().(type) {
	case NodeDecoder:
		target.DecodeNode(d, n, path)
		return
	case encoding.TextUnmarshaler, *string, *bool, *int, *float64, *time.Duration:
		d.Scalar(n, target, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, tag)
	case reflect.Slice:
		d.slice(n, v, path, tag)
	default:
		settings := SettingsOf(v.Type())
		fields := make([]Field, len(settings))
		for i, s := range settings {
			fields[i] = Key(s.Name, func(n *yaml.Node, path string) { d.value(n, v.Field(s.Index), path, s.Tag) })
		}
		d.Mapping(n, path, fields...)
	}
}

// slice reads a list. An empty one is nil.
func (d *Decoder) slice(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	most := maxItems
	if text := tag.Get("items"); text != "" {
		most, _ = strconv.Atoi(text) // 0 after a mistake in the program: nothing is accepted
	}
	v.SetZero()
	if !d.checkList(n, most, path) || len(n.Content) == 0 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	d.items(n, path, func(i int, item *yaml.Node, path string) {
		if e, ok := v.Index(i).Addr().Interface().(Defaulter); ok {
			e.SetDefaults()
		}
		d.value(item, v.Index(i), path, "")
	})
}

// Text reads text, without space around it. Text that looks like a number or a date must be in quotes.
func (d *Decoder) Text(to *string) Reader {
	return func(n *yaml.Node, path string) {
		d.Scalar(n, to, path)
		*to = strings.TrimSpace(*to)
	}
}

// Scalar fills references in, and sets target to what the text then says: a *string, *bool, *int, *float64,
// *time.Duration or encoding.TextUnmarshaler. After a problem target keeps its default, so that no second problem
// follows.
func (d *Decoder) Scalar(n *yaml.Node, target any, path string) {
	if n.Kind != yaml.ScalarNode {
		d.Report(path, "must be a single value, is "+KindName(n))
		return
	}
	text, references := n.Value, ""
	if d.expander != nil {
		var err error
		if text, references, err = d.expander.expand(n.Value); err != nil {
			d.Report(path, err.Error())
			return
		}
	}
	if references != "" {
		d.SetReference(path, references)
	} else if _, isText := target.(*string); isText && n.ShortTag() != "!!str" {
		d.Report(path, "must be text, is "+KindName(n)+": put it in quotes")
		return
	}
	if err := setScalar(target, text); err != nil {
		d.Report(path, d.withActual(path, err.Error(), Quote(text)))
	}
}

func setScalar(target any, text string) error {
	switch t := target.(type) {
	case encoding.TextUnmarshaler:
		return t.UnmarshalText([]byte(text))
	case *string:
		*t = text
		return nil
	case *bool:
		return setParsed(t, text, parseBool)
	case *int:
		return setParsed(t, text, parseInt)
	case *float64:
		return setParsed(t, text, parseNumber)
	case *time.Duration:
		return setParsed(t, text, ParseDuration)
	default:
		return fmt.Errorf("cannot be set: no rule reads a %T", target)
	}
}

func setParsed[T any](target *T, text string, parse func(string) (T, error)) error {
	value, err := parse(text)
	if err == nil {
		*target = value
	}
	return err
}

// parseBool accepts the two words of YAML 1.2 and no others.
func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("must be true or false")
	}
	return text == "true", nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("must be a whole number")
	}
	return n, nil
}

func parseNumber(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, errors.New("must be a finite number such as 0.95")
	}
	return v, nil
}

// CheckTags checks the limits that the type of a struct declares beside its fields.
func (d *Decoder) CheckTags(target any) { d.checkTags(reflect.ValueOf(target).Elem(), "") }

func (d *Decoder) checkTags(v reflect.Value, path string) {
	for _, s := range SettingsOf(v.Type()) {
		p, fv := Join(path, s.Name), v.Field(s.Index)
		d.checkSetting(s, fv, p)
		switch fv.Kind() {
		case reflect.Struct:
			d.checkTags(fv, p)
		case reflect.Pointer:
			if !fv.IsNil() && fv.Elem().Kind() == reflect.Struct {
				d.checkTags(fv.Elem(), p)
			}
		case reflect.Slice:
			for i := range fv.Len() {
				if item := fv.Index(i); item.Kind() == reflect.Struct {
					d.checkTags(item, fmt.Sprintf("%s[%d]", p, i))
				}
			}
		}
	}
}

func (d *Decoder) checkSetting(s Setting, v reflect.Value, path string) {
	give := s.Tag.Get("required")
	if give != "" && v.IsZero() && (v.Kind() == reflect.String || !d.IsSet(path)) && d.Valid(path) {
		d.Report(path, "is missing: give "+give)
	}
	if least, most, ok := s.Limits(); ok {
		switch n := v.Int(); {
		case n < least:
			d.Refuse(path, fmt.Sprintf("must be at least %d", least), strconv.FormatInt(n, 10))
		case n > most:
			d.Refuse(path, fmt.Sprintf("must be at most %d", most), strconv.FormatInt(n, 10))
		}
	}
	switch rule := s.Tag.Get("rule"); {
	case rule == "positive" && v.Int() <= 0:
		d.Refuse(path, "must be more than zero", display(v.Interface()))
	case rule == "natural" && v.Int() < 0:
		d.Refuse(path, "must not be negative", display(v.Interface()))
	}
	choices := s.Choices()
	if len(choices) == 0 || slices.Contains(choices, v.String()) {
		return
	}
	last := len(choices) - 1
	rule := "must be " + strings.Join(choices[:last], ", ") + " or " + choices[last]
	if d.unimplemented(path+"="+v.String()) && d.Valid(path) {
		d.Report(path, v.String()+" "+NotImplemented+": "+rule)
		return
	}
	d.Refuse(path, rule, Quote(v.String()))
}

func display(v any) string {
	if d, ok := v.(time.Duration); ok {
		return format.Duration(d)
	}
	return fmt.Sprint(v)
}
