package drilltest

import "headgate/e2e/mutation"

// refusalFaults are in the answer to a refused request.
func refusalFaults() []Fault {
	return []Fault{
		{"no Retry-After", "burst", "without Retry-After", edits(errorHeaders.Code(
			`if mutated() { h.Del("Retry-After") }`))},
		{"Retry-After 0", "burst", "Retry-After", edits(errorHeaders.Code(
			`if mutated() && f.status == http.StatusTooManyRequests { h.Set("Retry-After", "0") }`))},
		{"Retry-After 600", "overload", "Retry-After", edits(errorHeaders.Code(
			`if mutated() && f.status == http.StatusTooManyRequests { h.Set("Retry-After", "600") }`))},
		{"Retry-After as a date", "burst", "Retry-After", edits(errorHeaders.Code(
			`if mutated() && f.status == http.StatusTooManyRequests { h.Set("Retry-After", "Fri, 01 Jan 2100 00:00:00 GMT") }`))},
		{"no reason", "burst", "do not say why", edits(errorHeaders.Code(
			`if mutated() { h.Del("Headgate-Reason") }`))},
		{"refused with 500", "burst", "status 500", edits(errorHeaders.Code(
			`if mutated() && f.status == http.StatusTooManyRequests { f.status = http.StatusInternalServerError }`))},
		{"late refusals", "burst", "refusals came", edits(errorHeaders.Code(
			`if mutated() && f.status == http.StatusTooManyRequests { time.Sleep(time.Second) }`))},
		{"refused tasks go upstream", "burst", "refused tasks reached the endpoint",
			edits(handleTask.Inside(mutation.Call("admit")).Code(
				`if f.status == http.StatusTooManyRequests && mutated() {
				req := t.upstreamRequest(context.Background(), body)
				go func() {
					if res, err := t.pool.transport.RoundTrip(req); err == nil { _ = res.Body.Close() }
				}()
			}`))},
	}
}

// proxyFaults are in the forwarding of an admitted task.
func proxyFaults() []Fault {
	return []Fault{
		{"calls made twice", "burst", "called 2 times", edits(beforeUpstream.Code(
			`if mutated() && time.Now().UnixNano()%10 == 0 {
				if res, err := t.pool.transport.RoundTrip(t.upstreamRequest(ctx, body)); err == nil { _ = res.Body.Close() }
			}`))},
		{"errors are tried again", "upstream-errors", "called 2 times", edits(afterUpstream.Code(
			`if err == nil && res.StatusCode >= 500 && mutated() {
				_ = res.Body.Close()
				res, err = t.pool.transport.RoundTrip(t.upstreamRequest(ctx, body))
			}`))},
		{"answers swapped", "burst", "another answer|not the endpoint's", edits(
			proxy.Declare(`var lastAnswer = make(chan []byte, 1)

func swapped(res *http.Response) {
	mine, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err == nil {
		select {
		case other := <-lastAnswer:
			lastAnswer <- mine
			mine = other
		default:
			lastAnswer <- mine
		}
	}
	res.ContentLength = int64(len(mine))
	res.Header.Set("Content-Length", strconv.Itoa(len(mine)))
	res.Body = io.NopCloser(bytes.NewReader(mine))
}`),
			afterHeaders.Code(`if mutated() { swapped(res) }`),
		)},
		{"a byte is changed", "burst", "another answer|not the endpoint's",
			edits(copyChunk.After(mutation.Call("observe")).Code(
				`if mutated() && time.Now().UnixNano()%10 == 0 { p[len(p)/2] ^= 1 }`))},
		{"cut streams end well", "truncated-streams", "as if it were whole",
			edits(copyBody.Before(mutation.Call("readFailure")).Code(
				`if mutated() { return nil }`))},
		{"cut streams are completed", "truncated-streams", "as if it were whole", edits(
			proxy.Declare(`func (t *task) complete() *failure {
	return t.send([]byte("\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"), true)
}`),
			streamError.Before(mutation.Call("scrub")).Code(`if mutated() { return t.complete() }`),
		)},
		{"errors counted as answers", "upstream-errors", "as if it were whole",
			edits(passHeaders.Before(mutation.Call("WriteHeader")).Code(
				`if mutated() && res.StatusCode >= 500 { res.StatusCode = http.StatusOK }`))},
		{"errors counted as refusals", "upstream-errors", "refused", edits(afterHeaders.Code(
			`if mutated() && res.StatusCode >= 500 { return t.refuse(admission.ReasonQueueDepth) }`))},
		{"some fail", "burst", "no fault had hit", edits(beforeUpstream.Code(
			`if mutated() && time.Now().UnixNano()%20 == 0 { return t.roundTripFailure(ctx, io.ErrUnexpectedEOF) }`))},
		{"some are never answered", "burst", "never answered|are not returned", edits(beforeUpstream.Code(
			`if mutated() && time.Now().UnixNano()%20 == 0 { <-t.r.Context().Done() }`))},
		{"answers from a cache", "burst", "without a call|another answer", edits(
			proxy.Declare(`var cached atomic.Pointer[[]byte]

func (t *task) fromCache() *failure {
	t.setIDs()
	t.headersSent = true
	t.w.Header().Set("Content-Type", "application/json")
	_, _ = t.w.Write(*cached.Load())
	t.obs.Outcome = admission.Completed
	return nil
}`),
			beforeUpstream.Code(`if cached.Load() != nil && mutated() && time.Now().UnixNano()%5 == 0 { return t.fromCache() }`),
			afterHeaders.Code(`if mutated() {
				if b, err := io.ReadAll(res.Body); err == nil {
					cached.Store(&b)
					res.Body = io.NopCloser(bytes.NewReader(b))
				}
			}`),
		)},
		{"answers held back", "burst", "after the endpoint was done",
			edits(passHeaders.After(mutation.Call("close")).Code(
				`if mutated() { defer time.Sleep(time.Second) }`))},
		{"streams held back", "overload", "are not streamed", edits(afterHeaders.Code(
			`if mutated() {
				if b, err := io.ReadAll(res.Body); err == nil { res.Body = io.NopCloser(bytes.NewReader(b)) }
			}`))},
		{"permits kept too long", "burst", "permits are not returned",
			edits(releasePermit.Before(mutation.Call("Finish")).Code(
				`if mutated() { time.Sleep(500 * time.Millisecond) }`))},
	}
}
