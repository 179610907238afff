package config

import (
	"reflect"
	"strings"
	"testing"

	"headgate/internal/strictyaml"
)

func TestEveryLaterSettingIsRefusedAsSuch(t *testing.T) {
	known := map[string]bool{}
	for _, p := range strictyaml.SettingPaths(reflect.TypeFor[Config](), "") {
		known[p] = true
	}
	const head = "pools:\n  - name: a\n    upstream: http://127.0.0.1:8080/v1\n"
	for path := range unimplemented {
		setting, value, isValue := strings.Cut(path, "=")
		if known[setting] != isValue {
			t.Errorf("%s: a later setting that exists, or a later value of none", path)
		}
		if !isValue {
			value = "x"
		}
		text := nest(setting, value)
		if strings.HasPrefix(setting, "pools[].") {
			text = head + strings.TrimPrefix(text, "pools: \n  - \n")
		}
		_, err := Parse("f.yaml", []byte(text), nil)
		if err == nil || !strings.Contains(err.Error(), strictyaml.NotImplemented) {
			t.Errorf("%s: %v in\n%s", path, err, text)
		}
	}
}

// nest writes a.b[].c and a value as YAML.
func nest(path, value string) string {
	var b strings.Builder
	indent := ""
	for step := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(step, "[]")
		b.WriteString("\n" + indent + name + ": ")
		indent += "  "
		if list {
			b.WriteString("\n" + indent + "- ")
			indent += "  "
		}
	}
	return strings.TrimPrefix(b.String(), "\n") + value + "\n"
}

// TestTagsAreWellFormed guards the declarations that the checks are made of.
func TestTagsAreWellFormed(t *testing.T) {
	defaults := reflect.ValueOf(*Default())
	checkTags(t, defaults, "")
	checkTags(t, reflect.ValueOf(Client{}), "clients[]")
}

func checkTags(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	for _, f := range strictyaml.SettingsOf(v.Type()) {
		p, fv := strictyaml.Join(path, f.Name), v.Field(f.Index)
		least, most, ok := f.Limits()
		if bounded := f.Tag.Get("min")+f.Tag.Get("max") != ""; bounded != ok || ok && least > most {
			t.Errorf("%s: limits %q to %q", p, f.Tag.Get("min"), f.Tag.Get("max"))
		}
		if rule := f.Tag.Get("rule"); rule != "" && rule != "positive" && rule != "natural" {
			t.Errorf("%s: no check for rule %q", p, rule)
		}
		if number := fv.CanInt(); number && !ok && f.Tag.Get("rule") == "" {
			t.Errorf("%s: a number without limits", p)
		}
		switch _, secret := fv.Interface().(Secret); {
		case fv.Kind() == reflect.Struct && !secret:
			checkTags(t, fv, p)
		case fv.Kind() == reflect.Slice && fv.Len() > 0 && fv.Index(0).Kind() == reflect.Struct:
			checkTags(t, fv.Index(0), p+"[]")
		}
	}
}
