package browser

import (
	"strings"
	"testing"
)

// withAndWithoutScript runs a test in a tab with JavaScript and in one without.
func withAndWithoutScript(t *testing.T, h *instance, test func(b *tab)) {
	t.Helper()
	for name, scripted := range map[string]bool{"with a script": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			b := h.tab(t)
			if !scripted {
				b.disableScript()
			}
			test(b)
		})
	}
}

// Sign-in, rollback with its confirmation, and restore.
func TestRollbackAndRestore(t *testing.T) {
	t.Parallel()
	h := options{}.start(t)
	withAndWithoutScript(t, h, func(b *tab) {
		h.signIn(b, "Ana Lyst")
		b.waitText("Ana Lyst", "Enforce")
		b.click("Roll back main")
		b.waitPath("/mode")
		b.waitText("What will happen", "Nothing is refused from then on", "recorded with your name, Ana Lyst")
		if mode := h.Status(b.T)["main"].Mode; mode != "enforce" {
			b.Errorf("the mode is %s before the confirmation", mode)
		}
		b.click("Cancel")
		b.waitPath("/")
		b.click("Roll back main")
		b.fill("reason", "it refuses who it should not")
		b.click("Roll back pool main")
		b.waitPath("/")
		b.waitText("Pass-through")
		b.checkAccessible("the overview of a gate that is out")
		now := h.Status(b.T)["main"]
		if now.Mode != "passthrough" || now.ModeBy != "Ana Lyst" || now.ModeReason != "it refuses who it should not" {
			b.Errorf("the pool is %+v", now)
		}
		b.click("Restore main")
		b.waitPath("/mode")
		b.click("Restore pool main")
		b.waitPath("/")
		b.waitText("Enforce")
		if mode := h.Status(b.T)["main"].Mode; mode != "enforce" {
			b.Errorf("the mode is %s after a restore", mode)
		}
		b.click("Audit")
		b.waitPath("/audit")
		b.waitText("it refuses who it should not", "Ana Lyst")
		b.click("Sign out")
		b.waitPath("/login")
		b.navigate("/audit")
		b.waitPath("/login")
		if !strings.Contains(b.pathAndQuery(), "next=%2Faudit") {
			b.Errorf("a sign-in now does not lead to the audit: %s", b.pathAndQuery())
		}
	})
}
