package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // zones of drills must be known on machines that have none
)

func main() { os.Exit(run()) }

// run ends with the first signal; a second one kills the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	return execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
