package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"headgate/internal/cli"
)

var update = flag.Bool("update", false, "write the flags in docs/commands.md anew")

const (
	commandsPage = "../../docs/commands.md"
	apiPage      = "../../docs/api.md"
)

// leaves are the commands that do something, by name.
func leaves(cmd *cobra.Command) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	for _, c := range cmd.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		below := leaves(c)
		if len(below) == 0 {
			below = map[string]*cobra.Command{"": c}
		}
		for name, leaf := range below {
			all[strings.TrimSpace(c.Name()+" "+name)] = leaf
		}
	}
	return all
}

// block is what the page shows of a command's own flags, between two marks.
func block(name string, c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	text := strings.TrimRight(c.LocalFlags().FlagUsages(), "\n")
	use := c.UseLine()
	return fmt.Sprintf("<!-- flags: %s -->\n```text\n%s\n\n%s\n```\n<!-- end -->", name, use, text)
}

var flagBlocks = regexp.MustCompile("(?s)<!-- flags: ([a-z ]+) -->\n.*?<!-- end -->")

// TestCommandsPage: the page has a section for every command, with its flags as
// they are, and none for others. Run with -update to write the flags anew.
func TestCommandsPage(t *testing.T) {
	text, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	commands := leaves(newRoot(cli.System()))
	shown := map[string]bool{}
	is := flagBlocks.ReplaceAllStringFunc(string(text), func(old string) string {
		name := flagBlocks.FindStringSubmatch(old)[1]
		c, ok := commands[name]
		if !ok {
			t.Errorf("docs/commands.md has flags of %q, which is no command", name)
			return old
		}
		shown[name] = true
		return block(name, c)
	})
	for name := range commands {
		if !shown[name] || !strings.Contains(is, "\n### headgate "+name+"\n") {
			t.Errorf("docs/commands.md has no section for %s: add ### headgate %s, a few words, and <!-- flags: %s --> with <!-- end --> below it", name, name, name)
		}
	}
	if is == string(text) {
		return
	}
	if !*update {
		t.Error("docs/commands.md shows other flags than the commands have: run go test ./cmd/headgate -run TestCommandsPage -update")
		return
	}
	if err := os.WriteFile(commandsPage, []byte(is), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCommandsHelp: every command says in a line what it does, and shows an
// example that begins with its name and whose flags exist.
func TestCommandsHelp(t *testing.T) {
	flags := regexp.MustCompile(`\s--([a-z-]+)`)
	for name, c := range leaves(newRoot(cli.System())) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || !strings.Contains(c.Example, "headgate "+name) {
			t.Errorf("%s: short %q, example %q", name, c.Short, c.Example)
		}
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(line, "|")
			if !strings.Contains(line, "headgate "+name) {
				continue
			}
			for _, m := range flags.FindAllStringSubmatch(line, -1) {
				if c.Flags().Lookup(m[1]) == nil {
					t.Errorf("%s: the example has --%s, which is no flag of it", name, m[1])
				}
			}
		}
	}
}

// TestMetricsPage: every metric of ours that a service has is on the page, and
// no other.
func TestMetricsPage(t *testing.T) {
	text, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	g := newTestEnv(t)
	families, err := g.serve().Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "headgate_") {
			have = append(have, f.GetName())
		}
	}
	shown := regexp.MustCompile("`(headgate_[a-z0-9_]+)").FindAllStringSubmatch(string(text), -1)
	var listed []string
	for _, m := range shown {
		listed = append(listed, m[1])
	}
	for _, name := range have {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is not in the table of metrics in docs/api.md: add a row", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(have, name) {
			t.Errorf("docs/api.md has %s, which the service has not", name)
		}
	}
}
