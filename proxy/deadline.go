package proxy

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"headgate/proxy/admission"
)

const (
	deadlineHeader   = "Headgate-Deadline"
	priorityHeader   = "Headgate-Priority"
	sdkTimeoutHeader = "X-Stainless-Timeout"     // seconds; the SDKs send it when their user has set a timeout
	sdkRetryHeader   = "X-Stainless-Retry-Count" // 0 on the first attempt
	maxDeadline      = 24 * time.Hour
)

// deadline returns how long after its arrival a task is still of use: what its
// client asks for, or else the SLO. Interactive tasks never get more than the
// SLO, since nobody promises more.
func deadline(h http.Header, class admission.Class, slo time.Duration) (time.Duration, *failure) {
	asked, f := requestedDeadline(h)
	if f != nil {
		return 0, f
	}
	if asked == 0 || class == admission.Interactive && asked > slo {
		return slo, nil
	}
	return asked, nil
}

// requestedDeadline returns 0 when nothing is asked for. What our own header says
// must make sense; what an SDK happens to send is taken if it does.
func requestedDeadline(h http.Header) (time.Duration, *failure) {
	if s := h.Get(deadlineHeader); s != "" {
		d, ok := parseDeadline(s)
		if !ok {
			return 0, invalidRequest(http.StatusBadRequest, "invalid_deadline",
				"%s must be seconds or a duration such as 1m30s, above 0.", deadlineHeader)
		}
		return d, nil
	}
	if d, ok := parseSeconds(h.Get(sdkTimeoutHeader)); ok {
		return d, nil
	}
	return 0, nil
}

func parseDeadline(s string) (time.Duration, bool) {
	if d, ok := parseSeconds(s); ok {
		return d, true
	}
	d, err := time.ParseDuration(s)
	return min(d, maxDeadline), err == nil && d > 0
}

func parseSeconds(s string) (time.Duration, bool) {
	if s == "" { // most of the time; an error would cost more than all the rest here
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f <= 0 {
		return 0, false
	}
	return max(time.Duration(min(f, maxDeadline.Seconds())*float64(time.Second)), 1), true
}

func isAnnouncedRetry(h http.Header) bool {
	s := h.Get(sdkRetryHeader)
	if s == "" {
		return false
	}
	n, err := strconv.Atoi(s)
	return err == nil && n > 0
}
