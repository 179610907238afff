package fakeslack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// deliverHTTP posts an interaction to a request URL, once unless a fault has it
// otherwise. It returns the last answer.
func (s *Server) deliverHTTP(ctx context.Context, to callbackTarget, i Interaction, f Fault, r *Receipt) (said []byte, err error) {
	body := i.form().Encode()
	at := s.requestTime(f)
	said, err = s.postOnce(ctx, to, body, at, 0, f, r)
	if f.Kind == Duplicated {
		return s.postOnce(ctx, to, body, at, 0, f, r)
	}
	if f.Kind != Retried {
		return said, err
	}
	for n := 1; err != nil && n <= maxRetries && ctx.Err() == nil; n++ {
		said, err = s.postOnce(ctx, to, body, s.requestTime(f), n, f, r)
	}
	return said, err
}

// requestTime is when a request says that it was made.
func (s *Server) requestTime(f Fault) int64 {
	at := s.o.Now()
	if f.Kind == Backdated {
		at = at.Add(-f.Delay)
	}
	return at.Unix()
}

// postOnce posts once. Retries are numbered from 1.
func (s *Server) postOnce(ctx context.Context, to callbackTarget, body string, at int64, retry int, f Fault, r *Receipt) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.ResponseTimeout)
	defer cancel()
	signature := sign(to.secret, at, body)
	switch f.Kind {
	case Forged:
		signature = sign(to.secret+"?", at, body)
	case Tampered:
		body += "&tampered=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
	if f.Kind != Unsigned {
		req.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(at, 10))
		req.Header.Set("X-Slack-Signature", signature)
	}
	if retry > 0 {
		req.Header.Set("X-Slack-Retry-Num", strconv.Itoa(retry))
		req.Header.Set("X-Slack-Retry-Reason", "http_timeout")
	}
	r.Sent++
	return s.doRequest(req, r)
}

func (s *Server) doRequest(req *http.Request, r *Receipt) ([]byte, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, ErrNoResponse
		}
		return nil, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes))
	if err != nil {
		return nil, fmt.Errorf("read the app's answer: %w", err)
	}
	r.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w but %d", ErrBadResponse, resp.StatusCode)
	}
	r.Responses++
	return said, nil
}

// sign is Slack's signature, version 0.
func sign(secret string, at int64, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%d:%s", at, body)
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// newClient follows no redirects, and keeps no connection after an answer, so
// that nothing is left of it.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxConnsPerHost: maxInFlight},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
