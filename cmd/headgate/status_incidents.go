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
func (v *statusView) incidents(w io.Writer, open []api.Incident) {
	for i := range open {
		in := &open[i]
		line := fmt.Sprintf("%s %s (%s): %s", strings.ToUpper(sanitize(in.Level)), sanitize(in.Rule), cmp.Or(sanitize(in.Pool), "headgate itself"), sanitize(in.Summary))
		if in.AckedBy != nil {
			line += "; acknowledged by " + sanitize(*in.AckedBy)
		}
		colour := yellow
		if in.Level == "page" {
			colour = red
		}
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, v.paint.highlight(colour, line))
		fmt.Fprintf(w, "  headgate incident show %s%s\n", shellQuote(in.ID), v.where)
	}
}
