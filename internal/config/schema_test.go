package config

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"headgate/internal/strictyaml"
)

const (
	durationPattern = `^(0|([0-9]+y)?([0-9]+w)?([0-9]+d|([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)|([0-9]+y)?[0-9]+w|[0-9]+y)$`
	bytesPattern    = `^[0-9]+ ?(B|kB|MB|GB|KiB|MiB|GiB|TiB)$`
)

// TestTheSchemaFollowsTheTypes makes the schema for editors out of the types,
// their tags, comments and defaults, and compares it with the file.
func TestTheSchemaFollowsTheTypes(t *testing.T) {
	s := schemaWriter{comments: typeComments(t)}
	defaults := reflect.ValueOf(*Default())
	root := s.object(defaults.Type(), defaults)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Settings of headgate"
	root["definitions"] = map[string]any{"reference": map[string]any{
		"type": "string", "pattern": `\$\{.+\}`,
		"description": "Filled in from ${NAME}, an environment variable, or ${file:PATH}, a file.",
	}}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(root); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/headgate.schema.json", out.String())
}

type object = map[string]any

type schemaWriter struct{ comments map[string]string }

// object describes a struct type. defaults is a value of it that holds them.
func (s schemaWriter) object(t reflect.Type, defaults reflect.Value) object {
	properties, required := object{}, []string{}
	for _, f := range strictyaml.SettingsOf(t) {
		goField := t.Field(f.Index)
		p := s.setting(goField.Type, f, defaults.Field(f.Index))
		p["description"] = s.comments[t.Name()+"."+goField.Name]
		properties[f.Name] = p
		if f.Tag.Get("required") != "" {
			delete(p, "default")
			required = append(required, f.Name)
		}
	}
	o := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func (s schemaWriter) setting(t reflect.Type, f strictyaml.Setting, v reflect.Value) object {
	switch v.Interface().(type) {
	case Secret:
		return object{"type": "string"}
	case time.Duration:
		return withDefault(object{"type": "string", "pattern": durationPattern}, formatScalar(v))
	case Bytes:
		return withDefault(object{"type": "string", "pattern": bytesPattern}, formatScalar(v))
	case bool:
		return withDefault(object{"type": "boolean"}, v.Interface())
	case float64:
		return withDefault(object{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, v.Interface())
	case int:
		least, most, _ := f.Limits()
		return withDefault(object{"type": "integer", "minimum": least, "maximum": most}, v.Interface())
	case string:
		if c := f.Choices(); len(c) > 0 {
			return withDefault(object{"enum": c}, v.Interface())
		}
		return object{"type": "string", "default": v.Interface()}
	case []Drill:
		return object{"type": "array", "items": object{"type": "object"}}
	case []Endpoint:
		item := s.object(t.Elem(), reflect.Zero(t.Elem()))
		return object{"type": "array", "items": object{"anyOf": []object{{"type": "string"}, item}}}
	case []string:
		return object{"type": "array", "items": object{"type": "string"},
			"default": append([]string{}, v.Interface().([]string)...)}
	}
	if t.Kind() == reflect.Slice {
		item := reflect.New(t.Elem())
		item.Interface().(strictyaml.Defaulter).SetDefaults()
		return object{"type": "array", "items": s.object(t.Elem(), item.Elem())}
	}
	return s.object(t, v)
}

// withDefault lets a reference stand in for what is not free text.
func withDefault(kind object, value any) object {
	return object{"anyOf": []object{kind, {"$ref": "#/definitions/reference"}}, "default": value}
}

// typeComments reads the comments of all fields, as Type.Field.
func typeComments(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if text := strings.Join(strings.Fields(f.Doc.Text()), " "); len(f.Names) == 1 {
				found[spec.Name.Name+"."+f.Names[0].Name] = text
			}
		}
		return true
	})
	return found
}

func TestEveryFieldIsExplained(t *testing.T) {
	comments := typeComments(t)
	var walk func(reflect.Type)
	walk = func(st reflect.Type) {
		for _, f := range strictyaml.SettingsOf(st) {
			goField := st.Field(f.Index)
			name := st.Name() + "." + goField.Name
			if text := comments[name]; !strings.HasPrefix(text, goField.Name+" ") || !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q", name, text)
			}
			ft := goField.Type
			if ft.Kind() == reflect.Slice {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				walk(ft)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

func TestTheSchemasPatternsAgreeWithTheParsers(t *testing.T) {
	duration, size := regexp.MustCompile(durationPattern), regexp.MustCompile(bytesPattern)
	for _, text := range []string{"", "0s", "25s", "1m30s", "1.5h", "30d", "1d12h", "1us", "1µs", "d", "30", "s", "1w",
		"25 s", "1d-2h", "1d2d", "1s1d", "0", "1w", "1y2w3d", "1y5m", "1d1w"} {
		if _, err := strictyaml.ParseDuration(text); (err == nil) != duration.MatchString(text) {
			t.Errorf("duration %q: pattern %t, parser %v", text, duration.MatchString(text), err)
		}
	}
	for _, text := range []string{"", "0B", "1kB", "32MiB", "1 GiB", "3TiB", "1024", "1KB", "MiB", "1.5MiB", "-1B", "1  B",
		"2GB"} {
		if _, err := parseBytes(text); (err == nil) != size.MatchString(text) {
			t.Errorf("size %q: pattern %t, parser %v", text, size.MatchString(text), err)
		}
	}
}
