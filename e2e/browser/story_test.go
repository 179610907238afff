package browser

import (
	"strings"
	"testing"
)

// both runs a test in a tab with JavaScript and in one without.
func both(t *testing.T, h *house, test func(b *tab)) {
	t.Helper()
	for name, scripted := range map[string]bool{"with a script": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			b := h.tab(t)
			if !scripted {
				b.withoutScript()
			}
			test(b)
		})
	}
}

// TestGateIsTakenOutAndPutBack: on-call signs in, rolls back, is asked first, sees
// that it counts, and puts the gate back.
func TestGateIsTakenOutAndPutBack(t *testing.T) {
	t.Parallel()
	h := plan{}.build(t)
	both(t, h, func(b *tab) {
		h.signIn(b, "Ana Lyst")
		b.sees("Ana Lyst", "Enforce")
		b.press("Roll back main")
		b.at("/mode")
		b.sees("What will happen", "Nothing is refused from then on", "recorded with your name, Ana Lyst")
		if mode := h.Status(b.T)["main"].Mode; mode != "enforce" {
			b.Errorf("the mode is %s before anybody has agreed", mode)
		}
		b.press("Leave it as it is")
		b.at("/")
		b.press("Roll back main")
		b.fill("reason", "it refuses who it should not")
		b.press("Roll back pool main")
		b.at("/")
		b.sees("Pass-through")
		b.usableNow("the overview of a gate that is out")
		now := h.Status(b.T)["main"]
		if now.Mode != "passthrough" || now.ModeBy != "Ana Lyst" || now.ModeReason != "it refuses who it should not" {
			b.Errorf("the pool is %+v", now)
		}
		b.press("Restore main")
		b.at("/mode")
		b.press("Restore pool main")
		b.at("/")
		b.sees("Enforce")
		if mode := h.Status(b.T)["main"].Mode; mode != "enforce" {
			b.Errorf("the mode is %s after a restore", mode)
		}
		b.press("Audit")
		b.at("/audit")
		b.sees("it refuses who it should not", "Ana Lyst")
		b.press("Sign out")
		b.at("/login")
		b.visit("/audit")
		b.at("/login")
		if !strings.Contains(b.address(), "next=%2Faudit") {
			b.Errorf("whoever signs in now does not get to the audit: %s", b.address())
		}
	})
}
