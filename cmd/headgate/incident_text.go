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
		return sanitize(i.Peak)
	case i.Level == "page":
		return "PAGE"
	default:
		return sanitize(i.Level)
	}
}

// incidentState says in a few words how an incident stands.
func incidentState(i *api.Incident) string {
	if i.EndedAt != nil {
		return fmt.Sprintf("%s after %s", endReason(i), elapsed(i.OpenedAt, *i.EndedAt))
	}
	words := []string{"open"}
	if i.AckedBy != nil && i.AckUntil != nil {
		words = append(words, fmt.Sprintf("taken by %s until %s", sanitize(*i.AckedBy), formatTime(*i.AckUntil)))
	}
	if i.Silenced {
		words = append(words, "silenced")
	}
	if i.Flapping {
		words = append(words, "flapping")
	}
	return strings.Join(words, ", ")
}

func endReason(i *api.Incident) string {
	switch {
	case i.EndReason == nil || *i.EndReason == "":
		return "over"
	case *i.EndReason == "no_traffic":
		return "over (no traffic)"
	case *i.EndReason == "rule_deleted":
		return "over (rule deleted)"
	default:
		return sanitize(*i.EndReason)
	}
}

// formatValue shows a value with its unit, in a form that people read at a glance.
func formatValue(v *float64, unit string) string {
	switch {
	case v == nil:
		return "-"
	case unit == "s":
		return formatSeconds(*v)
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
	return n + " " + sanitize(unit)
}

// formatTime shows a time of the API to the second.
func formatTime(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return sanitize(s)
	}
	return t.UTC().Format(time.RFC3339)
}

func elapsed(from, to string) string {
	a, errA := time.Parse(time.RFC3339, from)
	b, errB := time.Parse(time.RFC3339, to)
	if errA != nil || errB != nil {
		return "?"
	}
	return formatSeconds(b.Sub(a).Seconds())
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return sanitize(s)
}

// ruleInPool names a rule and where it counts.
func ruleInPool(rule, pool string) string {
	if pool == "" {
		return sanitize(rule)
	}
	return sanitize(rule) + " in " + sanitize(pool)
}
