package modelstub

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// serviceSyntax is what an error tells someone who mistyped a service.
const serviceSyntax = "uniform:5s-30s, lognormal:10s,0.6, fixed:10s, bimodal:0.7,3s-8s,20s-40s or tokens:4000,66"

// ParseService reads a service-time model:
//
//	fixed:10s                    always 10 s
//	uniform:5s-30s               evenly between the two
//	lognormal:10s,0.6            median 10 s, sigma 0.6
//	bimodal:0.7,3s-8s,20s-40s    70 % from the first range, the rest from the second
//	tokens:4000,66               30 ms + prompt tokens at 4000/s, then output tokens at 66/s
//	tokens:4000,66,0.1           the same, varied by up to ±10 %
//
// Durations are those of [time.ParseDuration], from 0 to [MaxService]. An
// error says which part is wrong and what would be right.
func ParseService(s string) (Service, error) {
	name, args, found := strings.Cut(strings.TrimSpace(s), ":")
	if !found {
		return nil, fmt.Errorf("service %q: want one of %s", clip(s), serviceSyntax)
	}
	svc, err := parseNamed(name, strings.Split(args, ","))
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", clip(s), err)
	}
	return svc, nil
}

func parseNamed(name string, args []string) (Service, error) {
	switch name {
	case "fixed":
		return parseFixed(args)
	case "uniform":
		return parseUniform(args)
	case "lognormal":
		return parseLognormal(args)
	case "bimodal":
		return parseBimodal(args)
	case "tokens":
		return parseTokens(args)
	}
	return nil, fmt.Errorf("unknown distribution %q: want one of %s", clip(name), serviceSyntax)
}

func parseFixed(args []string) (Service, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("want one duration, as in fixed:10s")
	}
	d, err := parseServiceDuration(args[0])
	return Fixed(d), err
}

func parseUniform(args []string) (Service, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("want one range, as in uniform:5s-30s")
	}
	return parseRange(args[0])
}

func parseLognormal(args []string) (Service, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("want a median and a sigma, as in lognormal:10s,0.6")
	}
	median, err := parseServiceDuration(args[0])
	if err != nil {
		return nil, fmt.Errorf("median: %w", err)
	}
	sigma, err := parseNumber(args[1], 0, 5)
	if err != nil {
		return nil, fmt.Errorf("sigma: %w", err)
	}
	return Lognormal{Median: median, Sigma: sigma}, nil
}

func parseBimodal(args []string) (Service, error) {
	if len(args) != 3 {
		return nil, fmt.Errorf("want a share and two ranges, as in bimodal:0.7,3s-8s,20s-40s")
	}
	share, err := parseNumber(args[0], 0, 1)
	if err != nil {
		return nil, fmt.Errorf("share of the first range: %w", err)
	}
	first, err := parseRange(args[1])
	if err != nil {
		return nil, fmt.Errorf("first range: %w", err)
	}
	second, err := parseRange(args[2])
	if err != nil {
		return nil, fmt.Errorf("second range: %w", err)
	}
	return Bimodal{Share: share, First: first, Second: second}, nil
}

func parseTokens(args []string) (Service, error) {
	if len(args) != 2 && len(args) != 3 {
		return nil, fmt.Errorf("want prefill and decode in tokens per second and, if wished, a jitter, as in tokens:4000,66,0.1")
	}
	var t Tokens
	var err error
	if t.Prefill, err = parseNumber(args[0], 0.001, 1e9); err != nil {
		return nil, fmt.Errorf("prefill in tokens per second: %w", err)
	}
	if t.Decode, err = parseNumber(args[1], 0.001, 1e9); err != nil {
		return nil, fmt.Errorf("decode in tokens per second: %w", err)
	}
	if len(args) == 3 {
		if t.Jitter, err = parseNumber(args[2], 0, 1); err != nil {
			return nil, fmt.Errorf("jitter: %w", err)
		}
	}
	return t, nil
}

func parseRange(s string) (Uniform, error) {
	low, high, found := strings.Cut(s, "-")
	if !found {
		return Uniform{}, fmt.Errorf("range %q: want two durations joined by a dash, as in 5s-30s", clip(s))
	}
	var u Uniform
	var err error
	if u.Low, err = parseServiceDuration(low); err != nil {
		return Uniform{}, err
	}
	if u.High, err = parseServiceDuration(high); err != nil {
		return Uniform{}, err
	}
	if u.Low > u.High {
		return Uniform{}, fmt.Errorf("range %q: the lower end comes first, as in %v-%v", clip(s), u.High, u.Low)
	}
	return u, nil
}

func parseServiceDuration(s string) (time.Duration, error) {
	return parseDuration(s, MaxService)
}

func parseDuration(s string, limit time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil {
		return 0, fmt.Errorf("duration %q: want a number with a unit, such as 250ms, 10s or 2m", clip(s))
	}
	if d < 0 || d > limit {
		return 0, fmt.Errorf("duration %q: want 0s to %v", clip(s), limit)
	}
	return d, nil
}

func parseNumber(s string, low, high float64) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || f < low || f > high {
		return 0, fmt.Errorf("%q: want a number from %v to %v", clip(s), low, high)
	}
	return f, nil
}

// clip keeps what a stranger sent from filling an error message.
func clip(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
