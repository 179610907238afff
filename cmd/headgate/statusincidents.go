package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"headgate/web/api"
)

// incidents tells what trouble there is, the worst first to be seen: which rule,
// where, what is wrong, and what to type.
func (v *view) incidents(w io.Writer, open []api.Incident) {
	for i := range open {
		in := &open[i]
		line := fmt.Sprintf("%s %s (%s): %s", strings.ToUpper(inert(in.Level)), inert(in.Rule), cmp.Or(inert(in.Pool), "headgate itself"), inert(in.Summary))
		if in.AckedBy != nil {
			line += "; acknowledged by " + inert(*in.AckedBy)
		}
		colour := yellow
		if in.Level == "page" {
			colour = red
		}
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, v.paint.loud(colour, line))
		fmt.Fprintf(w, "  headgate incident show %s%s\n", shellWord(in.ID), v.where)
	}
}
