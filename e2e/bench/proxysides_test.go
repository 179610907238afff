package bench

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// side is a path from the client to the stub.
type side struct {
	name string
	addr string // host:port
	pid  int    // of the proxy; 0: there is none
}

const (
	direct   = "direct"
	headgate = "headgate"
	reverse  = "ReverseProxy"
	haproxy  = "HAProxy"
)

// manyWorkers exceeds the requests in flight, so that none is queued.
const manyWorkers = 4096

// startSides starts the stub and the proxies in front of it: HAProxy only if it is installed.
func startSides(t testing.TB) []side {
	stub := startRole(t, roleStub)
	sides := []side{
		{name: direct, addr: stub.line},
		startHeadgate(t, stub.line, manyWorkers).side,
	}
	rp := startRole(t, roleReverse, "http://"+stub.line)
	sides = append(sides, side{name: reverse, addr: rp.line, pid: rp.pid})
	if path, err := exec.LookPath("haproxy"); err == nil {
		sides = append(sides, startHAProxy(t, path, stub.line))
	} else {
		t.Log("HAProxy is not installed and not measured")
	}
	return sides
}

// role is a process of this binary.
type role struct {
	line string // its first line of output
	pid  int
}

func startRole(t testing.TB, name string, args ...string) role {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVar+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not start: %v", name, err)
	}
	return role{strings.TrimSpace(line), cmd.Process.Pid}
}

// headgateSide is a headgate with its admin plane.
type headgateSide struct {
	side
	gate *harness.Gate
}

// startHeadgate starts the program with its default log level: at debug it would log each task.
func startHeadgate(t testing.TB, stub string, workers int, env ...string) headgateSide {
	t.Helper()
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	settings := fmt.Sprintf(`listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
log: {level: info, format: json}
drain: 0s
pools:
  - name: default
    upstream: http://%s/v1
    workers: %d
    admission: {policy: none}
`, stub, workers)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	g := harness.AwaitGate(t, harness.Start(t, harness.Command{Args: []string{"serve", "--config", file}, Env: env}))
	return headgateSide{side{headgate, strings.TrimPrefix(g.URL, "http://"), g.PID()}, g}
}

// startHAProxy starts HAProxy with a limit on connections to the stub and a queue, like
// headgate.
func startHAProxy(t testing.TB, path, stub string) side {
	t.Helper()
	addr := harness.UnusedAddress(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	settings := fmt.Sprintf(`global
  maxconn 4096
defaults
  mode http
  timeout client 1m
  timeout server 2m
  timeout connect 5s
  timeout queue 1m
listen bench
  bind %s
  http-reuse always
  option abortonclose
  server stub %s maxconn %d maxqueue 10000
`, addr, stub, manyWorkers)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	keeper := startRole(t, roleSupervisor, path, "-db", "-f", file)
	pid, err := strconv.Atoi(keeper.line)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "HAProxy listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return side{name: haproxy, addr: addr, pid: pid}
}
