package harness

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

type starting struct {
	cmd *exec.Cmd
	err chan error
}

// parent is a goroutine on a thread that lives as long as the test binary. The
// kernel kills what was started from it when it goes, so that nothing is left
// running even when the tests are killed. (The signal comes when the thread
// that started a process ends, hence a thread of its own.)
var parent = sync.OnceValue(func() chan<- starting {
	requests := make(chan starting)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.err <- r.cmd.Start()
		}
	}()
	return requests
})

// startTied starts a process that does not outlive this one.
func startTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r := starting{cmd, make(chan error, 1)}
	parent() <- r
	return <-r.err
}
