-- +goose Up

-- Times that may be missing are 0 while they are. Flags are 0 or 1.

-- Each trouble, from first firing to its end.
CREATE TABLE incidents (
    id           TEXT             NOT NULL PRIMARY KEY,
    rule         TEXT             NOT NULL,
    pool         TEXT             NOT NULL, -- empty: of the process
    level        TEXT             NOT NULL, -- none, warn, page
    peak         TEXT             NOT NULL, -- the highest level so far
    opened_ms    BIGINT           NOT NULL CHECK (opened_ms >= 0),
    changed_ms   BIGINT           NOT NULL CHECK (changed_ms >= 0),
    ended_ms     BIGINT           NOT NULL CHECK (ended_ms >= 0), -- 0: open
    why          TEXT             NOT NULL, -- it ended; empty while open
    value        DOUBLE PRECISION NOT NULL, -- the latest known one
    threshold    DOUBLE PRECISION NOT NULL,
    unit         TEXT             NOT NULL,
    summary      TEXT             NOT NULL,
    feel         TEXT             NOT NULL,
    runbook      TEXT             NOT NULL,
    action       TEXT             NOT NULL,
    seq          BIGINT           NOT NULL CHECK (seq >= 0), -- of the latest event
    reopened     BIGINT           NOT NULL CHECK (reopened >= 0),
    flapping     BIGINT           NOT NULL CHECK (flapping IN (0, 1)),
    acked_by     TEXT             NOT NULL,
    ack_until_ms BIGINT           NOT NULL CHECK (ack_until_ms >= 0),
    told         BIGINT           NOT NULL CHECK (told IN (0, 1)), -- some event was not muted
    due          BIGINT           NOT NULL CHECK (due IN (0, 1)),  -- some event was muted, and is to be told later
    writer       TEXT             NOT NULL
);

CREATE INDEX incidents_by_time ON incidents (opened_ms, id);
-- The open ones by time, and the others by when they ended.
CREATE INDEX incidents_by_end ON incidents (ended_ms, opened_ms, id);
CREATE INDEX incidents_due ON incidents (id) WHERE due = 1;

-- What happened to incidents.
CREATE TABLE incident_events (
    id       TEXT             NOT NULL,
    incident TEXT             NOT NULL,
    seq      BIGINT           NOT NULL CHECK (seq >= 0),
    kind     TEXT             NOT NULL,
    at_ms    BIGINT           NOT NULL CHECK (at_ms >= 0),
    level    TEXT             NOT NULL,
    value    DOUBLE PRECISION NOT NULL,
    actor    TEXT             NOT NULL,
    muted    BIGINT           NOT NULL CHECK (muted IN (0, 1)),
    digested BIGINT           NOT NULL CHECK (digested IN (0, 1)),
    flips    BIGINT           NOT NULL CHECK (flips >= 0),
    writer   TEXT             NOT NULL,
    PRIMARY KEY (incident, seq)
);

-- What is remembered of each rule in each pool. Lengths of time are nanoseconds.
CREATE TABLE rule_states (
    rule        TEXT   NOT NULL,
    pool        TEXT   NOT NULL,
    phase       TEXT   NOT NULL, -- ok, pending, firing, recovering
    level       TEXT   NOT NULL,
    incident    TEXT   NOT NULL, -- empty: none
    warn_ns     BIGINT NOT NULL CHECK (warn_ns >= 0),
    page_ns     BIGINT NOT NULL CHECK (page_ns >= 0),
    clear_ns    BIGINT NOT NULL CHECK (clear_ns >= 0),
    calm_ns     BIGINT NOT NULL CHECK (calm_ns >= 0),
    idle_ns     BIGINT NOT NULL CHECK (idle_ns >= 0),
    lost_ns     BIGINT NOT NULL CHECK (lost_ns >= 0),
    resolved_ms BIGINT NOT NULL CHECK (resolved_ms >= 0),
    reminded_ms BIGINT NOT NULL CHECK (reminded_ms >= 0),
    digested_ms BIGINT NOT NULL CHECK (digested_ms >= 0),
    flips       TEXT   NOT NULL, -- times in milliseconds, with commas between them
    writer      TEXT   NOT NULL,
    PRIMARY KEY (rule, pool)
);

CREATE INDEX rule_states_by_incident ON rule_states (incident);

-- What must not be sent about a rule.
CREATE TABLE silences (
    id       TEXT   NOT NULL PRIMARY KEY,
    rule     TEXT   NOT NULL,
    pool     TEXT   NOT NULL, -- empty: all pools
    from_ms  BIGINT NOT NULL CHECK (from_ms >= 0),
    until_ms BIGINT NOT NULL CHECK (until_ms >= 0),
    actor    TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    lifted   BIGINT NOT NULL CHECK (lifted IN (0, 1)), -- its end has been dealt with
    writer   TEXT   NOT NULL
);

CREATE INDEX silences_by_time ON silences (from_ms, id);
CREATE INDEX silences_standing ON silences (from_ms, id) WHERE lifted = 0;

-- What is to be sent, and what became of it. It may be here before its incident:
-- what could not be written at first is written in any order.
CREATE TABLE deliveries (
    id            TEXT   NOT NULL, -- for people; it need not be unique
    incident      TEXT   NOT NULL,
    seq           BIGINT NOT NULL CHECK (seq >= 0),
    kind          TEXT   NOT NULL, -- post, edit, reply
    destination   TEXT   NOT NULL, -- warn, page, drills, fallback
    created_ms    BIGINT NOT NULL CHECK (created_ms >= 0),
    state         TEXT   NOT NULL, -- queued, sending, sent, retry, uncertain, dead, dropped
    attempts      BIGINT NOT NULL CHECK (attempts >= 0),
    tried_ms      BIGINT NOT NULL CHECK (tried_ms >= 0),
    not_before_ms BIGINT NOT NULL CHECK (not_before_ms >= 0),
    reason        TEXT   NOT NULL,
    plain         BIGINT NOT NULL CHECK (plain IN (0, 1)),
    doubts        BIGINT NOT NULL CHECK (doubts >= 0),
    channel       TEXT   NOT NULL, -- texts, both: as numbers they would lose digits
    ts            TEXT   NOT NULL,
    diverted      BIGINT NOT NULL CHECK (diverted IN (0, 1)), -- it should have gone elsewhere
    note          TEXT   NOT NULL, -- JSON: what it says
    writer        TEXT   NOT NULL,
    UNIQUE (incident, seq, kind, destination)
);

CREATE INDEX deliveries_pending ON deliveries (created_ms, incident, seq, id)
WHERE state IN ('queued', 'sending', 'retry', 'uncertain');

-- Where the message of an incident stands.
CREATE TABLE delivery_roots (
    incident    TEXT NOT NULL,
    destination TEXT NOT NULL,
    channel     TEXT NOT NULL,
    ts          TEXT NOT NULL,
    writer      TEXT NOT NULL,
    PRIMARY KEY (incident, destination)
);

-- What each run of the service has counted towards the objective in each hour.
CREATE TABLE slo_hours (
    pool    TEXT   NOT NULL,
    hour_ms BIGINT NOT NULL CHECK (hour_ms >= 0), -- the hour's beginning
    run     TEXT   NOT NULL, -- names one opening of the record
    good    BIGINT NOT NULL CHECK (good >= 0),
    bad     BIGINT NOT NULL CHECK (bad >= 0),
    writer  TEXT   NOT NULL,
    PRIMARY KEY (pool, hour_ms, run)
);
