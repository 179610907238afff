package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// checkTags checks the limits that the types declare beside their fields.
func (l *checker) checkTags(v reflect.Value, path string) {
	for _, f := range fieldsOf(v.Type()) {
		p, fv := join(path, f.name), v.Field(f.index)
		l.checkRequired(f, fv, p)
		l.checkBounds(f, fv, p)
		l.checkSign(f, fv, p)
		l.checkOneOf(f, fv, p)
		switch fv.Kind() {
		case reflect.Struct:
			l.checkTags(fv, p)
		case reflect.Slice:
			l.checkElements(fv, p)
		}
	}
}

func (l *checker) checkElements(v reflect.Value, path string) {
	for i := range v.Len() {
		if item := v.Index(i); item.Kind() == reflect.Struct {
			l.checkTags(item, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (l *checker) checkRequired(f field, v reflect.Value, path string) {
	if give := f.tag.Get("required"); give != "" && v.IsZero() && l.ok(path) {
		l.report(path, "is missing: give "+give)
	}
}

// checkBounds applies min and max, which come in pairs.
func (l *checker) checkBounds(f field, v reflect.Value, path string) {
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

func (l *checker) checkSign(f field, v reflect.Value, path string) {
	switch rule := f.tag.Get("rule"); {
	case rule == "positive" && v.Int() <= 0:
		l.invalid(path, "must be more than zero", formatScalar(v))
	case rule == "natural" && v.Int() < 0:
		l.invalid(path, "must not be negative", formatScalar(v))
	}
}

func (l *checker) checkOneOf(f field, v reflect.Value, path string) {
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
	if unimplemented[withoutIndexes(path)+"="+v.String()] && l.ok(path) {
		l.report(path, v.String()+" "+unimplementedMessage+": "+rule)
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
