package config

import "time"

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Default returns the built-in settings: one pool in front of an endpoint on
// this host. The caller owns the value. It is valid as it is.
func Default() *Config {
	return &Config{
		Listen:   "127.0.0.1:8484",
		Admin:    Admin{Listen: "127.0.0.1:8485"},
		DataDir:  "./data",
		Drain:    30 * time.Second,
		Pools:    []Pool{DefaultPool()},
		Slack:    Slack{APIURL: "https://slack.com/api/"},
		Rules:    Rules{Interval: time.Second},
		Rollback: Rollback{Auto: true, MaxPerDay: 3, Cooldown: 30 * time.Minute, ManualHold: 4 * time.Hour},
		// The longest window of the built-in rules is three days.
		Retention: Retention{Samples: 7 * day, History: 400 * day},
		Heartbeat: Heartbeat{Interval: time.Minute},
		Log:       Log{Level: "info", Format: "text"},
	}
}

// DefaultPool returns the pool of [Default]. A pool in a file starts from it, but
// without its name and upstream.
func DefaultPool() Pool {
	return Pool{
		Name:     "default",
		Upstream: "http://127.0.0.1:8080/v1",
		Models:   []string{"*"},
		Workers:  4,
		Mode:     "enforce",
		// The objective is 0.95 because the promise is on the 95th percentile.
		SLO:       SLO{Turnaround: 60 * time.Second, Objective: 0.95, Window: 30 * day},
		Admission: Admission{Policy: "threshold", MaxQueueAge: 25 * time.Second, DepthMultiple: 2},
		Timeouts:  Timeouts{UpstreamConnect: 5 * time.Second, UpstreamIdle: 120 * time.Second},
		Limits:    Limits{Body: 32 * mib, Buffered: 512 * mib, PassthroughQueue: 10000},
	}
}

// preset gives an element of a list its defaults before the file is read over it.
func (p *Pool) preset() {
	*p = DefaultPool()
	p.Name, p.Upstream = "", ""
}

func (c *Client) preset() { *c = Client{Priority: "interactive"} }
