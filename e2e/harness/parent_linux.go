package harness

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

type startCall struct {
	cmd *exec.Cmd
	err chan error
}

// pinnedStarter is a goroutine on a thread that lives as long as the test binary. The
// kernel sends the parent-death signal when the thread that started a process ends, so
// processes started from this thread end with the test binary, even if that is killed.
var pinnedStarter = sync.OnceValue(func() chan<- startCall {
	requests := make(chan startCall)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.err <- r.cmd.Start()
		}
	}()
	return requests
})

// startWithParent starts a process that does not outlive this one.
func startWithParent(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r := startCall{cmd, make(chan error, 1)}
	pinnedStarter() <- r
	return <-r.err
}
