package browser

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
)

// chromium starts one browser for all tests. Each tab has its own cookies.
var chromium = sync.OnceValues(startChromium)

// foreignHost is a name that resolves to this machine and that the gate does not accept.
const foreignHost = "gate.example.net"

type process struct {
	ctx context.Context
	end context.CancelFunc
}

func startChromium() (*process, error) {
	path, err := findChromium()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("host-resolver-rules", "MAP "+foreignHost+" 127.0.0.1"),
		chromedp.Env("TZ=Europe/Berlin", "LANG=en_GB.UTF-8"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has none
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ = chromedp.NewContext(ctx) // ended with the allocator
	if err := chromedp.Do(ctx); err != nil {
		end()
		return nil, errors.Join(errors.New("chromium does not start"), err)
	}
	return &process{ctx, end}, nil
}

func findChromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no chromium: install it (Debian package: chromium)")
}

// closeChromium ends the browser, if it was started.
func closeChromium() error {
	p, err := chromium()
	if err != nil {
		return nil // the tests have reported it
	}
	ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
	defer cancel()
	err = chromedp.Cancel(ctx)
	p.end()
	return err
}
