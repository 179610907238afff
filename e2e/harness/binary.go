package harness

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// builtBinary is where the program is, once it has been built.
var builtBinary = sync.OnceValues(buildBinary)

// requested is set once a test has asked for the program.
var requested atomic.Bool

// defaultParallel is how many tests run at one time unless -parallel says otherwise: most
// of them wait for other processes, so there may be more than there are cores.
const defaultParallel = "6"

// Run is what TestMain of a package that uses [Binary] calls, in place of
// m.Run: it removes the program again. It returns the exit code.
func Run(m *testing.M) int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", defaultParallel) // a test binary has this flag
	}
	code := m.Run()
	if !requested.Load() {
		return code
	}
	path, err := builtBinary()
	if err != nil {
		return code // the tests have said so
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		fmt.Fprintln(os.Stderr, "harness: remove the program:", err)
		return max(code, 1)
	}
	return code
}

// Binary returns the path of the program, which is built on the first call.
func Binary(t testing.TB) string {
	t.Helper()
	requested.Store(true)
	path, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Module returns the folder of this module.
func Module(t testing.TB) string {
	t.Helper()
	dir, err := ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func buildBinary() (string, error) {
	module, err := ModuleDir()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "headgate-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "headgate")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/headgate")
	cmd.Dir = filepath.Dir(module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build headgate: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return path, nil
}

// ModuleDir is Module for who has no test: it is found from where this file lies.
func ModuleDir() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("harness: cannot tell where its source lies: run the tests without -trimpath")
	}
	return filepath.Dir(filepath.Dir(file)), nil
}
