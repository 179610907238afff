package modelstub

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// MaxService bounds every drawn service time. It keeps a long tail from
// overflowing a duration; nothing realistic comes near it.
const MaxService = 24 * time.Hour

// firstByteShare is the part of a service time that passes before the first
// byte when the model defines only the total.
const firstByteShare = 0.1

// tokensOverhead is what a token-driven server spends before any prefill.
const tokensOverhead = 30 * time.Millisecond

// Timing is one call's service time in scenario time.
type Timing struct {
	FirstByte time.Duration // from the slot to the first byte
	Total     time.Duration // from the slot to the last byte; never below FirstByte
}

// Service draws service times. Implementations hold no state and are safe for
// concurrent use as long as each goroutine brings its own rand. They need no
// HTTP, so a simulator can draw from the same distributions.
type Service interface {
	// Sample draws one service time. Services that do not depend on size
	// ignore the token counts.
	Sample(r *rand.Rand, promptTokens, outputTokens int) Timing
	// Mean is the expected Total for a call of this size.
	Mean(promptTokens, outputTokens int) time.Duration
	// String is the form that [ParseService] reads.
	String() string
}

// Fixed takes the same time for every call.
type Fixed time.Duration

// Sample returns the fixed time.
func (f Fixed) Sample(*rand.Rand, int, int) Timing { return splitTiming(float64(f)) }

// Mean returns the fixed time.
func (f Fixed) Mean(int, int) time.Duration { return clampDuration(float64(f)) }

// String returns "fixed:DURATION".
func (f Fixed) String() string { return "fixed:" + time.Duration(f).String() }

// Uniform draws evenly between Low and High.
type Uniform struct {
	Low, High time.Duration
}

// Sample draws between Low and High.
func (u Uniform) Sample(r *rand.Rand, _, _ int) Timing {
	return splitTiming(float64(u.Low) + r.Float64()*float64(u.High-u.Low))
}

// Mean is the middle of the range.
func (u Uniform) Mean(int, int) time.Duration {
	return clampDuration(float64(u.Low)/2 + float64(u.High)/2)
}

// String returns "uniform:LOW-HIGH".
func (u Uniform) String() string { return "uniform:" + u.bounds() }

func (u Uniform) bounds() string { return u.Low.String() + "-" + u.High.String() }

// Lognormal has a long right tail: the logarithm of a draw is normal with the
// logarithm of Median as its mean and Sigma as its standard deviation.
type Lognormal struct {
	Median time.Duration
	Sigma  float64
}

// Sample draws from the distribution, bounded by [MaxService].
func (l Lognormal) Sample(r *rand.Rand, _, _ int) Timing {
	return splitTiming(float64(l.Median) * math.Exp(l.Sigma*r.NormFloat64()))
}

// Mean is Median × exp(Sigma²/2).
func (l Lognormal) Mean(int, int) time.Duration {
	return clampDuration(float64(l.Median) * math.Exp(l.Sigma*l.Sigma/2))
}

// String returns "lognormal:MEDIAN,SIGMA".
func (l Lognormal) String() string { return fmt.Sprintf("lognormal:%v,%v", l.Median, l.Sigma) }

// Bimodal mixes two uniform ranges, such as small and large work.
type Bimodal struct {
	Share  float64 // probability of First, 0 to 1
	First  Uniform
	Second Uniform
}

// Sample chooses a range by Share and draws from it.
func (b Bimodal) Sample(r *rand.Rand, p, o int) Timing {
	if r.Float64() < b.Share {
		return b.First.Sample(r, p, o)
	}
	return b.Second.Sample(r, p, o)
}

// Mean is the average of the two means, weighted by Share.
func (b Bimodal) Mean(p, o int) time.Duration {
	first, second := float64(b.First.Mean(p, o)), float64(b.Second.Mean(p, o))
	return clampDuration(b.Share*first + (1-b.Share)*second)
}

// String returns "bimodal:SHARE,LOW-HIGH,LOW-HIGH".
func (b Bimodal) String() string {
	return fmt.Sprintf("bimodal:%v,%s,%s", b.Share, b.First.bounds(), b.Second.bounds())
}

// Tokens takes a time that follows from the size of the call: 30 ms, plus the
// prompt at Prefill, up to the first byte; then the output at Decode.
type Tokens struct {
	Prefill float64 // prompt tokens per second, above 0
	Decode  float64 // output tokens per second, above 0
	Jitter  float64 // 0 to 1; 0.1 varies prefill and decode by up to ±10 %, each on its own
}

// Sample computes the time of a call of this size and varies it by Jitter.
func (t Tokens) Sample(r *rand.Rand, promptTokens, outputTokens int) Timing {
	prefill, decode := t.seconds(promptTokens, outputTokens)
	if t.Jitter > 0 {
		prefill *= 1 + t.Jitter*(2*r.Float64()-1)
		decode *= 1 + t.Jitter*(2*r.Float64()-1)
	}
	first := float64(tokensOverhead) + prefill*float64(time.Second)
	total := first + decode*float64(time.Second)
	return Timing{FirstByte: clampDuration(first), Total: max(clampDuration(first), clampDuration(total))}
}

// Mean is the time without jitter, which is symmetric.
func (t Tokens) Mean(promptTokens, outputTokens int) time.Duration {
	prefill, decode := t.seconds(promptTokens, outputTokens)
	return clampDuration(float64(tokensOverhead) + (prefill+decode)*float64(time.Second))
}

func (t Tokens) seconds(promptTokens, outputTokens int) (prefill, decode float64) {
	return float64(max(promptTokens, 0)) / t.Prefill, float64(max(outputTokens, 0)) / t.Decode
}

// String returns "tokens:PREFILL,DECODE", with the jitter when there is one.
func (t Tokens) String() string {
	if t.Jitter == 0 {
		return fmt.Sprintf("tokens:%v,%v", t.Prefill, t.Decode)
	}
	return fmt.Sprintf("tokens:%v,%v,%v", t.Prefill, t.Decode, t.Jitter)
}

// splitTiming divides a total, in nanoseconds, by firstByteShare.
func splitTiming(total float64) Timing {
	t := clampDuration(total)
	return Timing{FirstByte: clampDuration(float64(t) * firstByteShare), Total: t}
}

// clampDuration turns nanoseconds into a duration from 0 to MaxService; NaN is 0.
func clampDuration(ns float64) time.Duration {
	switch {
	case ns >= float64(MaxService):
		return MaxService
	case ns > 0:
		return time.Duration(ns)
	default:
		return 0
	}
}

// serviceSyntax is the syntax in an error about a mistyped service.
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
// error names the invalid part and the valid values.
func ParseService(s string) (Service, error) {
	name, args, found := strings.Cut(strings.TrimSpace(s), ":")
	if !found {
		return nil, fmt.Errorf("service %q: want one of %s", clip(s), serviceSyntax)
	}
	svc, err := parseNamed(name, serviceArgs{rest: strings.Split(args, ",")})
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", clip(s), err)
	}
	return svc, nil
}

func parseNamed(name string, a serviceArgs) (svc Service, err error) {
	switch name {
	case "fixed":
		a.want(1, 1, "one duration, as in fixed:10s")
		svc = Fixed(a.duration("duration"))
	case "uniform":
		a.want(1, 1, "one range, as in uniform:5s-30s")
		svc = a.durationRange("range")
	case "lognormal":
		a.want(2, 2, "a median and a sigma, as in lognormal:10s,0.6")
		svc = Lognormal{Median: a.duration("median"), Sigma: a.number("sigma", 0, 5)}
	case "bimodal":
		a.want(3, 3, "a share and two ranges, as in bimodal:0.7,3s-8s,20s-40s")
		svc = Bimodal{
			Share: a.number("share of the first range", 0, 1),
			First: a.durationRange("first range"), Second: a.durationRange("second range"),
		}
	case "tokens":
		a.want(2, 3, "prefill and decode in tokens per second and optionally a jitter, as in tokens:4000,66,0.1")
		tokens := Tokens{
			Prefill: a.number("prefill in tokens per second", 0.001, 1e9),
			Decode:  a.number("decode in tokens per second", 0.001, 1e9),
		}
		if len(a.rest) > 0 {
			tokens.Jitter = a.number("jitter", 0, 1)
		}
		svc = tokens
	default:
		return nil, fmt.Errorf("unknown distribution %q: want one of %s", clip(name), serviceSyntax)
	}
	return svc, a.err
}

// serviceArgs reads the arguments of a service one by one, and keeps the first error.
type serviceArgs struct {
	rest []string
	err  error
}

// want checks the number of arguments.
func (a *serviceArgs) want(least, most int, syntax string) {
	if n := len(a.rest); n < least || n > most {
		a.err = fmt.Errorf("want %s", syntax)
	}
}

// readArg reads the next argument, unless an earlier one was wrong.
func readArg[T any](a *serviceArgs, name string, parse func(string) (T, error)) (v T) {
	if a.err != nil {
		return v
	}
	v, err := parse(a.rest[0])
	if a.rest = a.rest[1:]; err != nil {
		a.err = fmt.Errorf("%s: %w", name, err)
	}
	return v
}

func (a *serviceArgs) duration(name string) time.Duration {
	return readArg(a, name, parseServiceDuration)
}

func (a *serviceArgs) number(name string, low, high float64) float64 {
	return readArg(a, name, func(s string) (float64, error) { return parseNumber(s, low, high) })
}

func (a *serviceArgs) durationRange(name string) Uniform { return readArg(a, name, parseRange) }

func parseRange(s string) (u Uniform, err error) {
	low, high, found := strings.Cut(s, "-")
	if !found {
		return u, fmt.Errorf("%q: want two durations joined by a dash, as in 5s-30s", clip(s))
	}
	if u.Low, err = parseServiceDuration(low); err != nil {
		return u, err
	}
	if u.High, err = parseServiceDuration(high); err != nil {
		return u, err
	}
	if u.Low > u.High {
		return u, fmt.Errorf("%q: the lower end comes first, as in %v-%v", clip(s), u.High, u.Low)
	}
	return u, nil
}

func parseServiceDuration(s string) (time.Duration, error) { return parseDuration(s, MaxService) }

func parseDuration(s string, limit time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil {
		return 0, fmt.Errorf("%q: want a duration with a unit, such as 250ms, 10s or 2m", clip(s))
	}
	if d < 0 || d > limit {
		return 0, fmt.Errorf("%q: want a duration from 0s to %v", clip(s), limit)
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

// clip bounds the length of a client's value in an error message.
func clip(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}

// ServiceBounds returns the shortest and the longest time that a call can take; 0 and
// 0 if the longest is unbounded.
func ServiceBounds(s Service) (least, most time.Duration) {
	switch s := s.(type) {
	case Fixed:
		return time.Duration(s), time.Duration(s)
	case Uniform:
		return s.Low, s.High
	case Bimodal:
		return min(s.First.Low, s.Second.Low), max(s.First.High, s.Second.High)
	default:
		return 0, 0
	}
}
