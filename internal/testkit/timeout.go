package testkit

import (
	"os"
	"strconv"
	"sync"
	"time"
)

// SlowdownVariable names the environment variable that stretches the time limits of
// tests: a factor of at least 1, for machines that are busy or slow.
const SlowdownVariable = "HEADGATE_TEST_SLOWDOWN"

// slowdown reads the factor once. Anything that is not a number of at least 1 counts
// as 1.
var slowdown = sync.OnceValue(func() float64 {
	factor, err := strconv.ParseFloat(os.Getenv(SlowdownVariable), 64)
	if err != nil || factor < 1 {
		return 1
	}
	return factor
})

// Timeout returns a time limit, stretched by [SlowdownVariable]. It is for limits after
// which a test gives up waiting for a condition, never for what a test measures.
func Timeout(d time.Duration) time.Duration { return time.Duration(float64(d) * slowdown()) }
