package drill

import (
	"time"

	"headgate/proxy/fault"
)

// Evidence is what was seen from outside, up to At. Times are scenario time from
// the beginning of inject, negative in the baseline, unless noted. Measures are
// worked out from it by the runner, not by who saw it.
type Evidence struct {
	At          time.Duration // when it was looked
	StaleReason string        // why it cannot be relied on: somebody's eyes are closed; empty: fresh

	Pool    string        // name of the pool that was loaded
	Workers int           // that it has, as its settings say
	SLO     time.Duration // on turnaround
	// MaxQueueAge and MaxWaiting are the limits at which the gate refuses, as its
	// settings say: the age of the oldest task that waits, and how many may wait.
	// 0: there is none, as with another policy.
	MaxQueueAge time.Duration
	MaxWaiting  int
	// ServiceMin and ServiceMax bound how long the endpoint takes for a call. Max 0:
	// it is not known, as of a live upstream.
	ServiceMin, ServiceMax time.Duration
	ServiceMean            time.Duration // 0: not known

	Planned   int  // arrivals that were due up to At
	LoadEnded bool // the load has ended, nothing more will be sent
	KeptRate  bool // the generator sent what it should, when it should
	RateNote  string

	Tasks      []Task    // that were sent, by DueTime
	Calls      []Call    // that the gate made, by Began
	Messages   []Message // that Slack accepted, by Accepted
	SlackCalls int       // calls to Slack, refused and failed ones included
	// Incidents that the gate opened, by ID. They serve to find those that nobody
	// was told of; nothing else rests on them.
	Incidents []string
	FaultHits map[FaultTarget]int // calls that a fault befell, as counted where it works
	// Lulls are times at which the machine let nobody work, the generator included.
	Stalls []Stall
	// Repeated are messages that Slack accepted again, although nothing had made it
	// doubtful that it had accepted them before.
	DuplicateMessages int
	// Unheeded says of orders what the gate says of itself after them, where that is
	// not what was ordered.
	UnappliedRequests []string
	// Probes are tries to write to the record, from outside.
	WriteProbes []WriteProbe
}

// Stall is a time at which the machine let nobody work.
type Stall struct {
	At   time.Duration
	Took time.Duration // on the wall clock
}

// WriteProbe is a try to write to the record.
type WriteProbe struct {
	At       time.Duration
	Writable bool // it could be written
}

// MaxTasks bounds the tasks of a run.
const MaxTasks = 50_000

// TaskOutcome is how a task ended for its client.
type TaskOutcome string

// The ends.
const (
	Pending  TaskOutcome = ""         // it has not ended
	Served   TaskOutcome = "served"   // a whole answer, with status 2xx
	Refused  TaskOutcome = "refused"  // 429, or 503 with a Headgate-Reason
	Broken   TaskOutcome = "broken"   // 2xx, and then visibly cut off or with an error event
	Errored  TaskOutcome = "error"    // any other status, or no connection
	TimedOut TaskOutcome = "timedout" // the client gave up
	Unsent   TaskOutcome = "unsent"   // the generator could not send it, or was stopped
)

// Task is one that the generator sent.
type Task struct {
	ID    int           // calls bear it
	Due   time.Duration // when it should have been sent; turnaround counts from here
	Sent  time.Duration
	Ended time.Duration // zero while it is Pending

	Outcome    TaskOutcome
	Status     int           // 0: none came
	RetryAfter string        // of a refusal, as it came
	Reason     string        // of a refusal
	ConnError  string        // what the client's connection said, if that ended the task
	FirstByte  time.Duration // first byte of the answer's body; zero without one
	Bytes      int64         // of that body that came
	CleanEOF   bool          // the body came to its end as HTTP has it, and told of no error, whatever was missing
	Checksum   uint64        // of these bytes, as Call.Checksum; 0: not taken
}

// Call is one that the gate made on its way upstream. It is seen on the gate's
// side of the faults, and at the endpoint behind them.
type Call struct {
	Task      int           // that it is for; -1: of no task of the run
	Started   time.Duration // when the gate made it
	Ended     time.Duration // when the gate was done with it; zero while Open
	FirstByte time.Duration // first byte of the body that the gate got; zero without one
	Open      bool
	Fault     fault.Kind // that befell it; empty: none
	Status    int        // that the gate got; 0: none
	Bytes     int64      // of the body that the gate got
	CleanEOF  bool       // that body came to its end as HTTP has it
	Checksum  uint64     // of these bytes, as Task.Checksum; 0: not taken

	Reached  bool          // the endpoint saw it
	Arrived  time.Duration // there
	Finished time.Duration // when the endpoint was done; zero while it is Working
	Working  bool
	SlotWait time.Duration // there, for one of its slots
	Complete bool          // the endpoint answered to the end
}
