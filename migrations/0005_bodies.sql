-- +goose Up

-- A row has the columns that are searched, and a body: JSON of the whole. Where both have a
-- value, the column counts. What is no valid JSON before stays none, and is refused when it is
-- read. The JSON functions and strftime are SQLite's.

-- Incidents.
CREATE TABLE incidents_5 (
    id        TEXT   NOT NULL PRIMARY KEY,
    rule      TEXT   NOT NULL,
    pool      TEXT   NOT NULL, -- empty: of the process
    opened_ms BIGINT NOT NULL CHECK (opened_ms >= 0),
    ended_ms  BIGINT NOT NULL CHECK (ended_ms >= 0), -- 0: open
    due       BIGINT NOT NULL CHECK (due IN (0, 1)), -- an event was muted: notify when the silence ends
    body      TEXT   NOT NULL,
    writer    TEXT   NOT NULL
);

INSERT INTO incidents_5 SELECT id, rule, pool, opened_ms, ended_ms, due, json_object(
    'id', id, 'rule', rule, 'pool', pool, 'level', level, 'peak', peak,
    'opened_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(opened_ms, 0) / 1000.0, 'unixepoch'),
    'changed_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(changed_ms, 0) / 1000.0, 'unixepoch'),
    'ended_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(ended_ms, 0) / 1000.0, 'unixepoch'),
    'end_reason', why, 'value', value, 'threshold', threshold, 'unit', unit,
    'summary', summary, 'impact', feel, 'runbook', runbook, 'action', action, 'seq', seq, 'reopened', reopened,
    'flapping', json(iif(flapping, 'true', 'false')), 'acked_by', acked_by,
    'ack_until', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(ack_until_ms, 0) / 1000.0, 'unixepoch'),
    'notified', json(iif(told, 'true', 'false')), 'pending_unmute', json(iif(due, 'true', 'false'))), writer
FROM incidents;

DROP TABLE incidents;
ALTER TABLE incidents_5 RENAME TO incidents;
CREATE INDEX incidents_by_time ON incidents (opened_ms, id);
-- The open ones by time, and the others by when they ended.
CREATE INDEX incidents_by_end ON incidents (ended_ms, opened_ms, id);
CREATE INDEX incidents_due ON incidents (id) WHERE due = 1;

-- Events of incidents.
CREATE TABLE incident_events_5 (
    incident TEXT   NOT NULL,
    seq      BIGINT NOT NULL CHECK (seq >= 0),
    kind     TEXT   NOT NULL,
    at_ms    BIGINT NOT NULL CHECK (at_ms >= 0),
    actor    TEXT   NOT NULL,
    body     TEXT   NOT NULL,
    writer   TEXT   NOT NULL,
    PRIMARY KEY (incident, seq)
);

INSERT INTO incident_events_5 SELECT incident, seq, kind, at_ms, actor, json_object(
    'id', id, 'incident', incident, 'seq', seq, 'kind', kind,
    'at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(at_ms, 0) / 1000.0, 'unixepoch'),
    'level', level, 'value', value, 'by', actor, 'text', words,
    'muted', json(iif(muted, 'true', 'false')), 'digested', json(iif(digested, 'true', 'false')), 'count', flips), writer
FROM incident_events;

DROP TABLE incident_events;
ALTER TABLE incident_events_5 RENAME TO incident_events;

-- States of rules.
CREATE TABLE rule_states_5 (
    rule     TEXT NOT NULL,
    pool     TEXT NOT NULL,
    incident TEXT NOT NULL, -- empty: none
    body     TEXT NOT NULL,
    writer   TEXT NOT NULL,
    PRIMARY KEY (rule, pool)
);

INSERT INTO rule_states_5 SELECT rule, pool, incident, json_object(
    'rule', rule, 'pool', pool, 'phase', phase, 'level', level, 'incident', incident,
    'warn_ns', warn_ns, 'page_ns', page_ns, 'clear_ns', clear_ns, 'below_page_ns', calm_ns, 'idle_ns', idle_ns, 'missing_ns', lost_ns,
    'last_resolved', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(resolved_ms, 0) / 1000.0, 'unixepoch'),
    'last_notified', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(reminded_ms, 0) / 1000.0, 'unixepoch'),
    'last_digest', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(digested_ms, 0) / 1000.0, 'unixepoch'),
    'flap_times', json(CASE WHEN json_valid('[' || flips || ']') THEN
        (SELECT json_group_array(strftime('%Y-%m-%dT%H:%M:%fZ', value / 1000.0, 'unixepoch')) FROM json_each('[' || flips || ']')) ELSE json_quote(flips) END)), writer
FROM rule_states;

DROP TABLE rule_states;
ALTER TABLE rule_states_5 RENAME TO rule_states;
CREATE INDEX rule_states_by_incident ON rule_states (incident);

-- What is to be sent, and its result. It may be here before its incident: what could not be
-- written at first is written in any order.
CREATE TABLE deliveries_5 (
    id          TEXT   NOT NULL, -- for people; it need not be unique
    incident    TEXT   NOT NULL,
    seq         BIGINT NOT NULL CHECK (seq >= 0),
    kind        TEXT   NOT NULL, -- post, edit, reply
    destination TEXT   NOT NULL, -- warn, page, drills, fallback
    created_ms  BIGINT NOT NULL CHECK (created_ms >= 0),
    state       TEXT   NOT NULL, -- queued, sending, sent, retry, uncertain, dead, dropped
    diverted    BIGINT NOT NULL CHECK (diverted IN (0, 1)), -- it should have gone elsewhere
    body        TEXT   NOT NULL,
    writer      TEXT   NOT NULL,
    UNIQUE (incident, seq, kind, destination)
);

INSERT INTO deliveries_5 SELECT id, incident, seq, kind, destination, created_ms, state, diverted, CASE WHEN json_valid(note) THEN json_object(
    'id', id, 'incident', incident, 'seq', seq, 'kind', kind, 'destination', destination,
    'created_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(created_ms, 0) / 1000.0, 'unixepoch'), 'state', state, 'attempts', attempts,
    'tried_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(tried_ms, 0) / 1000.0, 'unixepoch'),
    'next_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(not_before_ms, 0) / 1000.0, 'unixepoch'),
    'reason', reason, 'plain_text', json(iif(plain, 'true', 'false')), 'ambiguous_attempts', doubts,
    'ref', json_object('channel', channel, 'ts', ts), 'notification', json_object(
        'incident', json_object(
            'id', note ->> '$.incident.id', 'rule', note ->> '$.incident.rule', 'pool', note ->> '$.incident.pool',
            'level', note ->> '$.incident.level', 'peak', note ->> '$.incident.peak',
            'opened_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(note ->> '$.incident.opened_ms', 0) / 1000.0, 'unixepoch'),
            'changed_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(note ->> '$.incident.changed_ms', 0) / 1000.0, 'unixepoch'),
            'ended_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(note ->> '$.incident.ended_ms', 0) / 1000.0, 'unixepoch'),
            'end_reason', note ->> '$.incident.why', 'value', note -> '$.incident.value', 'threshold', note -> '$.incident.threshold',
            'unit', note ->> '$.incident.unit', 'summary', note ->> '$.incident.summary', 'impact', note ->> '$.incident.feel',
            'runbook', note ->> '$.incident.runbook', 'action', note ->> '$.incident.action',
            'seq', note -> '$.incident.seq', 'reopened', note -> '$.incident.reopened',
            'flapping', json(iif(note ->> '$.incident.flapping', 'true', 'false')), 'acked_by', note ->> '$.incident.acked_by',
            'ack_until', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(note ->> '$.incident.ack_until_ms', 0) / 1000.0, 'unixepoch'),
            'notified', json(iif(note ->> '$.incident.told', 'true', 'false')),
            'pending_unmute', json(iif(note ->> '$.incident.due', 'true', 'false'))),
        'event', json_object(
            'id', note ->> '$.event.id', 'incident', note ->> '$.event.incident', 'seq', note -> '$.event.seq', 'kind', note ->> '$.event.kind',
            'at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(note ->> '$.event.at_ms', 0) / 1000.0, 'unixepoch'),
            'level', note ->> '$.event.level', 'value', note -> '$.event.value', 'by', note ->> '$.event.actor', 'text', note ->> '$.event.words',
            'muted', json(iif(note ->> '$.event.muted', 'true', 'false')),
            'digested', json(iif(note ->> '$.event.digested', 'true', 'false')), 'count', note -> '$.event.flips'),
        'mode', note ->> '$.note.mode',
        'mode_since', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(note ->> '$.note.mode_since_ms', 0) / 1000.0, 'unixepoch'),
        'running', note -> '$.note.running', 'queued', note -> '$.note.queued',
        'load_known', json(iif(note ->> '$.note.counted', 'true', 'false')), 'ping', json(iif(note ->> '$.note.ping', 'true', 'false')),
        'combined', json(iif(note ->> '$.note.combined', 'true', 'false')),
        'unrecorded', json(iif(note ->> '$.note.unrecorded', 'true', 'false')),
        'drill', json(iif(note ->> '$.note.drill', 'true', 'false')), 'silenced', json(iif(note ->> '$.note.silenced', 'true', 'false')),
        'late', json(iif(note ->> '$.note.late', 'true', 'false')), 'possible_duplicate', json(iif(note ->> '$.note.repeat', 'true', 'false')),
        'fallback_from', note ->> '$.note.from', 'fallback_reason', note ->> '$.note.diverted')) ELSE note END, writer
FROM deliveries;

DROP TABLE deliveries;
ALTER TABLE deliveries_5 RENAME TO deliveries;
CREATE INDEX deliveries_pending ON deliveries (created_ms, incident, seq, id)
WHERE state IN ('queued', 'sending', 'retry', 'uncertain');

-- Each run of a drill, and each that never began. Its spec, rollbacks, messages and series
-- have rows of their own.
CREATE TABLE drill_runs_5 (
    id           TEXT   NOT NULL PRIMARY KEY,
    at_ms        BIGINT NOT NULL CHECK (at_ms >= 0), -- its place in the history; never altered
    drill        TEXT   NOT NULL, -- ID, which outlives names
    scheduled_ms BIGINT NOT NULL CHECK (scheduled_ms >= 0), -- the occurrence; 0: by hand
    status       TEXT   NOT NULL, -- claimed, running, ended
    verdict      TEXT   NOT NULL, -- empty until it has ended
    cause        TEXT   NOT NULL, -- schedule, catch_up, manual
    fence        BIGINT NOT NULL CHECK (fence >= 0),
    opening      TEXT   NOT NULL, -- the session of the record by which it was claimed
    body         TEXT   NOT NULL,
    writer       TEXT   NOT NULL
);

INSERT INTO drill_runs_5 SELECT id, at_ms, drill, scheduled_ms, status, verdict, cause, fence, opening, json_object(
    'id', id, 'drill', drill, 'name', name, 'version', version, 'trigger', cause, 'actor', actor, 'status', status, 'verdict', verdict,
    'reason', reason, 'missed', missed,
    'scheduled_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(scheduled_ms, 0) / 1000.0, 'unixepoch'),
    'started_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(started_ms, 0) / 1000.0, 'unixepoch'),
    'ended_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(ended_ms, 0) / 1000.0, 'unixepoch'),
    'speed', speed, 'injected', injected, 'clear_took_s', clear_ns / 1e9, 'recovered_s', recovered_ns / 1e9,
    'phases', json((SELECT CASE WHEN json_valid(p.body) THEN (SELECT json_group_array(json_object(
            'name', value ->> '$.name',
            'began_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(value ->> '$.began_ms', 0) / 1000.0, 'unixepoch'),
            'ended_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(value ->> '$.ended_ms', 0) / 1000.0, 'unixepoch'),
            'note', value ->> '$.note')) FROM json_each(p.body)) ELSE json_quote(p.body) END
        FROM drill_parts p WHERE p.run = drill_runs.id AND p.part = 'phases')),
    'hypotheses', json((SELECT CASE WHEN json_valid(p.body) THEN (SELECT json_group_array(json_object(
            'name', value ->> '$.measure', 'compare', value ->> '$.compare', 'limit', value -> '$.limit', 'unit', value ->> '$.unit',
            'measured', value -> '$.known', 'value', json(iif(value ->> '$.known', value -> '$.value', NULL)), 'margin', json(iif(value ->> '$.known', value -> '$.margin', NULL)),
            'passed', value -> '$.passed', 'evidence', value ->> '$.evidence', 'why', value ->> '$.why')) FROM json_each(p.body)) ELSE json_quote(p.body) END
        FROM drill_parts p WHERE p.run = drill_runs.id AND p.part = 'hypotheses'))), writer
FROM drill_runs;

DROP TABLE drill_runs;
ALTER TABLE drill_runs_5 RENAME TO drill_runs;
-- One run for each occurrence.
CREATE UNIQUE INDEX drill_runs_occurrence ON drill_runs (drill, scheduled_ms) WHERE scheduled_ms > 0;
CREATE INDEX drill_runs_by_time ON drill_runs (at_ms, id);
CREATE INDEX drill_runs_by_drill ON drill_runs (drill, at_ms, id);
CREATE INDEX drill_runs_by_verdict ON drill_runs (verdict, cause, at_ms, id);
CREATE INDEX drill_runs_by_all ON drill_runs (drill, verdict, cause, at_ms, id);
CREATE INDEX drill_runs_open ON drill_runs (at_ms, id) WHERE status <> 'ended';

-- The parts that are left: spec, undo, messages.
DELETE FROM drill_parts WHERE part IN ('phases', 'hypotheses');

UPDATE drill_parts SET body = (SELECT json_group_array(json_object(
    'what', value ->> '$.what', 'at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(value ->> '$.at_ms', 0) / 1000.0, 'unixepoch'),
    'took_s', (value ->> '$.took_ns') / 1e9, 'ok', value -> '$.ok', 'note', value ->> '$.note')) FROM json_each(body))
WHERE part = 'undo' AND body <> '[]' AND json_valid(body);

UPDATE drill_parts SET body = (SELECT json_group_array(json_object(
    'incident', value ->> '$.incident', 'kind', value ->> '$.kind', 'level', value ->> '$.level', 'channel', value ->> '$.channel',
    'text', value ->> '$.text',
    'made_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(value ->> '$.made_ms', 0) / 1000.0, 'unixepoch'),
    'accepted_at', strftime('%Y-%m-%dT%H:%M:%fZ', nullif(value ->> '$.accepted_ms', 0) / 1000.0, 'unixepoch'))) FROM json_each(body))
WHERE part = 'messages' AND body <> '[]' AND json_valid(body);
