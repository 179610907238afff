//go:build !linux

package harness

import "os/exec"

// startTied starts a process; only Linux can tie its life to ours.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
