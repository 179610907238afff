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
INSERT INTO goose_db_version VALUES(3,2,1,'2026-03-02 09:00:00');
INSERT INTO goose_db_version VALUES(4,3,1,'2026-03-03 09:00:00');
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
INSERT INTO incidents VALUES('019ca1b0-0000-7000-8000-000000000009','queue_age','default','page','page',1772359200007,1772366460007,1772362800007,'recovered',31.5,0.050000000000000002775,'s','The oldest task has waited too long','answers are late','queue_age','rollback',1,0,0,'',0,1,0,'tester');
INSERT INTO incidents VALUES('019ca1b0-0000-7000-8000-00000000000a','queue_age','default','page','page',1772366400007,1772366460007,0,'',31.5,25.0,'s','The oldest task has waited too long','answers are late','queue_age','rollback',2,0,0,'anna',1772373600007,1,0,'tester');
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
    writer   TEXT             NOT NULL, words TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (incident, seq)
);
INSERT INTO incident_events VALUES('019ca1b0-0000-7000-8000-0000000000e0','019ca1b0-0000-7000-8000-000000000009',1,'opened',1772359200007,'warn',0.059999999999999997779,'',0,0,0,'tester','');
INSERT INTO incident_events VALUES('019ca1b0-0000-7000-8000-0000000000e1','019ca1b0-0000-7000-8000-00000000000a',1,'opened',1772366400007,'warn',16.0,'',0,0,0,'tester','');
INSERT INTO incident_events VALUES('019ca1b0-0000-7000-8000-0000000000e2','019ca1b0-0000-7000-8000-00000000000a',2,'escalated',1772366460007,'page',31.5,'',0,0,0,'tester','');
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
INSERT INTO rule_states VALUES('queue_age','default','recovering','page','019ca1b0-0000-7000-8000-00000000000a',1,1000000001,9223372036854775807,4,5,6,1772366400007,1772366401007,1772366460007,'1772366400007,1772366400008','tester');
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
INSERT INTO silences VALUES('019ca1b0-0000-7000-8000-0000000000f1','depth','',1772366400007,1772370000007,'bert','known',0,'tester');
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
INSERT INTO deliveries VALUES('019ca1b0-0000-7000-8000-0000000000d1','019ca1b0-0000-7000-8000-000000000009',1,'post','page',1772359200007,'sent',1,1772366400007,0,'',0,0,'C1','1772366400.000100',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"rollback","changed_ms":1772366460007,"due":0,"ended_ms":1772362800007,"feel":"answers are late","flapping":0,"id":"019ca1b0-0000-7000-8000-000000000009","level":"page","opened_ms":1772359200007,"peak":"page","pool":"default","reopened":0,"rule":"queue_age","runbook":"queue_age","seq":1,"summary":"The oldest task has waited too long","threshold":0.05,"told":1,"unit":"s","value":31.5,"why":"recovered"},"event":{"actor":"","at_ms":1772359200007,"digested":0,"flips":0,"id":"019ca1b0-0000-7000-8000-0000000000e0","incident":"019ca1b0-0000-7000-8000-000000000009","kind":"opened","level":"warn","muted":0,"seq":1,"value":0.06},"note":{"combined":0,"diverted":"","drill":0,"from":"","late":0,"mode":"","mode_since_ms":0,"ping":0,"repeat":0,"silenced":0,"unrecorded":0}}','tester');
INSERT INTO deliveries VALUES('019ca1b0-0000-7000-8000-0000000000d2','019ca1b0-0000-7000-8000-00000000000a',1,'post','page',1772366400007,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":1772373600007,"acked_by":"anna","action":"rollback","changed_ms":1772366460007,"due":0,"ended_ms":0,"feel":"answers are late","flapping":0,"id":"019ca1b0-0000-7000-8000-00000000000a","level":"page","opened_ms":1772366400007,"peak":"page","pool":"default","reopened":0,"rule":"queue_age","runbook":"queue_age","seq":2,"summary":"The oldest task has waited too long","threshold":25,"told":1,"unit":"s","value":31.5,"why":""},"event":{"actor":"","at_ms":1772366400007,"digested":0,"flips":0,"id":"019ca1b0-0000-7000-8000-0000000000e1","incident":"019ca1b0-0000-7000-8000-00000000000a","kind":"opened","level":"warn","muted":0,"seq":1,"value":16},"note":{"combined":0,"diverted":"","drill":0,"from":"","late":0,"mode":"","mode_since_ms":0,"ping":0,"repeat":0,"silenced":0,"unrecorded":0}}','tester');
INSERT INTO deliveries VALUES('019ca1b0-0000-7000-8000-0000000000d3','019ca1b0-0000-7000-8000-00000000000a',2,'edit','page',1772366460007,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":1772373600007,"acked_by":"anna","action":"rollback","changed_ms":1772366460007,"due":0,"ended_ms":0,"feel":"answers are late","flapping":0,"id":"019ca1b0-0000-7000-8000-00000000000a","level":"page","opened_ms":1772366400007,"peak":"page","pool":"default","reopened":0,"rule":"queue_age","runbook":"queue_age","seq":2,"summary":"The oldest task has waited too long","threshold":25,"told":1,"unit":"s","value":31.5,"why":""},"event":{"actor":"","at_ms":1772366460007,"digested":0,"flips":0,"id":"019ca1b0-0000-7000-8000-0000000000e2","incident":"019ca1b0-0000-7000-8000-00000000000a","kind":"escalated","level":"page","muted":0,"seq":2,"value":31.5},"note":{"combined":0,"diverted":"","drill":0,"from":"","late":0,"mode":"","mode_since_ms":0,"ping":0,"repeat":0,"silenced":0,"unrecorded":0}}','tester');
INSERT INTO deliveries VALUES('019ca1b0-0000-7000-8000-0000000000d4','019ca1b0-0000-7000-8000-00000000000a',2,'reply','page',1772366460007,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":1772373600007,"acked_by":"anna","action":"rollback","changed_ms":1772366460007,"due":0,"ended_ms":0,"feel":"answers are late","flapping":0,"id":"019ca1b0-0000-7000-8000-00000000000a","level":"page","opened_ms":1772366400007,"peak":"page","pool":"default","reopened":0,"rule":"queue_age","runbook":"queue_age","seq":2,"summary":"The oldest task has waited too long","threshold":25,"told":1,"unit":"s","value":31.5,"why":""},"event":{"actor":"","at_ms":1772366460007,"digested":0,"flips":0,"id":"019ca1b0-0000-7000-8000-0000000000e2","incident":"019ca1b0-0000-7000-8000-00000000000a","kind":"escalated","level":"page","muted":0,"seq":2,"value":31.5},"note":{"combined":0,"diverted":"","drill":0,"from":"","late":0,"mode":"","mode_since_ms":0,"ping":1,"repeat":0,"silenced":0,"unrecorded":0}}','tester');
CREATE TABLE delivery_roots (
    incident    TEXT NOT NULL,
    destination TEXT NOT NULL,
    channel     TEXT NOT NULL,
    ts          TEXT NOT NULL,
    writer      TEXT NOT NULL,
    PRIMARY KEY (incident, destination)
);
INSERT INTO delivery_roots VALUES('019ca1b0-0000-7000-8000-000000000009','page','C1','1772366400.000100','tester');
CREATE TABLE slo_hours (
    pool    TEXT   NOT NULL,
    hour_ms BIGINT NOT NULL CHECK (hour_ms >= 0), -- the hour's beginning
    run     TEXT   NOT NULL, -- names one opening of the record
    good    BIGINT NOT NULL CHECK (good >= 0),
    bad     BIGINT NOT NULL CHECK (bad >= 0),
    writer  TEXT   NOT NULL,
    PRIMARY KEY (pool, hour_ms, run)
);
INSERT INTO slo_hours VALUES('default',1772366400000,'RUN1',90,3,'tester');
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
INSERT INTO audit_entries VALUES('019ca1b0-0000-7000-8000-00000000000c',1772366500000,'decision','rollback','withheld','default','019ca1b0-0000-7000-8000-00000000000a','engine','engine','the pool is in passthrough already','{"mode":"passthrough","value":"3"}','headgate-1');
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
INSERT INTO guards VALUES('default','cooldown',1772366400000,1772368200000,'false_refusal','019ca1b0-0000-7000-8000-00000000000a','019ca1b0-0000-7000-8000-000000000003','1772362800000,1772366000000',1772380800000,'anna','restore','headgate-1');
CREATE TABLE pauses (
    pool     TEXT   NOT NULL PRIMARY KEY,
    since_ms BIGINT NOT NULL CHECK (since_ms >= 0),
    until_ms BIGINT NOT NULL CHECK (until_ms >= 0),
    actor    TEXT   NOT NULL,
    via      TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    writer   TEXT   NOT NULL
);
INSERT INTO pauses VALUES('other',1772366400000,1772368200000,'anna','api','new model','headgate-1');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('goose_db_version',4);
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
CREATE INDEX incidents_by_time ON incidents (opened_ms, id);
CREATE INDEX incidents_by_end ON incidents (ended_ms, opened_ms, id);
CREATE INDEX incidents_due ON incidents (id) WHERE due = 1;
CREATE INDEX rule_states_by_incident ON rule_states (incident);
CREATE INDEX silences_by_time ON silences (from_ms, id);
CREATE INDEX silences_standing ON silences (from_ms, id) WHERE lifted = 0;
CREATE INDEX deliveries_pending ON deliveries (created_ms, incident, seq, id)
WHERE state IN ('queued', 'sending', 'retry', 'uncertain');
CREATE INDEX audit_entries_by_time ON audit_entries (at_ms, id);
CREATE INDEX audit_entries_by_pool ON audit_entries (pool, at_ms, id);
CREATE INDEX audit_entries_by_kind ON audit_entries (kind, at_ms, id);
CREATE TRIGGER audit_entries_keep_update BEFORE UPDATE ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
CREATE TRIGGER audit_entries_keep_delete BEFORE DELETE ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
CREATE TRIGGER audit_entries_keep_insert BEFORE INSERT ON audit_entries
WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
COMMIT;
