package config

import "time"

// Slack is where people are told. Without bot_token and webhook nobody is.
type Slack struct {
	// BotToken is the bot's token, xoxb-…, with the scopes chat:write,
	// channels:read and channels:history (for private channels groups:read and
	// groups:history), and commands if /headgate is to work. Default empty: Slack is not used, but for the webhook.
	BotToken Secret `yaml:"bot_token"`
	// APIURL is the base URL of the Slack API, for a proxy in between or for tests.
	// Default https://slack.com/api/.
	APIURL string `yaml:"api_url"`
	// Webhook is an incoming webhook that is used when the channels refuse for
	// good, and alone if there is no bot_token. Messages sent there cannot be
	// edited. Default empty: none. Danger: the URL is a secret.
	Webhook Secret `yaml:"webhook"`
	// AppToken is the app-level token, xapp-…, with the scope connections:write: it
	// brings buttons and commands over a connection that headgate opens (Socket
	// Mode), so that Slack need not reach it. Needs bot_token. Default empty: off.
	AppToken Secret `yaml:"app_token"`
	// SigningSecret is the app's signing secret, for buttons and commands that Slack
	// sends to listen. Default empty: off.
	SigningSecret Secret `yaml:"signing_secret"`
	// Listen is the address at which Slack's requests are taken, host:port: POST
	// /slack/interactivity and /slack/commands, nothing else. Needs bot_token and
	// signing_secret. Default empty: off. Danger: Slack comes over the internet, so
	// something that speaks TLS has to stand in front.
	Listen string `yaml:"listen"`
	// Channels are the channels that messages go to.
	Channels Channels `yaml:"channels"`
	// Mention says who is pinged.
	Mention Mention `yaml:"mention"`
	// Allow says who may do what from Slack.
	Allow Allow `yaml:"allow"`
}

// Allow lists, for each thing that can be done from Slack, the IDs of the users who
// may, such as U0123456789: names can be taken over. An empty list allows nobody.
// Whoever may use the admin API is not asked: the commands work for them all.
type Allow struct {
	// Rollback is for taking the gate out. Default nobody.
	Rollback []string `yaml:"rollback"`
	// Restore is for putting the gate back. Default nobody.
	Restore []string `yaml:"restore"`
	// Drill is for running drills. Default nobody.
	Drill []string `yaml:"drill"`
	// Ack is for acknowledging incidents. Default nobody.
	Ack []string `yaml:"ack"`
	// Silence is for silencing rules. Default nobody.
	Silence []string `yaml:"silence"`
}

// Channels are Slack channels, each by its ID, such as C0123456789: names can be
// taken over. The bot has to be a member.
type Channels struct {
	// Page gets incidents that need somebody now. Required with bot_token.
	Page string `yaml:"page"`
	// Warn gets incidents that can wait for the day. Default empty: the same as
	// page.
	Warn string `yaml:"warn"`
	// Drills gets what belongs to a rehearsal. Default empty: the same as for what is
	// real.
	Drills string `yaml:"drills"`
	// Fallback gets what the other channels refuse for good. Default empty: the
	// webhook, if there is one.
	Fallback string `yaml:"fallback"`
}

// Mention says who is pinged.
type Mention struct {
	// Page is put into messages that need somebody now: <!here>, <!channel>,
	// <!subteam^S…> or <@U…>. Default empty: nobody is pinged.
	Page string `yaml:"page"`
}

// Rules say what is watched.
type Rules struct {
	// File is a file of rules that replaces the built-in ones; `headgate rules
	// export` prints those to start from. Default empty: the built-in rules.
	File string `yaml:"file"`
	// Interval is how often samples are taken and rules are evaluated, 1s to 1m.
	// Default 1s.
	Interval time.Duration `yaml:"interval" rule:"positive"`
}

// Rollback is what headgate may do to a gate by itself: take it out when a rule
// with `action: rollback` pages. People put it back.
type Rollback struct {
	// Auto says whether it may. With false each such rollback is withheld, and the
	// audit says so. Default true.
	Auto bool `yaml:"auto"`
	// MaxPerDay is how often a pool may be rolled back so in 24 hours. Default 3.
	MaxPerDay int `yaml:"max_per_day" min:"0" max:"100"`
	// Cooldown is how long it may not be, after a gate was put back. Default 30m.
	Cooldown time.Duration `yaml:"cooldown" rule:"natural"`
	// ManualHold is how long somebody's decision on the pool's mode stands, in
	// either direction, before it may be rolled back so again. Default 4h.
	ManualHold time.Duration `yaml:"human_latch" rule:"natural"`
}

// Retention says how long things are kept.
type Retention struct {
	// Samples are kept for so long, at least 3d6h so that the longest window of the
	// built-in rules is covered. Default 7d.
	Samples time.Duration `yaml:"samples" rule:"positive"`
	// History is how long ended incidents are kept. Default 400d. The audit of
	// modes is kept for ever.
	History time.Duration `yaml:"history" rule:"positive"`
}

// Heartbeat tells somebody else that this headgate watches: when it stops, they
// raise the alarm (a dead man's switch).
type Heartbeat struct {
	// URL is requested with GET as long as rules are evaluated and messages get
	// out. Default empty: none. Danger: such URLs are often secrets.
	URL Secret `yaml:"url"`
	// Interval is how often. Default 1m, at least 10s.
	Interval time.Duration `yaml:"interval" rule:"positive"`
}
