package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"headgate/web/api"
)

// levelOf writes an open page in capitals; of what is over it tells the worst.
func levelOf(i *api.Incident) string {
	switch {
	case i.EndedAt != nil:
		return inert(i.Peak)
	case i.Level == "page":
		return "PAGE"
	default:
		return inert(i.Level)
	}
}

// standing says in a few words how an incident stands.
func standing(i *api.Incident) string {
	if i.EndedAt != nil {
		return fmt.Sprintf("%s after %s", ending(i), between(i.OpenedAt, *i.EndedAt))
	}
	words := []string{"open"}
	if i.AckedBy != nil && i.AckUntil != nil {
		words = append(words, fmt.Sprintf("taken by %s until %s", inert(*i.AckedBy), moment(*i.AckUntil)))
	}
	if i.Silenced {
		words = append(words, "silenced")
	}
	if i.Flapping {
		words = append(words, "flapping")
	}
	return strings.Join(words, ", ")
}

func ending(i *api.Incident) string {
	switch {
	case i.Ending == nil || *i.Ending == "":
		return "over"
	case *i.Ending == "no_traffic":
		return "over (no traffic)"
	case *i.Ending == "rule_deleted":
		return "over (rule deleted)"
	default:
		return inert(*i.Ending)
	}
}

// amount shows a value with its unit, in a form that people read at a glance.
func amount(v *float64, unit string) string {
	switch {
	case v == nil:
		return "-"
	case unit == "s":
		return seconds(*v)
	case unit == "ratio":
		return strconv.FormatFloat(math.Round(1000**v)/10, 'f', -1, 64) + "%"
	}
	n := strconv.FormatFloat(*v, 'g', 4, 64)
	switch unit {
	case "":
		return n
	case "burn": // how many times faster than allowed
		return n + "×"
	}
	return n + " " + inert(unit)
}

// moment shows a time of the API to the second.
func moment(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return inert(s)
	}
	return t.UTC().Format(time.RFC3339)
}

func between(from, to string) string {
	a, errA := time.Parse(time.RFC3339, from)
	b, errB := time.Parse(time.RFC3339, to)
	if errA != nil || errB != nil {
		return "?"
	}
	return seconds(b.Sub(a).Seconds())
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return inert(s)
}

// ruleIn names a rule and where it counts.
func ruleIn(rule, pool string) string {
	if pool == "" {
		return inert(rule)
	}
	return inert(rule) + " in " + inert(pool)
}
