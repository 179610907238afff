package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"headgate/e2e/harness"
)

// roleVar is the environment variable that makes this binary a process of a benchmark.
const roleVar = "HEADGATE_BENCH_ROLE"

// Roles of this binary. Each serves on a free loopback port, prints its address, and ends when
// its standard input ends, so that none outlives the benchmark.
const (
	roleStub       = "stub"
	roleReverse    = "reverse" // argument: URL of the stub
	roleSupervisor = "keeper"  // arguments: a command that is killed at the end
	roleLoad       = "load"    // arguments: an address to load and what to ask for; prints the number of answers, and ends
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(harness.Run(m))
	}
	if err := runRole(role, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

func runRole(role string, args []string) error {
	failed := make(chan error, 2)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	switch role {
	case roleStub:
		go func() { failed <- serveStub() }()
	case roleReverse:
		go func() { failed <- serveReverse(args[0]) }()
	case roleSupervisor:
		return superviseCommand(args, failed)
	case roleLoad:
		l := generateLoad(args[0], shapes[1].outstanding, args[1], 2*full.load)
		fmt.Println(l.done)
		return l.err
	default:
		return fmt.Errorf("there is no such role")
	}
	return <-failed
}

// superviseCommand runs a command that does not watch its standard input.
func superviseCommand(args []string, over <-chan error) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	err := <-over
	_ = cmd.Process.Kill() // it may have ended by itself
	_ = cmd.Wait()         // it was killed
	return err
}
