package modelstub

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
)

// Bounds on what a stub accepts.
const (
	// DefaultMaxBody is the request body limit when none is configured.
	DefaultMaxBody = 64 << 20
	// MaxSpeed is the greatest time compression; beyond it waits are shorter
	// than a timer can keep.
	MaxSpeed = 1e6
	// MaxSlots bounds Slots, to catch a number that was meant for something else.
	MaxSlots = 1 << 20
)

// Config says how a stub behaves. The zero value is a fast, faultless server.
type Config struct {
	// Slots is how many calls are worked on at once; calls beyond wait inside
	// the stub, first come first served. 0 is unlimited.
	Slots int
	// Service is the service-time model. Nil answers immediately.
	Service Service
	// Models are the names that GET /v1/models lists. Default: "stub-model".
	Models []string
	// StrictModels answers 404 to a model that is not in Models. Otherwise any
	// name is taken, and answered under that name.
	StrictModels bool
	// Seed determines all randomness.
	Seed uint64
	// Speed divides every duration when the stub waits: at 20, a service time
	// of 20 s takes one second. 0 is 1.
	Speed float64
	// MaxBody is the limit of a request body in bytes, before and after
	// decompression. 0 is DefaultMaxBody.
	MaxBody int64
	// Log receives one debug line per call. Nil is silent.
	Log *slog.Logger
	// Tap, when set, sees every model call before it is answered, with the body
	// as it was received. It runs on the call's own goroutine, so it must be
	// safe for concurrent use; it must not keep or change either argument.
	Tap func(r *http.Request, body []byte)
}

// Validate reports the first field that cannot be meant, by name.
func (c Config) Validate() error {
	switch {
	case c.Slots < 0 || c.Slots > MaxSlots:
		return fmt.Errorf("config field Slots: %d, want 0 (unlimited) to %d", c.Slots, MaxSlots)
	case c.MaxBody < 0:
		return fmt.Errorf("config field MaxBody: %d bytes, want 0 (%d) or more", c.MaxBody, DefaultMaxBody)
	case math.IsNaN(c.Speed) || c.Speed < 0 || c.Speed > MaxSpeed:
		return fmt.Errorf("config field Speed: %v, want 0 (real time) to %v", c.Speed, MaxSpeed)
	}
	for i, name := range c.Models {
		if name == "" {
			return fmt.Errorf("config field Models: name %d is empty", i+1)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if len(c.Models) == 0 {
		c.Models = []string{"stub-model"}
	}
	if c.Speed == 0 {
		c.Speed = 1
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.Service == nil {
		c.Service = Fixed(0)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
