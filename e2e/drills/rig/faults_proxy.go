package rig

import "headgate/e2e/sabotage"

const (
	errorsGo   = "proxy/errors.go"
	forwardGo  = "proxy/forward.go"
	copyGo     = "proxy/copy.go"
	proxyTask  = "proxy/task.go"
	writeFails = "	body := f.body()\n	h.Set(\"Content-Type\", \"application/json\")\n"
	roundTrip  = "	res, err := t.pool.transport.RoundTrip(t.upstreamRequest(ctx, body))\n"
	closesBody = "	defer res.Body.Close()\n	dog.rest()\n"
)

// refusalFaults are in what a refused client is told.
func refusalFaults() []Fault {
	return []Fault{
		{"no Retry-After", "burst", "without Retry-After", one(before(errorsGo, writeFails,
			"	if sabotaged(\"no Retry-After\") {\n		h.Del(\"Retry-After\")\n	}\n"))},
		{"Retry-After 0", "burst", "Retry-After", one(before(errorsGo, writeFails,
			"	if sabotaged(\"Retry-After 0\") && f.status == http.StatusTooManyRequests {\n		h.Set(\"Retry-After\", \"0\")\n	}\n"))},
		{"Retry-After 600", "overload", "Retry-After", one(before(errorsGo, writeFails,
			"	if sabotaged(\"Retry-After 600\") && f.status == http.StatusTooManyRequests {\n		h.Set(\"Retry-After\", \"600\")\n	}\n"))},
		{"Retry-After as a date", "burst", "Retry-After", one(before(errorsGo, writeFails,
			"	if sabotaged(\"Retry-After as a date\") && f.status == http.StatusTooManyRequests {\n		h.Set(\"Retry-After\", \"Fri, 01 Jan 2100 00:00:00 GMT\")\n	}\n"))},
		{"no reason", "burst", "do not say why", one(before(errorsGo, writeFails,
			"	if sabotaged(\"no reason\") {\n		h.Del(\"Headgate-Reason\")\n	}\n"))},
		{"refused with 500", "burst", "status 500", one(before(errorsGo, writeFails,
			"	if sabotaged(\"refused with 500\") && f.status == http.StatusTooManyRequests {\n		f.status = http.StatusInternalServerError\n	}\n"))},
		{"late refusals", "burst", "refusals came", one(before(errorsGo, writeFails,
			"	if sabotaged(\"late refusals\") && f.status == http.StatusTooManyRequests {\n		time.Sleep(time.Second)\n	}\n"))},
		{"refused tasks go upstream", "burst", "refused tasks reached the endpoint", one(instead(proxyTask,
			"	if f := t.admit(); f != nil {\n		return f\n", `	if f := t.admit(); f != nil {
		if f.status == http.StatusTooManyRequests && sabotaged("refused tasks go upstream") {
			req := t.upstreamRequest(context.Background(), body)
			go func() {
				if res, err := t.pool.transport.RoundTrip(req); err == nil {
					_ = res.Body.Close()
				}
			}()
		}
		return f
`))},
	}
}

// proxyFaults are in what becomes of a task that was let in.
func proxyFaults() []Fault {
	return []Fault{
		{"calls made twice", "burst", "called 2 times", one(before(forwardGo, roundTrip,
			"	if sabotaged(\"calls made twice\") && time.Now().UnixNano()%10 == 0 {\n		if res, err := t.pool.transport.RoundTrip(t.upstreamRequest(ctx, body)); err == nil {\n			_ = res.Body.Close()\n		}\n	}\n"))},
		{"errors are tried again", "upstream-errors", "called 2 times", one(at(forwardGo, roundTrip,
			"	if err == nil && res.StatusCode >= 500 && sabotaged(\"errors are tried again\") {\n		_ = res.Body.Close()\n		res, err = t.pool.transport.RoundTrip(t.upstreamRequest(ctx, body))\n	}\n"))},
		{"answers swapped", "burst", "another answer|not the endpoint's", []sabotage.Edit{
			before(forwardGo, "// forward sends", `var lastAnswer = make(chan []byte, 1)

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
}

`),
			at(forwardGo, closesBody, "	if sabotaged(\"answers swapped\") {\n		swapped(res)\n	}\n"),
		}},
		{"a byte is changed", "burst", "another answer|not the endpoint's", one(at(copyGo, "	end.look(p)\n",
			"	if sabotaged(\"a byte is changed\") && time.Now().UnixNano()%10 == 0 {\n		p[len(p)/2] ^= 1\n	}\n"))},
		{"cut streams end well", "truncated-streams", "as if it were whole", one(instead(copyGo, "		case err != nil:\n			return t.cut(ctx, err, end)\n",
			"		case err != nil:\n			if sabotaged(\"cut streams end well\") {\n				return nil\n			}\n			return t.cut(ctx, err, end)\n"))},
		{"cut streams are completed", "truncated-streams", "as if it were whole", []sabotage.Edit{
			before(copyGo, "// cut says who", "func (t *task) complete() *failure {\n	return t.send([]byte(\"\\n\\ndata: {\\\"choices\\\":[{\\\"index\\\":0,\\\"delta\\\":{},\\\"finish_reason\\\":\\\"stop\\\"}]}\\n\\ndata: [DONE]\\n\\n\"), true)\n}\n\n"),
			instead(copyGo, "		return broken(admit.Truncated, scrub(err))\n", "		if sabotaged(\"cut streams are completed\") {\n			return t.complete()\n		}\n		return broken(admit.Truncated, scrub(err))\n"),
		}},
		{"errors told as answers", "upstream-errors", "as if it were whole", one(before(forwardGo, "	t.w.WriteHeader(res.StatusCode)\n",
			"	if sabotaged(\"errors told as answers\") && res.StatusCode >= 500 {\n		res.StatusCode = http.StatusOK\n	}\n"))},
		{"errors told as refusals", "upstream-errors", "refused", one(at(forwardGo, closesBody,
			"	if sabotaged(\"errors told as refusals\") && res.StatusCode >= 500 {\n		return t.refuse(admit.ReasonQueueDepth)\n	}\n"))},
		{"some fail", "burst", "no fault had befallen", one(before(forwardGo, roundTrip,
			"	if sabotaged(\"some fail\") && time.Now().UnixNano()%20 == 0 {\n		return t.noAnswer(ctx, io.ErrUnexpectedEOF)\n	}\n"))},
		{"some are never answered", "burst", "never answered|do not come back", one(before(forwardGo, roundTrip,
			"	if sabotaged(\"some are never answered\") && time.Now().UnixNano()%20 == 0 {\n		<-t.r.Context().Done()\n	}\n"))},
		{"answers from a cache", "burst", "without a call|another answer", []sabotage.Edit{
			before(forwardGo, "// upstreamRequest returns", "var cached atomic.Pointer[[]byte]\n\nfunc (t *task) fromCache() *failure {\n	t.setIDs()\n	t.committed = true\n	t.w.Header().Set(\"Content-Type\", \"application/json\")\n	_, _ = t.w.Write(*cached.Load())\n	t.obs.Outcome = admit.Completed\n	return nil\n}\n\n"),
			instead(forwardGo, "	\"strings\"\n	\"time\"\n", "	\"strings\"\n	\"sync/atomic\"\n	\"time\"\n"),
			before(forwardGo, roundTrip, "	if cached.Load() != nil && sabotaged(\"answers from a cache\") && time.Now().UnixNano()%5 == 0 {\n		return t.fromCache()\n	}\n"),
			at(forwardGo, closesBody, "	if sabotaged(\"answers from a cache\") {\n		if b, err := io.ReadAll(res.Body); err == nil {\n			cached.Store(&b)\n			res.Body = io.NopCloser(bytes.NewReader(b))\n		}\n	}\n"),
		}},
		{"answers held back", "burst", "after the endpoint was done", one(at(forwardGo, "	defer end.close()\n",
			"	if sabotaged(\"answers held back\") {\n		defer time.Sleep(time.Second)\n	}\n"))},
		{"streams held back", "overload", "do not flow as they come", one(at(forwardGo, closesBody,
			"	if sabotaged(\"streams held back\") {\n		if b, err := io.ReadAll(res.Body); err == nil {\n			res.Body = io.NopCloser(bytes.NewReader(b))\n		}\n	}\n"))},
		{"permits kept too long", "burst", "permits do not come back", one(before(proxyTask, "	defer t.pool.Gate.Over(end, t.ticket)\n",
			"	if sabotaged(\"permits kept too long\") {\n		time.Sleep(500 * time.Millisecond)\n	}\n"))},
	}
}
