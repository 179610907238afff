PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO goose_db_version VALUES(1,0,1,'2026-03-01 09:00:00');
INSERT INTO goose_db_version VALUES(2,1,1,'2026-03-01 09:00:00');
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
INSERT INTO modes VALUES('default','passthrough','observe',1772359200000,'anna','queue age pages','019ca1b0-0000-7000-8000-000000000003','headgate-1');
INSERT INTO modes VALUES('other','enforce','enforce',1772355600000,'settings','first start','019ca1b0-0000-7000-8000-000000000002','headgate-1');
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
INSERT INTO mode_changes VALUES('019ca1b0-0000-7000-8000-000000000001',1772355600000,'default','first','observe','observe','enforce','settings','settings','first start',0,0,0,0,'headgate-1');
INSERT INTO mode_changes VALUES('019ca1b0-0000-7000-8000-000000000002',1772355600000,'other','first','enforce','enforce','enforce','settings','settings','first start',0,0,0,0,'headgate-1');
INSERT INTO mode_changes VALUES('019ca1b0-0000-7000-8000-000000000003',1772359200000,'default','rollback','observe','passthrough','observe','anna','request','queue age pages',4,9,0,1,'headgate-1');
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
INSERT INTO mode_requests VALUES(1,1772359100000,'default','rollback','','',0,'anna','queue age pages','command 4711 on host-a');
INSERT INTO mode_requests VALUES(2,1772359100000,'','restore','','',1,'anna','','command 4711 on host-a');
CREATE TABLE progress (
    name   TEXT   NOT NULL PRIMARY KEY,
    value  BIGINT NOT NULL,
    writer TEXT   NOT NULL
);
INSERT INTO progress VALUES('mode_requests',1,'headgate-1');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('goose_db_version',2);
INSERT INTO sqlite_sequence VALUES('mode_requests',2);
CREATE INDEX mode_changes_by_time ON mode_changes (at_ms, id);
CREATE INDEX mode_changes_by_pool ON mode_changes (pool, at_ms, id);
CREATE TRIGGER mode_changes_keep_update BEFORE UPDATE ON mode_changes
BEGIN
    SELECT RAISE(ABORT, 'mode_changes is append-only');
END;
CREATE TRIGGER mode_changes_keep_delete BEFORE DELETE ON mode_changes
BEGIN
    SELECT RAISE(ABORT, 'mode_changes is append-only');
END;
CREATE TRIGGER mode_changes_keep_insert BEFORE INSERT ON mode_changes
WHEN EXISTS (SELECT 1 FROM mode_changes WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'mode_changes is append-only');
END;
COMMIT;
