// Command fill writes a year of made-up drills into a data directory, so that
// headgate serve shows full pages:
//
//	go run ./seed/fill -data data
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"headgate/e2e/seed"
	"headgate/internal/sqlite"
)

func main() {
	dir := flag.String("data", "", "data directory, which no headgate may have open")
	days := flag.Int("days", 370, "how many days before today")
	seed := flag.Uint64("seed", 1, "seed of the random history")
	flag.Parse()
	if err := run(*dir, *days, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func run(dir string, days int, seedValue uint64) error {
	if dir == "" {
		return fmt.Errorf("-data must name a directory")
	}
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Writer: "fill"})
	if err != nil {
		return err
	}
	defer store.Close()
	n, err := seed.Fill(ctx, store.Drills(), time.Now(), days, seedValue)
	if err != nil {
		return err
	}
	fmt.Printf("%d runs are in %s\n", n, dir)
	return nil
}
