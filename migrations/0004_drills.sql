-- +goose Up

-- Times that may be missing are 0 while they are. Flags are 0 or 1.

-- Each run of a drill, and each that never began.
CREATE TABLE drill_runs (
    id           TEXT             NOT NULL PRIMARY KEY,
    at_ms        BIGINT           NOT NULL CHECK (at_ms >= 0), -- its place in the history; never altered
    drill        TEXT             NOT NULL, -- ID, which outlives names
    name         TEXT             NOT NULL,
    version      TEXT             NOT NULL, -- of headgate
    cause        TEXT             NOT NULL, -- schedule, catch_up, manual
    actor        TEXT             NOT NULL,
    speed        DOUBLE PRECISION NOT NULL,
    scheduled_ms BIGINT           NOT NULL CHECK (scheduled_ms >= 0), -- the occurrence; 0: by hand
    started_ms   BIGINT           NOT NULL CHECK (started_ms >= 0),
    ended_ms     BIGINT           NOT NULL CHECK (ended_ms >= 0),
    status       TEXT             NOT NULL, -- claimed, running, ended
    verdict      TEXT             NOT NULL, -- empty until it has ended
    reason       TEXT             NOT NULL,
    missed       BIGINT           NOT NULL CHECK (missed >= 0), -- occurrences
    injected     BIGINT           NOT NULL CHECK (injected >= 0),
    clear_ns     BIGINT           NOT NULL CHECK (clear_ns >= 0),
    recovered_ns BIGINT           NOT NULL CHECK (recovered_ns >= 0),
    fence        BIGINT           NOT NULL CHECK (fence >= 0),
    opening      TEXT             NOT NULL, -- names the opening of the record by which it was claimed
    writer       TEXT             NOT NULL
);

-- One run for each occurrence.
CREATE UNIQUE INDEX drill_runs_occurrence ON drill_runs (drill, scheduled_ms) WHERE scheduled_ms > 0;
CREATE INDEX drill_runs_by_time ON drill_runs (at_ms, id);
CREATE INDEX drill_runs_by_drill ON drill_runs (drill, at_ms, id);
CREATE INDEX drill_runs_by_verdict ON drill_runs (verdict, cause, at_ms, id);
CREATE INDEX drill_runs_by_all ON drill_runs (drill, verdict, cause, at_ms, id);
CREATE INDEX drill_runs_open ON drill_runs (at_ms, id) WHERE status <> 'ended';

-- What belongs to a run, in JSON.
CREATE TABLE drill_parts (
    run    TEXT NOT NULL,
    part   TEXT NOT NULL, -- spec, phases, hypotheses, undo, messages
    body   TEXT NOT NULL,
    writer TEXT NOT NULL,
    PRIMARY KEY (run, part)
);

-- The series of a run, 600 points to a row, in the form that the program gives
-- them: a text, in base64.
CREATE TABLE drill_series (
    run    TEXT   NOT NULL,
    chunk  BIGINT NOT NULL CHECK (chunk >= 0),
    points BIGINT NOT NULL CHECK (points >= 0),
    body   TEXT   NOT NULL,
    writer TEXT   NOT NULL,
    PRIMARY KEY (run, chunk)
);

-- The lock under which runs are: at most one row, whose fence only grows.
CREATE TABLE drill_lock (
    name     TEXT   NOT NULL PRIMARY KEY,
    run      TEXT   NOT NULL, -- empty: free
    drill    TEXT   NOT NULL, -- name of the drill
    since_ms BIGINT NOT NULL CHECK (since_ms >= 0),
    until_ms BIGINT NOT NULL CHECK (until_ms >= 0), -- end of the lease
    lease_ns BIGINT NOT NULL CHECK (lease_ns >= 0),
    fence    BIGINT NOT NULL CHECK (fence >= 0),
    writer   TEXT   NOT NULL
);

-- Whether drills may run: at most one row.
CREATE TABLE drill_freeze (
    name     TEXT   NOT NULL PRIMARY KEY,
    frozen   BIGINT NOT NULL CHECK (frozen IN (0, 1)),
    actor    TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    since_ms BIGINT NOT NULL CHECK (since_ms >= 0),
    writer   TEXT   NOT NULL
);

-- When each schedule is due next.
CREATE TABLE drill_dues (
    drill    TEXT   NOT NULL PRIMARY KEY,
    schedule TEXT   NOT NULL,
    zone     TEXT   NOT NULL,
    next_ms  BIGINT NOT NULL CHECK (next_ms >= 0),
    writer   TEXT   NOT NULL
);

-- Names that drills have had.
CREATE TABLE drill_names (
    name   TEXT NOT NULL,
    drill  TEXT NOT NULL,
    writer TEXT NOT NULL,
    PRIMARY KEY (name, drill)
);

-- How each drill stands, of runs that have ended.
CREATE TABLE drill_latest (
    drill     TEXT   NOT NULL PRIMARY KEY,
    name      TEXT   NOT NULL,
    run       TEXT   NOT NULL,
    verdict   TEXT   NOT NULL,
    at_ms     BIGINT NOT NULL CHECK (at_ms >= 0),
    passed    TEXT   NOT NULL, -- the latest run that passed; empty: none
    passed_ms BIGINT NOT NULL CHECK (passed_ms >= 0),
    writer    TEXT   NOT NULL
);

-- What the runs of each day, in UTC, came to.
CREATE TABLE drill_days (
    day_ms   BIGINT           NOT NULL CHECK (day_ms >= 0), -- the day's beginning
    drill    TEXT             NOT NULL,
    verdict  TEXT             NOT NULL,
    runs     BIGINT           NOT NULL CHECK (runs >= 0),
    judged   BIGINT           NOT NULL CHECK (judged >= 0), -- runs with a margin
    margin   DOUBLE PRECISION NOT NULL, -- sum over them of the tightest margin
    tightest DOUBLE PRECISION NOT NULL, -- of all
    writer   TEXT             NOT NULL,
    PRIMARY KEY (day_ms, drill, verdict)
);
