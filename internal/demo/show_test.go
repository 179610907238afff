package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestReports(t *testing.T) {
	four := DefaultOptions()
	four.Workers = 4
	for _, c := range []struct {
		name   string
		o      Options
		at     time.Duration
		ending Outcome
		width  int
	}{
		{"complete", DefaultOptions(), sec(500), Complete, 100},
		{"narrow", DefaultOptions(), sec(500), Complete, 44},
		{"stopped", DefaultOptions(), sec(200), Interrupted, 80},
		{"four", four, sec(2000), Complete, 80},
	} {
		s := newSimulation(t, c.o).summary(c.at, c.ending)
		var b bytes.Buffer
		if err := errors.Join(s.Write(&b, c.width, false), outro(&b, s, "", c.width)); err != nil {
			t.Fatal(err)
		}
		golden(t, "report-"+c.name+".txt", b.String())
	}
}

func TestCommandsBeginAsThisOneDid(t *testing.T) {
	var b bytes.Buffer
	if err := outro(&b, newSimulation(t, DefaultOptions()).summary(sec(500), Complete), "./bin/headgate", 80); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n./bin/headgate demo --workers 4\n", "\nMC_ENDPOINT=http://127.0.0.1:8080/v1 ./bin/headgate serve\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text        string
		width       int
		first, next string
		want        string
	}{
		{"", 10, "", "", "\n"},
		{"one two three", 100, "", "", "one two three\n"},
		{"one two three", 7, "", "", "one two\nthree\n"},
		{"one two three", 9, "a  ", "   ", "a  one\n   two\n   three\n"},
		{"unbreakable", 4, "", "", "unbreakable\n"},
		{"ein zwölf", 9, "", "", "ein zwölf\n"}, // counted in characters
	} {
		if got := wrap(c.text, c.width, c.first, c.next); got != c.want {
			t.Errorf("wrap(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestPictureIsXMLAtAnyTime(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	for _, at := range []time.Duration{0, sec(20), sec(130), sec(500)} {
		var b bytes.Buffer
		if err := w.summary(at, Complete).WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		counts := elements(t, b.String())
		if counts["polyline"] != 4 || counts["text"] < 10 || counts["style"] != 1 {
			t.Errorf("at %v: elements %v, want two plots of two curves", at, counts)
		}
		for _, wrong := range []string{"NaN", "Inf", "%!"} {
			if strings.Contains(b.String(), wrong) {
				t.Errorf("at %v: picture has %q", at, wrong)
			}
		}
	}
}

func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return counts
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
		}
	}
}

func TestTicksAreFewAndRound(t *testing.T) {
	for _, most := range []float64{0, 1, 7, 99, 100, 430, 12345} {
		all := ticks(most, 4)
		if len(all) < 1 || len(all) > 5 || all[0] != 0 || all[len(all)-1] > most {
			t.Errorf("ticks up to %v: %v", most, all)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"speed":    func(o *Options) { o.Speed = 0.5 },
		"speed: ":  func(o *Options) { o.Speed = MaxSpeed + 1 },
		"workers":  func(o *Options) { o.Workers = 0 },
		"workers:": func(o *Options) { o.Workers = MaxWorkers + 1 },
		"service":  func(o *Options) { o.Service = nil },
		"profile":  func(o *Options) { o.Profile.Duration = 0 },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names it", name, err)
		}
		if d, err := New(o); err == nil {
			t.Errorf("%s: New takes it", name)
			_ = d.Close()
		}
	}
	if err := DefaultOptions().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
}
