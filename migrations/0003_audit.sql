-- +goose Up

-- Times that may be missing are 0 while they are.

-- What was done, withheld or refused, besides changes of mode: once and for all.
CREATE TABLE audit_entries (
    id      TEXT   NOT NULL PRIMARY KEY,
    at_ms   BIGINT NOT NULL CHECK (at_ms >= 0),
    kind    TEXT   NOT NULL, -- press, decision, action, access, drill
    action  TEXT   NOT NULL, -- what was asked for
    ending  TEXT   NOT NULL, -- done, refused, withheld, failed
    pool    TEXT   NOT NULL, -- empty: none in particular
    subject TEXT   NOT NULL, -- ID of an incident, a run or a change; empty: none
    actor   TEXT   NOT NULL,
    via     TEXT   NOT NULL, -- the way it came
    reason  TEXT   NOT NULL,
    inputs  TEXT   NOT NULL, -- JSON: an object of texts
    writer  TEXT   NOT NULL  -- the process that made it
);

CREATE INDEX audit_entries_by_time ON audit_entries (at_ms, id);
CREATE INDEX audit_entries_by_pool ON audit_entries (pool, at_ms, id);
CREATE INDEX audit_entries_by_kind ON audit_entries (kind, at_ms, id);

-- +goose StatementBegin
CREATE TRIGGER audit_entries_keep_update BEFORE UPDATE ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER audit_entries_keep_delete BEFORE DELETE ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER audit_entries_keep_insert BEFORE INSERT ON audit_entries
WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
-- +goose StatementEnd

-- How far the automatic rollback of each pool is.
CREATE TABLE guards (
    pool       TEXT   NOT NULL PRIMARY KEY,
    state      TEXT   NOT NULL, -- armed, flipping, flipped, cooldown
    since_ms   BIGINT NOT NULL CHECK (since_ms >= 0),
    until_ms   BIGINT NOT NULL CHECK (until_ms >= 0), -- end of the cooldown
    rule       TEXT   NOT NULL, -- that led to the latest flip
    incident   TEXT   NOT NULL, -- of that rule; empty: none
    change_id  TEXT   NOT NULL, -- the flip in mode_changes; empty: none
    flips      TEXT   NOT NULL, -- times in milliseconds, with commas between them
    latched_ms BIGINT NOT NULL CHECK (latched_ms >= 0), -- until then a human's decision stands
    latched_by TEXT   NOT NULL,
    latch      TEXT   NOT NULL, -- what was decided
    writer     TEXT   NOT NULL
);

-- Pools that hand out no permit, for maintenance.
CREATE TABLE pauses (
    pool     TEXT   NOT NULL PRIMARY KEY,
    since_ms BIGINT NOT NULL CHECK (since_ms >= 0),
    until_ms BIGINT NOT NULL CHECK (until_ms >= 0),
    actor    TEXT   NOT NULL,
    via      TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    writer   TEXT   NOT NULL
);

-- What an event says besides its kind, where that is not enough.
ALTER TABLE incident_events ADD COLUMN words TEXT NOT NULL DEFAULT '';
