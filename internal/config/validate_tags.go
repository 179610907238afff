package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// tags checks the limits that the types declare beside their fields.
func (l *ledger) tags(v reflect.Value, path string) {
	for _, f := range fieldsOf(v.Type()) {
		p, fv := join(path, f.name), v.Field(f.index)
		l.required(f, fv, p)
		l.bounds(f, fv, p)
		l.sign(f, fv, p)
		l.oneOf(f, fv, p)
		switch fv.Kind() {
		case reflect.Struct:
			l.tags(fv, p)
		case reflect.Slice:
			l.elements(fv, p)
		}
	}
}

func (l *ledger) elements(v reflect.Value, path string) {
	for i := range v.Len() {
		if item := v.Index(i); item.Kind() == reflect.Struct {
			l.tags(item, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (l *ledger) required(f field, v reflect.Value, path string) {
	if give := f.tag.Get("required"); give != "" && v.IsZero() && l.clean(path) {
		l.refuse(path, "is missing: give "+give)
	}
}

// bounds applies min and max, which come in pairs.
func (l *ledger) bounds(f field, v reflect.Value, path string) {
	least, most, ok := limits(f)
	if !ok {
		return
	}
	switch n := v.Int(); {
	case n < least:
		l.invalid(path, fmt.Sprintf("must be at least %d", least), strconv.FormatInt(n, 10))
	case n > most:
		l.invalid(path, fmt.Sprintf("must be at most %d", most), strconv.FormatInt(n, 10))
	}
}

func limits(f field) (least, most int64, ok bool) {
	least, errLeast := strconv.ParseInt(f.tag.Get("min"), 10, 64)
	most, errMost := strconv.ParseInt(f.tag.Get("max"), 10, 64)
	return least, most, errLeast == nil && errMost == nil
}

func (l *ledger) sign(f field, v reflect.Value, path string) {
	switch rule := f.tag.Get("rule"); {
	case rule == "positive" && v.Int() <= 0:
		l.invalid(path, "must be more than zero", textOf(v))
	case rule == "natural" && v.Int() < 0:
		l.invalid(path, "must not be negative", textOf(v))
	}
}

func (l *ledger) oneOf(f field, v reflect.Value, path string) {
	allowed := choices(f)
	if allowed == nil {
		return
	}
	for _, a := range allowed {
		if v.String() == a {
			return
		}
	}
	rule := "must be " + strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	if later[generic(path)+"="+v.String()] && l.clean(path) {
		l.refuse(path, v.String()+" "+notYet+": "+rule)
		return
	}
	l.invalid(path, rule, quote(v.String()))
}

// choices lists the only values of a field, or nil when there is no such list.
func choices(f field) []string {
	if list := f.tag.Get("oneof"); list != "" {
		return strings.Fields(list)
	}
	return nil
}
