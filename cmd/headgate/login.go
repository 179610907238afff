package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newLogin(h environment) *cobra.Command {
	l := loginCmd{serviceCmd: serviceCmd{host: h}}
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Make a link that signs you in to the pages, once",
		Long: `Make a link that opens the pages without the token. It works once, within ten
minutes, and whoever opens it acts in your name: send it to nobody. Looking at it
does not use it up, the button on it does.`,
		Example: `  headgate login
  headgate login --url https://gate.example.com       as you reach the pages`,
		Args: usageArgs(cobra.NoArgs),
		RunE: l.run,
	}
	cmd.Flags().StringVar(&l.url, "url", "", "`URL` by which your browser reaches the admin listener (default the one that this command uses)")
	l.add(cmd)
	return cmd
}

// loginCmd asks for a link.
type loginCmd struct {
	serviceCmd
	url string
}

// loginLink is what the command prints.
type loginLink struct {
	URL   string `json:"url"`
	Until string `json:"until"`
}

func (l *loginCmd) run(cmd *cobra.Command, _ []string) error {
	if l.url != "" {
		if _, err := api.ParseAdminURL(l.url); err != nil {
			return usageError{fmt.Errorf("--url: %w", err)}
		}
	}
	p, err := l.where.resolve(l.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return l.withClient(cmd, func(ctx context.Context, c *api.Client) error {
		reply, err := c.CreateLoginLink(ctx)
		if err != nil {
			return err
		}
		link := loginLink{URL: strings.TrimSuffix(cmp.Or(l.url, p.url), "/") + reply.Path, Until: reply.Until}
		if l.json {
			return printJSON(cmd.OutOrStdout(), link)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", link.URL)
		if err == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "works once, until %s\n", formatTime(link.Until))
		}
		return err
	})
}
