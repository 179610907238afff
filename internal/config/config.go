package config

import (
	"bytes"
	"time"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
)

// Config is everything that can be set. It is not changed after loading, and may then be read from several goroutines.
//
// Tags: yaml is the key. min and max bound a number, both included. rule is
// "positive" (more than zero) or "natural" (zero or more). oneof lists the only
// values. required marks a key without default, and says what to give.
type Config struct {
	// Listen is the address of the data plane, host:port. An empty host means every interface. Default 127.0.0.1:8484.
	// Danger: everybody who can connect may use the model, so an address that is not loopback needs clients as soon as
	// a pool has an upstream_key.
	Listen string `yaml:"listen"`
	// Hosts are further names, without port, that requests may carry in their
	// Host header on both listeners, beside the listeners' own addresses and
	// localhost. *.example.com stands for all names below example.com. Default none. Danger: a page under such a name
	// can reach the listeners from a browser.
	Hosts []string `yaml:"hosts"`
	// Admin is the listener for people, scrapers and probes.
	Admin Admin `yaml:"admin"`
	// DataDir is the directory of everything that survives a restart,
	// relative to the working directory. Default ./data.
	DataDir string `yaml:"data_dir"`
	// Drain is how long a stop waits for running tasks. Default 30s; 0s aborts them at once.
	Drain time.Duration `yaml:"drain" rule:"natural"`
	// ClientTimeouts bound the connections of clients.
	ClientTimeouts ClientTimeouts `yaml:"client_timeouts"`
	// Pools are the model endpoints, at least one. Default one pool, named default.
	Pools []Pool `yaml:"pools"`
	// Clients are the API keys that are accepted. Default none: every request is accepted, and the client's own
	// Authorization header is passed on to pools that have no upstream_key.
	Clients []Client `yaml:"clients"`
	// Slack is where notifications go.
	Slack Slack `yaml:"slack"`
	// Rules say which rules are evaluated.
	Rules Rules `yaml:"rules"`
	// Rollback is the automatic rollback.
	Rollback Rollback `yaml:"rollback"`
	// Drills are added to the built-in ones: each is a definition as in docs/drills.md, or file: PATH of one, relative
	// to this file. One with the id of a built-in drill replaces it. Default none.
	Drills []Drill `yaml:"drills"`
	// AllowLive allows drills on production: faults for a share of its tasks. Default false: drills run on a twin.
	// Danger: real tasks fail.
	AllowLive bool `yaml:"allow_live"`
	// Heartbeat reports to a dead man's switch that this headgate works.
	Heartbeat Heartbeat `yaml:"heartbeat"`
	// Retention says how long data is kept.
	Retention Retention `yaml:"retention"`
	// Log says what is logged, and how.
	Log Log `yaml:"log"`

	src strictyaml.Source // where each setting was written; zero when built in
}

// ClientTimeouts bound the connections of clients to the data plane.
type ClientTimeouts struct {
	// Idle is how long a connection is kept without a request. Default 16m: longer than load balancers in front keep
	// theirs (Google Cloud 10m, Cloudflare 15m). Danger: below that of a balancer in front, it sends requests on
	// connections that are being closed, and clients get sporadic 502s. Each idle connection holds about 20 KiB.
	Idle time.Duration `yaml:"idle" rule:"positive"`
	// Header is how long the header of a request may take, from its first byte, or on a new connection from the
	// beginning. Default 10s. Danger: a long time lets slow clients hold connections.
	Header time.Duration `yaml:"header" rule:"positive"`
}

// Admin is the listener for people, scrapers and probes.
type Admin struct {
	// Listen is the address of the admin plane, host:port; it must differ from the
	// data plane's. Default 127.0.0.1:8485. Danger: metrics and health are open to everybody who can connect.
	Listen string `yaml:"listen"`
	// Token is the bearer token of the admin API. Default empty: one is made at
	// the first start and kept in headgate.token in data_dir.
	Token Secret `yaml:"token"`
	// ExternalURL is the URL by which people reach this listener. It is used for
	// links in messages; without it, messages give commands instead. Default empty.
	ExternalURL string `yaml:"external_url"`
	// AnonymousRead allows reading the pages and the API without the token or signing in; writes still need one of
	// them. Default false. Danger: the pages show who did what, when and why.
	AnonymousRead bool `yaml:"anonymous_read"`
}

// Pool is one model endpoint with its workers, queue, policy and objective.
type Pool struct {
	// Name identifies the pool in metrics, logs and commands: 1 to 63 of a-z, 0-9
	// and "-". The name unrouted is taken. No default in a file.
	Name string `yaml:"name" required:"a name such as default"`
	// Upstream is the base URL of an OpenAI-compatible endpoint, http or https,
	// usually ending in /v1. No default in a file.
	Upstream string `yaml:"upstream" required:"a base URL such as http://127.0.0.1:8080/v1"`
	// UpstreamKey is sent upstream as the bearer key, in place of the client's Authorization, X-Api-Key and Api-Key.
	// Default empty: these are passed on, unless clients are set. Danger: over http:// it travels in clear text. Clients
	// that share it can read and delete each other's files, batches and stored responses at the upstream.
	UpstreamKey Secret `yaml:"upstream_key"`
	// UpstreamKeyHeader is the header that upstream_key is sent in: Authorization (as bearer), api-key (Azure) or
	// x-api-key (Anthropic). Default Authorization. With upstream_key, none of the three is passed on from clients.
	// Danger: an upstream that expects another header answers 401.
	UpstreamKeyHeader string `yaml:"upstream_key_header" oneof:"Authorization api-key x-api-key"`
	// UpstreamTLS says which certificates an https upstream and headgate show each other.
	UpstreamTLS UpstreamTLS `yaml:"upstream_tls"`
	// Models are the values of a request's model that this pool serves: exact
	// names, or patterns in which * stands for any run of characters, none
	// included. Default everything.
	Models []string `yaml:"models"`
	// Workers is the number of requests that may be in flight upstream at once.
	// Default 4.
	Workers int `yaml:"workers" min:"1" max:"100000"`
	// Mode is enforce (refusals are real), observe (refusals are only counted) or passthrough (no refusals). It applies
	// at the pool's first start; afterwards the recorded mode does, which headgate rollback, observe and restore
	// change. Default enforce.
	Mode string `yaml:"mode" oneof:"enforce observe passthrough"`
	// SLO is the promise on turnaround, arrival to last byte.
	SLO SLO `yaml:"slo"`
	// Admission is the rule that refuses work.
	Admission Admission `yaml:"admission"`
	// Timeouts bound the waiting for the upstream.
	Timeouts Timeouts `yaml:"timeouts"`
	// Limits bound memory and queue.
	Limits Limits `yaml:"limits"`
	// StreamKeepalive is how often a stream gets a comment line until its answer begins, while queued and during
	// prefill, at least 1s. Default 0s: off. Danger: the first comment commits a 200, so a later failure can only break
	// the stream.
	StreamKeepalive time.Duration `yaml:"stream_keepalive" rule:"natural"`
	// Endpoints are further requests to forward, before the built-in ones: the first match counts. Each is a pattern,
	// or a mapping with more settings. Default none.
	Endpoints []Endpoint `yaml:"endpoints"`
}

// Endpoint is a pattern of requests that a pool forwards.
type Endpoint struct {
	// Match is a method (GET, which includes HEAD, POST, PUT, PATCH, DELETE, or * for any), a space and a path; without
	// a method POST. In the path * stands for one or more characters, and a final /* also for nothing. A built-in path
	// is overridden only by one without *. No default.
	Match string `yaml:"match" required:"a pattern such as POST /v1/rerank"`
	// Gate makes the requests wait for a permit. Otherwise they are forwarded at once, and neither counted nor refused.
	// Default true for POST, false for other methods and *. Danger: without it, generating requests are not limited.
	Gate bool `yaml:"gate"`
	// Retry lets a request with a permit be sent once more, when a used connection ends before the first byte of the
	// answer. Default false. Danger: the endpoint may do the same thing twice.
	Retry bool `yaml:"retry"`
}

// SLO is the promise on turnaround, arrival to last byte.
type SLO struct {
	// Turnaround is the time in which a task should be done. Default 60s.
	Turnaround time.Duration `yaml:"turnaround" rule:"positive"`
	// Objective is the share of tasks that must meet it, between 0 and 1, both excluded. Default 0.95.
	Objective float64 `yaml:"objective"`
	// Window is the span over which the objective is counted. Default 30d.
	Window time.Duration `yaml:"window" rule:"positive"`
}

// Admission is the rule that refuses work.
type Admission struct {
	// Policy is threshold (refuse by queue age and depth) or none (never refuse).
	// Default threshold.
	Policy string `yaml:"policy" oneof:"threshold none"`
	// MaxQueueAge is the age of the oldest queued task above which arrivals are
	// refused; it must be less than slo.turnaround. Default 25s.
	MaxQueueAge time.Duration `yaml:"max_queue_age" rule:"positive"`
	// DepthMultiple times workers is the queue depth above which arrivals are
	// refused while every worker is busy. Default 2.
	DepthMultiple int `yaml:"depth_multiple" min:"1" max:"100000"`
}

// Timeouts bound the waiting for the upstream.
type Timeouts struct {
	// UpstreamConnect bounds the connecting, TLS included. Default 5s.
	UpstreamConnect time.Duration `yaml:"upstream_connect" rule:"positive"`
	// UpstreamIdle is the longest silence of the upstream, before the first byte
	// or between two. Default 120s. Danger: below the slowest first byte it aborts healthy tasks.
	UpstreamIdle time.Duration `yaml:"upstream_idle" rule:"positive"`
	// UpstreamKeepalive is how long a connection is kept without a request. Default 4s, since uvicorn, and so vLLM,
	// closes it after 5s; 0s makes a new one for every request. Danger: at or above the upstream's own limit, requests
	// meet connections that are being closed; those that may be sent twice are, others get 502.
	UpstreamKeepalive time.Duration `yaml:"upstream_keepalive" rule:"natural"`
	// UpstreamMaxAge is how long a connection is used, up to a tenth less; the request during which it passes is
	// finished. Default 1m; 0s is for ever. Danger: without it, a replica that is added behind a balancer of
	// connections gets no work while the others' connections are busy.
	UpstreamMaxAge time.Duration `yaml:"upstream_max_age" rule:"natural"`
}

// UpstreamTLS says which certificates an https upstream and headgate show each other. Files are in PEM and read at
// start and reload; a relative path begins at the settings file.
type UpstreamTLS struct {
	// CAFile has the certificates of the authorities that are accepted, in place of the system's. Default empty: the
	// system's. Danger: a holder of a key of one of them can pose as the upstream.
	CAFile string `yaml:"ca_file"`
	// CertFile has headgate's own certificate, with intermediate ones, for an upstream that asks for one. Needs
	// key_file. Default empty: none. Danger: when it expires, every task fails; renew it and reload.
	CertFile string `yaml:"cert_file"`
	// KeyFile has the private key of cert_file. Default empty: none. Danger: who reads it can pose as headgate.
	KeyFile string `yaml:"key_file"`
}

// Limits bound memory and queue.
type Limits struct {
	// Body is the largest request body; larger ones get 413. Default 32MiB.
	Body Bytes `yaml:"body" rule:"positive"`
	// Buffered is the budget for the bodies of all waiting and running tasks of
	// the pool; above it arrivals get 429. At least limits.body. Default 512MiB.
	Buffered Bytes `yaml:"buffered" rule:"positive"`
	// PassthroughQueue bounds the queue in every mode, to protect memory; above it arrivals get 429. It must be above
	// workers times admission.depth_multiple. Default 10000.
	PassthroughQueue int `yaml:"passthrough_queue" min:"1" max:"10000000"`
}

// Client is an API key that is accepted.
type Client struct {
	// Name identifies the client in logs: 1 to 63 of a-z, 0-9 and "-". No default.
	Name string `yaml:"name" required:"a name such as team-search"`
	// KeySHA256 is the SHA-256 of the client's key, 64 hexadecimal digits: the
	// output of printf %s KEY | sha256sum. Danger: the key must be long and random,
	// or it can be guessed from this. No default.
	KeySHA256 string `yaml:"key_sha256" required:"the SHA-256 of the client's key, 64 hexadecimal digits"`
	// Priority is interactive or batch: the highest class that this client may ask
	// for. Default interactive.
	Priority string `yaml:"priority" oneof:"interactive batch"`
}

// Log says what is logged, and how.
type Log struct {
	// Level is the least level that is logged: debug, info, warn or error.
	// Default info.
	Level string `yaml:"level" oneof:"debug info warn error"`
	// Format is text (key=value lines) or json. Default text.
	Format string `yaml:"format" oneof:"text json"`
}

// Slack is where notifications go. Without bot_token and webhook there are none.
type Slack struct {
	// BotToken is the bot's token, xoxb-…, with the scopes chat:write,
	// channels:read and channels:history (for private channels groups:read and
	// groups:history), and commands if /headgate is to work. Default empty: Slack is not used, except for the webhook.
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
	// signing_secret. Default empty: off. Danger: Slack connects over the internet, so it needs a TLS proxy in front.
	Listen string `yaml:"listen"`
	// Channels are the channels that messages go to.
	Channels Channels `yaml:"channels"`
	// Mention says who is mentioned.
	Mention Mention `yaml:"mention"`
	// Allow lists who may do what from Slack.
	Allow Allow `yaml:"allow"`
}

// Allow lists, for each thing that can be done from Slack, the IDs of the users who
// may, such as U0123456789: names can be taken over. An empty list allows no user.
// It does not restrict users of the admin API.
type Allow struct {
	// Rollback is for switching to pass-through. Default none.
	Rollback []string `yaml:"rollback"`
	// Restore is for re-enabling admission control. Default none.
	Restore []string `yaml:"restore"`
	// Drill is for running drills. Default none.
	Drill []string `yaml:"drill"`
	// Ack is for acknowledging incidents. Default none.
	Ack []string `yaml:"ack"`
	// Silence is for silencing rules. Default none.
	Silence []string `yaml:"silence"`
}

// Channels are Slack channels, each by its ID, such as C0123456789: names can be
// taken over. The bot has to be a member.
type Channels struct {
	// Page gets incidents that need attention now. Required with bot_token.
	Page string `yaml:"page"`
	// Warn gets incidents that can wait for the day. Default empty: the same as
	// page.
	Warn string `yaml:"warn"`
	// Drills gets messages about drills. Default empty: the channels of real incidents.
	Drills string `yaml:"drills"`
	// Fallback gets what the other channels refuse for good. Default empty: the
	// webhook, if there is one.
	Fallback string `yaml:"fallback"`
}

// Mention says who is mentioned.
type Mention struct {
	// Page is added to messages that need attention now: <!here>, <!channel>, <!subteam^S…> or <@U…>. Default empty:
	// nobody is mentioned.
	Page string `yaml:"page"`
}

// Rules say which rules are evaluated.
type Rules struct {
	// File is a file of rules that replaces the built-in ones; `headgate rules
	// export` prints those to start from. Default empty: the built-in rules.
	File string `yaml:"file"`
	// Interval is how often samples are taken and rules are evaluated, 1s to 1m.
	// Default 1s.
	Interval time.Duration `yaml:"interval" rule:"positive"`
}

// Rollback is the automatic rollback: headgate switches a pool to pass-through when a rule with `action: rollback`
// pages. Only people restore it.
type Rollback struct {
	// Auto enables it. With false each such rollback is withheld and audited as such. Default true.
	Auto bool `yaml:"auto"`
	// MaxPerDay is how often a pool may be rolled back automatically in 24 hours. Default 3.
	MaxPerDay int `yaml:"max_per_day" min:"0" max:"100"`
	// Cooldown is how long a pool is not rolled back automatically after a restore. Default 30m.
	Cooldown time.Duration `yaml:"cooldown" rule:"natural"`
	// ManualHold is how long a manual change of the pool's mode blocks automatic rollbacks. Default 4h.
	ManualHold time.Duration `yaml:"human_latch" rule:"natural"`
}

// Retention says how long data is kept.
type Retention struct {
	// Samples is how long samples are kept, at least 3d6h so that the longest window of the built-in rules is covered.
	// Default 7d.
	Samples time.Duration `yaml:"samples" rule:"positive"`
	// History is how long ended incidents are kept. Default 400d. The audit of
	// modes is never deleted.
	History time.Duration `yaml:"history" rule:"positive"`
}

// Heartbeat reports to a dead man's switch that this headgate works: when the requests stop, it raises the alarm.
type Heartbeat struct {
	// URL is requested with GET as long as rules are evaluated and messages are delivered. Default empty: none. Danger:
	// such URLs are often secrets.
	URL Secret `yaml:"url"`
	// Interval is how often. Default 1m, at least 10s.
	Interval time.Duration `yaml:"interval" rule:"positive"`
}

// Drill is the definition of a drill as written in the file. Package drill parses and validates it: references such as
// ${NAME} are not filled in.
type Drill struct {
	// Node is the definition, with its places in File.
	Node *yaml.Node
	// File is the file that has the definition.
	File string
	// Path is its place in the file, such as drills[0].
	Path string
}

// Equal says whether two definitions read the same, wherever they stand.
func (d Drill) Equal(o Drill) bool {
	a, errA := yaml.Marshal(d.Node)
	b, errB := yaml.Marshal(o.Node)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// SetDefaults makes an empty definition.
func (d *Drill) SetDefaults() { *d = Drill{Node: &yaml.Node{Kind: yaml.MappingNode}} }

// DecodeNode takes the definition over as it is.
func (d *Drill) DecodeNode(l *strictyaml.Decoder, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		l.Report(path, "must be a mapping of settings, is "+strictyaml.KindName(n))
		return
	}
	*d = Drill{Node: n, File: l.File(), Path: path}
}

const (
	day = 24 * time.Hour

	kib = 1 << 10
	mib = 1 << 20
)

// Default returns the built-in settings: one pool in front of an endpoint on
// this host. The caller owns the value. It is valid as it is.
func Default() *Config {
	return &Config{
		Listen:  "127.0.0.1:8484",
		Admin:   Admin{Listen: "127.0.0.1:8485"},
		DataDir: "./data",
		Drain:   30 * time.Second,
		// Google Cloud's balancers keep connections for 600 s, Cloudflare's for 900 s.
		ClientTimeouts: ClientTimeouts{Idle: 16 * time.Minute, Header: 10 * time.Second},
		Pools:          []Pool{DefaultPool()},
		Slack:          Slack{APIURL: "https://slack.com/api/"},
		Rules:          Rules{Interval: time.Second},
		Rollback:       Rollback{Auto: true, MaxPerDay: 3, Cooldown: 30 * time.Minute, ManualHold: 4 * time.Hour},
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
		Name:              "default",
		Upstream:          "http://127.0.0.1:8080/v1",
		Models:            []string{"*"},
		Workers:           4,
		UpstreamKeyHeader: "Authorization",
		Mode:              "enforce",
		// The objective is 0.95 because the promise is on the 95th percentile.
		SLO:       SLO{Turnaround: 60 * time.Second, Objective: 0.95, Window: 30 * day},
		Admission: Admission{Policy: "threshold", MaxQueueAge: 25 * time.Second, DepthMultiple: 2},
		Timeouts: Timeouts{
			UpstreamConnect: 5 * time.Second, UpstreamIdle: 120 * time.Second,
			UpstreamKeepalive: 4 * time.Second, UpstreamMaxAge: time.Minute,
		},
		Limits: Limits{Body: 32 * mib, Buffered: 512 * mib, PassthroughQueue: 10000},
	}
}

// SetDefaults gives a pool of a list its defaults before the file is read over it.
func (p *Pool) SetDefaults() {
	*p = DefaultPool()
	p.Name, p.Upstream = "", ""
}

// SetDefaults gives a client of a list its defaults.
func (c *Client) SetDefaults() { *c = Client{Priority: "interactive"} }
