package runbooks

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every page answers the same five questions, in the same order.
func TestPagesAnswerFiveQuestions(t *testing.T) {
	want := []string{"What it means", "Impact", "What to check", "What to do", "How to undo it"}
	heading := regexp.MustCompile(`(?m)^## (.*)\n\n(.)`)
	for _, name := range PageNames() {
		text, ok := Page(name)
		if !ok || !strings.HasPrefix(text, "# ") {
			t.Errorf("%s has no title", name)
		}
		var got []string
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			if m[2] != "#" {
				got = append(got, m[1])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if n := len(strings.Fields(text)); n > 450 {
			t.Errorf("%s has %d words: too long for the night", name, n)
		}
	}
}

var (
	command = regexp.MustCompile("(?m)(?:^|`)(headgate [a-z][^`\n]*)")
	flag    = regexp.MustCompile(`--[a-z-]+`)
)

// Every command on a page exists, with its flags.
func TestPagesNameCommandsThatExist(t *testing.T) {
	manual, err := os.ReadFile("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range PageNames() {
		text, _ := Page(name)
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			found++
			section := sectionOf(string(manual), m[1])
			if section == "" {
				t.Errorf("%s names %q, which docs/commands.md does not have", name, m[1])
			}
			for _, f := range flag.FindAllString(m[1], -1) {
				if !strings.Contains(section, f+" ") {
					t.Errorf("%s names %q, and there is no flag %s", name, m[1], f)
				}
			}
		}
	}
	if found < len(PageNames()) {
		t.Errorf("%d commands in %d pages: the pattern does not find them", found, len(PageNames()))
	}
}

// sectionOf returns what the manual says about a command of one word or two.
func sectionOf(manual, typed string) string {
	words := strings.Fields(typed)
	for n := min(3, len(words)); n >= 2; n-- {
		_, after, ok := strings.Cut(manual, "### "+strings.Join(words[:n], " ")+"\n")
		if ok {
			section, _, _ := strings.Cut(after, "\n### ")
			return section
		}
	}
	return ""
}

func TestPageOfNoName(t *testing.T) {
	for _, name := range []string{"", "none", "../runbooks/queue_age", "queue_age.md", "."} {
		if text, ok := Page(name); ok {
			t.Errorf("page %q is %q", name, text)
		}
	}
	if !slices.Contains(PageNames(), "queue_age") {
		t.Errorf("pages: %q", PageNames())
	}
}
