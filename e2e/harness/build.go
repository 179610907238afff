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

// ProgramVariable is the environment variable that holds the path of a headgate that is
// already built. CI builds it once for all packages.
const ProgramVariable = "HEADGATE_TEST_PROGRAM"

// builtBinary builds the program once and returns its path.
var builtBinary = sync.OnceValues(buildBinary)

// requested is set once a test has called Binary.
var requested atomic.Bool

// defaultParallel is the number of tests that run in parallel without the flag -parallel:
// most of them wait for other processes, so it exceeds the number of cores.
const defaultParallel = "6"

// Run replaces m.Run in TestMain of a package that uses [Binary]: it removes the program
// after the tests. It returns the exit code.
func Run(m *testing.M) int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", defaultParallel) // a test binary has this flag
	}
	code := m.Run()
	if !requested.Load() || os.Getenv(ProgramVariable) != "" {
		return code
	}
	path, err := builtBinary()
	if err != nil {
		return code // the tests have reported it
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		fmt.Fprintln(os.Stderr, "harness: remove the program:", err)
		return max(code, 1)
	}
	return code
}

// Binary returns the path of the program. The first call builds it, unless
// [ProgramVariable] is set.
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
	if path := os.Getenv(ProgramVariable); path != "" {
		return path, nil
	}
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

// ModuleDir is [Module] without a test. It derives the folder from the path of this file.
func ModuleDir() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("harness: the path of its source is unknown: run the tests without -trimpath")
	}
	return filepath.Dir(filepath.Dir(file)), nil
}
