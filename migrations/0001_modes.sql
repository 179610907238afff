-- +goose Up

-- How each pool ever seen stands.
CREATE TABLE modes (
    pool      TEXT   NOT NULL PRIMARY KEY,
    mode      TEXT   NOT NULL, -- enforce, observe, passthrough
    before    TEXT   NOT NULL, -- what a restore returns to, while in passthrough
    since_ms  BIGINT NOT NULL,
    actor     TEXT   NOT NULL,
    reason    TEXT   NOT NULL,
    change_id TEXT   NOT NULL, -- the change in mode_changes that led here
    writer    TEXT   NOT NULL
);

-- What was done, once and for all.
CREATE TABLE mode_changes (
    id        TEXT   NOT NULL PRIMARY KEY,
    at_ms     BIGINT NOT NULL,
    pool      TEXT   NOT NULL,
    action    TEXT   NOT NULL, -- rollback, restore, mode, first
    from_mode TEXT   NOT NULL,
    to_mode   TEXT   NOT NULL,
    before    TEXT   NOT NULL, -- as in modes, after the change
    actor     TEXT   NOT NULL,
    via       TEXT   NOT NULL, -- the way the order came
    reason    TEXT   NOT NULL,
    running   BIGINT NOT NULL, -- tasks in flight at that moment
    queued    BIGINT NOT NULL, -- tasks waiting at that moment
    dropped   BIGINT NOT NULL, -- waiting tasks that the order refused
    request   BIGINT NOT NULL, -- number in mode_requests, 0 if none
    writer    TEXT   NOT NULL
);

CREATE INDEX mode_changes_by_time ON mode_changes (at_ms, id);
CREATE INDEX mode_changes_by_pool ON mode_changes (pool, at_ms, id);

-- +goose StatementBegin
CREATE TRIGGER mode_changes_keep_update BEFORE UPDATE ON mode_changes
BEGIN
    SELECT RAISE(ABORT, 'mode_changes is append-only');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER mode_changes_keep_delete BEFORE DELETE ON mode_changes
BEGIN
    SELECT RAISE(ABORT, 'mode_changes is append-only');
END;
-- +goose StatementEnd

-- INSERT OR REPLACE would take a row away without asking the trigger above.
-- +goose StatementBegin
CREATE TRIGGER mode_changes_keep_insert BEFORE INSERT ON mode_changes
WHEN EXISTS (SELECT 1 FROM mode_changes WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'mode_changes is append-only');
END;
-- +goose StatementEnd

-- Orders left by commands that could not reach the process. AUTOINCREMENT never
-- gives a number twice.
CREATE TABLE mode_requests (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms        BIGINT NOT NULL,
    pool         TEXT   NOT NULL, -- empty: all pools
    action       TEXT   NOT NULL, -- rollback, restore, mode
    mode         TEXT   NOT NULL, -- for action mode, else empty
    expected     TEXT   NOT NULL, -- refuse unless in this mode; empty: do not ask
    drop_overdue BIGINT NOT NULL, -- 0 or 1
    actor        TEXT   NOT NULL,
    reason       TEXT   NOT NULL,
    writer       TEXT   NOT NULL
);

-- How far this and that has come: mode_requests, the highest number dealt with.
CREATE TABLE progress (
    name   TEXT   NOT NULL PRIMARY KEY,
    value  BIGINT NOT NULL,
    writer TEXT   NOT NULL
);
