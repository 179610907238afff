package engine

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// bytesReader takes values of all kinds out of bytes; when there are no more, it
// gives zeros.
type bytesReader struct{ b []byte }

func (r *bytesReader) byte() byte {
	if len(r.b) == 0 {
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *bytesReader) word() uint64 {
	var w [8]byte
	r.b = r.b[copy(w[:], r.b):]
	return binary.LittleEndian.Uint64(w[:])
}

func (r *bytesReader) float() float64 {
	switch v := r.byte(); v {
	case 255:
		return math.Float64frombits(r.word())
	case 254:
		return math.NaN()
	case 253:
		return math.Inf(1)
	default:
		return float64(v % 40)
	}
}

func (r *bytesReader) length() time.Duration {
	switch v := r.byte(); v {
	case 255:
		return time.Duration(r.word())
	default:
		return time.Duration(v%8) * time.Second
	}
}

func (r *bytesReader) time() time.Time {
	switch r.byte() % 4 {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(0, int64(r.word()))
	}
	return epoch.Add(r.length() - 4*time.Second)
}

func (r *bytesReader) name() string { return []string{"", "a", "b", SignalMissing}[r.byte()%4] }

func (r *bytesReader) key() Key { return Key{Rule: r.name(), Pool: r.name()} }

func (r *bytesReader) rule() Rule {
	flags := r.byte()
	return Rule{
		Name: r.name(), Pool: r.name(),
		Warn:  Threshold{At: r.float(), For: r.length(), Set: flags&1 != 0},
		Page:  Threshold{At: r.float(), For: r.length(), Set: flags&2 != 0},
		Clear: Clear{Below: r.float(), For: r.length()},
	}
}

func (r *bytesReader) incident() Incident {
	return Incident{
		ID: r.name(), Key: r.key(), Level: Level(r.byte()), Peak: Level(r.byte()), Opened: r.time(), Changed: r.time(), Ended: r.time(),
		Value: r.float(), Threshold: r.float(), Seq: int(int64(r.word())), Flapping: r.byte()&1 != 0, AckedBy: r.name(), AckUntil: r.time(),
		Notified: r.byte()&1 != 0, PendingUnmute: r.byte()&1 != 0,
	}
}

func (r *bytesReader) state() State {
	return State{
		Key: r.key(), Phase: Phase(r.byte() % 6), Level: Level(r.byte()), Incident: r.name(),
		WarnFor: r.length(), PageFor: r.length(), ClearFor: r.length(), BelowPageFor: r.length(), IdleFor: r.length(), MissingFor: r.length(),
		LastResolved: r.time(), FlapTimes: []time.Time{r.time(), r.time()}, LastNotified: r.time(), LastDigest: r.time(),
	}
}

// FuzzMachine does anything in any order, with rules that nothing has checked: no
// panic, no life of an incident that cannot be, no record that cannot be loaded.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 1, 3, 1, 1, 15, 2, 25, 3, 12, 2, 7, 30, 7, 30, 7, 30, 7, 0, 7, 0})
	f.Add([]byte{0, 1, 3, 1, 1, 15, 0, 25, 0, 12, 0, 7, 30, 2, 1, 3, 1, 1, 7, 0, 5, 4, 7, 30, 6, 7, 254})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &bytesReader{b: b[:min(len(b), 2000)]}
		m, err := NewMachine(fastConfig())
		if err != nil {
			t.Fatal(err)
		}
		check, d, now := newLifecycleChecker(), newJournalStore(), epoch
		var rules []Rule
		save := func(b Batch) {
			d.save(t, b)
			for _, e := range b.Events {
				if err := check.add(d.incidents[e.Incident], e); err != nil {
					t.Fatal(err)
				}
			}
		}
		for len(r.b) > 0 {
			switch r.byte() % 10 {
			case 0:
				rules = append(rules, r.rule())
			case 1:
				rules = rules[:len(rules)/2]
			case 2:
				_, b, _ := m.Silence(now, Silence{Rule: r.name(), Pool: r.name(), By: r.name(), From: r.time(), Until: r.time()})
				save(b)
			case 3:
				for _, inc := range m.Incidents() {
					_, b, _ := m.Ack(now, inc.ID, r.name(), r.length())
					save(b)
				}
			case 4:
				for _, s := range m.Silences() {
					_, b, _ := m.Unsilence(now, s.ID, r.name())
					save(b)
				}
			case 5:
				m, _ = NewMachine(m.c)
				if wrong := m.Load(now, d.load()); len(wrong) > 0 {
					t.Fatalf("its own record contradicts itself: %q", wrong)
				}
			default:
				values := map[Key]Value{}
				v := r.float()
				for n, rule := range rules {
					values[rule.Key()] = Value{V: v + float64(n), Quality: Quality(r.byte() / 64)}
				}
				elapsed := r.length()
				now = now.Add(max(0, min(elapsed, time.Hour)))
				save(m.Step(now, elapsed, rules, values))
			}
		}
	})
}

// FuzzLoad loads an arbitrary record: no panic, at most one open incident for
// each key, and the machine's invariants hold afterwards.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("\x02\x01\x02\x03\x04\x05\x06"))
	f.Add(make([]byte, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &bytesReader{b: b[:min(len(b), 2000)]}
		var saved SavedState
		for len(r.b) > 0 {
			switch r.byte() % 3 {
			case 0:
				saved.Incidents = append(saved.Incidents, r.incident())
			case 1:
				saved.States = append(saved.States, r.state())
			case 2:
				saved.Silences = append(saved.Silences, Silence{ID: r.name(), Rule: r.name(), Pool: r.name(), From: r.time(), Until: r.time(), EndHandled: r.byte() > 250})
			}
		}
		m, err := NewMachine(fastConfig())
		if err != nil {
			t.Fatal(err)
		}
		m.Load(epoch, saved)
		rules := []Rule{ageRule(), {Name: "a", Pool: "b", Page: Threshold{Set: true, At: 3}}, {Name: "b", Warn: Threshold{Set: true}}}
		for n := range 30 {
			now := epoch.Add(time.Duration(n) * time.Second)
			m.Step(now, time.Second, rules, map[Key]Value{{Rule: "a", Pool: "b"}: {V: float64(n % 7)}})
			open := map[Key]bool{}
			for _, inc := range m.Incidents() {
				if inc.Open() && open[inc.Key] {
					t.Fatalf("two open incidents of %v", inc.Key)
				}
				open[inc.Key] = open[inc.Key] || inc.Open()
			}
		}
		for _, s := range m.States() {
			if _, ok := m.incidents[s.Incident]; s.Incident != "" && !ok {
				t.Fatalf("state %+v names an incident that is not there", s)
			}
		}
	})
}
