BEGIN TRANSACTION;
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
INSERT INTO "audit_entries" VALUES('01a22f8e-ab52-74f2-8aef-6c82f2d722be',1796094208847,'action','pause','done','second','','anna','api','swap','{"for":"10m0s","found":"pool second is paused until 2026-12-01T03:13:28Z"}','host:1');
INSERT INTO "audit_entries" VALUES('01a22f8e-ab8d-7d40-bb8f-dd4aaafb06c9',1796094208908,'action','resume','done','second','','anna','api','','{"found":"pool second is not paused"}','host:1');
INSERT INTO "audit_entries" VALUES('01a22f8e-ac01-7ce7-a6f9-57eef1f223dc',1796094209025,'action','silence','done','','','anna','api','planned load test','{"for":"1h0m0s","found":"the silence is there","rule":"always"}','host:1');
INSERT INTO "audit_entries" VALUES('01a22f8e-b819-795d-804e-28c1cde262a0',1796094212121,'drill','drill run','done','','01a22f8e-b816-7f0a-bfa3-10f74667d47e','anna','api','','{"drill":"rollback","speed":"20"}','host:1');
INSERT INTO "audit_entries" VALUES('01a22f8e-b87b-728e-802a-4e1ccc9c16d1',1796094212219,'drill','drill run','done','','01a22f8e-b865-7218-a563-1597361a183c','anna','api','','{"drill":"hung-upstream","speed":"20"}','host:1');
INSERT INTO "audit_entries" VALUES('01a22f8e-bf25-7f27-a351-5ef145526e82',1796094213925,'action','ack','done','','01a22f8e-a391-785b-b541-d37d3bf9a565','anna','api','','{"found":"anna has it until 2026-12-01T05:03:33Z"}','host:1');
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
INSERT INTO "deliveries" VALUES('01a22f8e-a392-797f-b6a8-ae413cac28c4','01a22f8e-a391-7800-83cc-d9c0320762d5',1,'post','fallback',1796094206865,'retry',4,1796094210878,1796094217665,'not reached: dial tcp 127.0.0.1:9: connect: connection refused',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-7800-83cc-d9c0320762d5","level":"page","opened_ms":1796094206865,"peak":"page","pool":"default","reopened":0,"rule":"always","runbook":"queue_age","seq":2,"summary":"a rule that fires at once","threshold":3,"told":1,"unit":"tasks","value":4,"why":""},"event":{"actor":"anna","at_ms":1796094209025,"digested":0,"flips":0,"id":"01a22f8e-ac01-7bc7-97c9-b7ff5912840b","incident":"01a22f8e-a391-7800-83cc-d9c0320762d5","kind":"silenced","level":"page","muted":0,"seq":2,"value":4,"words":"until 2026-12-01 04:03:29 UTC, planned load test"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"enforce","mode_since_ms":1796094199814,"ping":1,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-a392-7a41-9e1e-8a0af57b1624','01a22f8e-a391-785b-b541-d37d3bf9a565',1,'post','fallback',1796094206865,'retry',3,1796094213887,1796094215799,'not reached: dial tcp 127.0.0.1:9: connect: connection refused',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":5,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094209025,"digested":0,"flips":0,"id":"01a22f8e-ac01-7bd0-9e7b-29cd1709ddb3","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"silenced","level":"warn","muted":0,"seq":5,"value":2,"words":"until 2026-12-01 04:03:29 UTC, planned load test"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"observe","mode_since_ms":1796094208823,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-aaaf-73e9-afff-b02bb9f88925','01a22f8e-a391-785b-b541-d37d3bf9a565',2,'edit','fallback',1796094208685,'dropped',0,0,0,'said by the first message',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":2,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094208685,"digested":0,"flips":0,"id":"01a22f8e-aaad-7df0-bcc3-702251057829","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"mode_changed","level":"warn","muted":0,"seq":2,"value":2,"words":"maintenance of the endpoint"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"passthrough","mode_since_ms":1796094208681,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-aaaf-741e-a9c3-d1696b4cc088','01a22f8e-a391-785b-b541-d37d3bf9a565',2,'reply','fallback',1796094208685,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":2,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094208685,"digested":0,"flips":0,"id":"01a22f8e-aaad-7df0-bcc3-702251057829","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"mode_changed","level":"warn","muted":0,"seq":2,"value":2,"words":"maintenance of the endpoint"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"passthrough","mode_since_ms":1796094208681,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ab05-79ad-aec1-a47bf9e24501','01a22f8e-a391-785b-b541-d37d3bf9a565',3,'edit','fallback',1796094208772,'dropped',0,0,0,'said by the first message',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":3,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094208772,"digested":0,"flips":0,"id":"01a22f8e-ab04-769a-abf5-af5ee9a5e26b","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"mode_changed","level":"warn","muted":0,"seq":3,"value":2,"words":""},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"enforce","mode_since_ms":1796094208769,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ab05-79b8-a8aa-2b329741e751','01a22f8e-a391-785b-b541-d37d3bf9a565',3,'reply','fallback',1796094208772,'dropped',0,0,0,'said by the first message',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":3,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094208772,"digested":0,"flips":0,"id":"01a22f8e-ab04-769a-abf5-af5ee9a5e26b","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"mode_changed","level":"warn","muted":0,"seq":3,"value":2,"words":""},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"enforce","mode_since_ms":1796094208769,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ab3b-7e1e-812e-5dabaa6f86eb','01a22f8e-a391-785b-b541-d37d3bf9a565',4,'edit','fallback',1796094208825,'dropped',0,0,0,'said by the first message',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":4,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094208825,"digested":0,"flips":0,"id":"01a22f8e-ab39-74d7-b096-74417f8766a8","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"mode_changed","level":"warn","muted":0,"seq":4,"value":2,"words":"trial"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"observe","mode_since_ms":1796094208823,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ab3b-7e28-b1be-483df93771bf','01a22f8e-a391-785b-b541-d37d3bf9a565',4,'reply','fallback',1796094208825,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":4,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094208825,"digested":0,"flips":0,"id":"01a22f8e-ab39-74d7-b096-74417f8766a8","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"mode_changed","level":"warn","muted":0,"seq":4,"value":2,"words":"trial"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"observe","mode_since_ms":1796094208823,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ac10-783b-aa7a-fc6656302ac9','01a22f8e-a391-7800-83cc-d9c0320762d5',2,'edit','fallback',1796094209025,'dropped',0,0,0,'said by the first message',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-7800-83cc-d9c0320762d5","level":"page","opened_ms":1796094206865,"peak":"page","pool":"default","reopened":0,"rule":"always","runbook":"queue_age","seq":2,"summary":"a rule that fires at once","threshold":3,"told":1,"unit":"tasks","value":4,"why":""},"event":{"actor":"anna","at_ms":1796094209025,"digested":0,"flips":0,"id":"01a22f8e-ac01-7bc7-97c9-b7ff5912840b","incident":"01a22f8e-a391-7800-83cc-d9c0320762d5","kind":"silenced","level":"page","muted":0,"seq":2,"value":4,"words":"until 2026-12-01 04:03:29 UTC, planned load test"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"enforce","mode_since_ms":1796094199814,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ac10-7844-ba26-e8ec7383127f','01a22f8e-a391-7800-83cc-d9c0320762d5',2,'reply','fallback',1796094209025,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-7800-83cc-d9c0320762d5","level":"page","opened_ms":1796094206865,"peak":"page","pool":"default","reopened":0,"rule":"always","runbook":"queue_age","seq":2,"summary":"a rule that fires at once","threshold":3,"told":1,"unit":"tasks","value":4,"why":""},"event":{"actor":"anna","at_ms":1796094209025,"digested":0,"flips":0,"id":"01a22f8e-ac01-7bc7-97c9-b7ff5912840b","incident":"01a22f8e-a391-7800-83cc-d9c0320762d5","kind":"silenced","level":"page","muted":0,"seq":2,"value":4,"words":"until 2026-12-01 04:03:29 UTC, planned load test"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"enforce","mode_since_ms":1796094199814,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ac10-79d6-a145-39165a46e57e','01a22f8e-a391-785b-b541-d37d3bf9a565',5,'edit','fallback',1796094209025,'dropped',0,0,0,'said by the first message',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":5,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094209025,"digested":0,"flips":0,"id":"01a22f8e-ac01-7bd0-9e7b-29cd1709ddb3","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"silenced","level":"warn","muted":0,"seq":5,"value":2,"words":"until 2026-12-01 04:03:29 UTC, planned load test"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"observe","mode_since_ms":1796094208823,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-ac10-79da-931b-1f65c52be440','01a22f8e-a391-785b-b541-d37d3bf9a565',5,'reply','fallback',1796094209025,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":1796094206865,"due":0,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":5,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094209025,"digested":0,"flips":0,"id":"01a22f8e-ac01-7bd0-9e7b-29cd1709ddb3","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"silenced","level":"warn","muted":0,"seq":5,"value":2,"words":"until 2026-12-01 04:03:29 UTC, planned load test"},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"observe","mode_since_ms":1796094208823,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-b828-7002-8017-06a0f0b82120','drill-01a22f8e-b816-7f0a-bfa3-10f74667d47e',1,'post','fallback',1796094212122,'retry',1,1796094212885,1796094213185,'not reached: dial tcp 127.0.0.1:9: connect: connection refused',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":0,"due":0,"ended_ms":0,"feel":"","flapping":0,"id":"drill-01a22f8e-b816-7f0a-bfa3-10f74667d47e","level":"none","opened_ms":1796094212122,"peak":"none","pool":"","reopened":0,"rule":"","runbook":"","seq":1,"summary":"","threshold":0,"told":0,"unit":"","value":0,"why":""},"event":{"actor":"","at_ms":1796094212122,"digested":0,"flips":0,"id":"","incident":"drill-01a22f8e-b816-7f0a-bfa3-10f74667d47e","kind":"notice","level":"none","muted":0,"seq":1,"value":0,"words":"Drill Rollback: SKIPPED. a page is open: always of pool default (incident 01a22f8e-a391-7800-83cc-d9c0320762d5). To read it: headgate drill show 01a22f8e-b816-7f0a-bfa3-10f74667d47e"},"note":{"combined":0,"counted":0,"diverted":"","drill":0,"from":"","late":0,"mode":"","mode_since_ms":0,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-b88e-78d7-ab79-4f7f0f4e63c0','drill-01a22f8e-b865-7218-a563-1597361a183c',1,'post','fallback',1796094212225,'queued',0,0,0,'',0,0,'','',0,'{"incident":{"ack_until_ms":0,"acked_by":"","action":"","changed_ms":0,"due":0,"ended_ms":0,"feel":"","flapping":0,"id":"drill-01a22f8e-b865-7218-a563-1597361a183c","level":"none","opened_ms":1796094212225,"peak":"none","pool":"","reopened":0,"rule":"","runbook":"","seq":1,"summary":"","threshold":0,"told":0,"unit":"","value":0,"why":""},"event":{"actor":"","at_ms":1796094212225,"digested":0,"flips":0,"id":"","incident":"drill-01a22f8e-b865-7218-a563-1597361a183c","kind":"notice","level":"none","muted":0,"seq":1,"value":0,"words":"Drill Hung upstream: SKIPPED. a page is open: always of pool default (incident 01a22f8e-a391-7800-83cc-d9c0320762d5). To read it: headgate drill show 01a22f8e-b865-7218-a563-1597361a183c"},"note":{"combined":0,"counted":0,"diverted":"","drill":0,"from":"","late":0,"mode":"","mode_since_ms":0,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":0,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-bf27-7736-8d3e-677d5b2a27f4','01a22f8e-a391-785b-b541-d37d3bf9a565',6,'edit','fallback',1796094213925,'dropped',0,0,0,'silenced',0,0,'','',0,'{"incident":{"ack_until_ms":1796101413925,"acked_by":"anna","action":"","changed_ms":1796094206865,"due":1,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":6,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094213925,"digested":0,"flips":0,"id":"01a22f8e-bf25-7e0b-8f56-6749f6729f6f","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"acknowledged","level":"warn","muted":1,"seq":6,"value":2,"words":""},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"observe","mode_since_ms":1796094208823,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":1,"unrecorded":0}}','host:1');
INSERT INTO "deliveries" VALUES('01a22f8e-bf27-773e-baff-b8a39d19ba83','01a22f8e-a391-785b-b541-d37d3bf9a565',6,'reply','fallback',1796094213925,'dropped',0,0,0,'silenced',0,0,'','',0,'{"incident":{"ack_until_ms":1796101413925,"acked_by":"anna","action":"","changed_ms":1796094206865,"due":1,"ended_ms":0,"feel":"nothing, this is for the test data","flapping":0,"id":"01a22f8e-a391-785b-b541-d37d3bf9a565","level":"warn","opened_ms":1796094206865,"peak":"warn","pool":"second","reopened":0,"rule":"always","runbook":"queue_age","seq":6,"summary":"a rule that fires at once","threshold":1,"told":1,"unit":"tasks","value":2,"why":""},"event":{"actor":"anna","at_ms":1796094213925,"digested":0,"flips":0,"id":"01a22f8e-bf25-7e0b-8f56-6749f6729f6f","incident":"01a22f8e-a391-785b-b541-d37d3bf9a565","kind":"acknowledged","level":"warn","muted":1,"seq":6,"value":2,"words":""},"note":{"combined":0,"counted":1,"diverted":"","drill":0,"from":"","late":0,"mode":"observe","mode_since_ms":1796094208823,"ping":0,"queued":0,"repeat":0,"running":0,"silenced":1,"unrecorded":0}}','host:1');
CREATE TABLE delivery_roots (
    incident    TEXT NOT NULL,
    destination TEXT NOT NULL,
    channel     TEXT NOT NULL,
    ts          TEXT NOT NULL,
    writer      TEXT NOT NULL,
    PRIMARY KEY (incident, destination)
);
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
INSERT INTO "drill_days" VALUES(1796083200000,'rollback','skipped',1,0,0.0,0.0,'host:1');
INSERT INTO "drill_days" VALUES(1796083200000,'hung-upstream','skipped',1,0,0.0,0.0,'host:1');
CREATE TABLE drill_dues (
    drill    TEXT   NOT NULL PRIMARY KEY,
    schedule TEXT   NOT NULL,
    zone     TEXT   NOT NULL,
    next_ms  BIGINT NOT NULL CHECK (next_ms >= 0),
    writer   TEXT   NOT NULL
);
CREATE TABLE drill_freeze (
    name     TEXT   NOT NULL PRIMARY KEY,
    frozen   BIGINT NOT NULL CHECK (frozen IN (0, 1)),
    actor    TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    since_ms BIGINT NOT NULL CHECK (since_ms >= 0),
    writer   TEXT   NOT NULL
);
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
INSERT INTO "drill_latest" VALUES('rollback','Rollback','01a22f8e-b816-7f0a-bfa3-10f74667d47e','skipped',1796094212118,'',0,'host:1');
INSERT INTO "drill_latest" VALUES('hung-upstream','Hung upstream','01a22f8e-b865-7218-a563-1597361a183c','skipped',1796094212197,'',0,'host:1');
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
INSERT INTO "drill_lock" VALUES('drills','','',0,0,0,2,'host:1');
CREATE TABLE drill_names (
    name   TEXT NOT NULL,
    drill  TEXT NOT NULL,
    writer TEXT NOT NULL,
    PRIMARY KEY (name, drill)
);
INSERT INTO "drill_names" VALUES('Rollback','rollback','host:1');
INSERT INTO "drill_names" VALUES('Hung upstream','hung-upstream','host:1');
CREATE TABLE drill_parts (
    run    TEXT NOT NULL,
    part   TEXT NOT NULL, -- spec, phases, hypotheses, undo, messages
    body   TEXT NOT NULL,
    writer TEXT NOT NULL,
    PRIMARY KEY (run, part)
);
INSERT INTO "drill_parts" VALUES('01a22f8e-b816-7f0a-bfa3-10f74667d47e','spec','{"id":"rollback","name":"Rollback","note":"In the middle of an overload the gate is taken out, and put back half a minute\nlater. Refusals have to stop at the order, and to begin again at the next one: it is\nthe clients that say so.","built_in":true,"speed":10,"target":"twin","scenario":{"duration_s":240,"workers":16,"baseline_s":60,"arrivals":{"rate_per_s":0.5,"rest_per_s":0.4,"bursts":[{"from_s":10,"to_s":200,"times":5}]},"service":"uniform:5s-30s","seed":1,"steps":[{"do":"rollback","at_s":110},{"do":"restore","at_s":140}]},"expect":[{"measure":"flip_time","compare":"\u003c=","limit":2,"unit":"s"},{"measure":"restore_time","compare":"\u003c=","limit":2,"unit":"s"},{"measure":"refused_share","compare":"\u003e=","limit":0.1,"unit":"ratio"},{"measure":"bad_retry_after","compare":"==","limit":0,"unit":"tasks"},{"measure":"refused_in_baseline","compare":"==","limit":0,"unit":"tasks"},{"measure":"in_flight_over_limit","compare":"==","limit":0,"unit":"calls"},{"measure":"tasks_lost","compare":"==","limit":0,"unit":"tasks"},{"measure":"false_ends","compare":"==","limit":0,"unit":"tasks"},{"measure":"drained_within","compare":"\u003c=","limit":300,"unit":"s"},{"measure":"production_drift","compare":"==","limit":0,"unit":"tasks"}],"abort_if":[{"measure":"error_share","compare":"\u003e=","limit":0.5,"unit":"ratio"},{"measure":"in_flight_over_limit","compare":"\u003e=","limit":8,"unit":"calls"}],"recovery_s":900}','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b816-7f0a-bfa3-10f74667d47e','phases','[{"name":"claim","began_ms":1796094212118,"ended_ms":1796094212121,"note":""},{"name":"preflight","began_ms":1796094212121,"ended_ms":1796094212122,"note":""}]','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b816-7f0a-bfa3-10f74667d47e','hypotheses','[]','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b816-7f0a-bfa3-10f74667d47e','undo','[]','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b816-7f0a-bfa3-10f74667d47e','messages','[]','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b865-7218-a563-1597361a183c','spec','{"id":"hung-upstream","name":"Hung upstream","note":"Every second call gets no answer for a minute and a half. Each holds a worker, so\nthat fewer are left and the gate has to refuse; once the fault is over, every permit\nhas to come back.","built_in":true,"speed":10,"target":"twin","scenario":{"duration_s":300,"workers":16,"baseline_s":60,"arrivals":{"rate_per_s":0.7,"rest_per_s":0.5},"service":"uniform:5s-30s","seed":1,"faults":[{"kind":"hang","share":0.5,"from_s":60,"for_s":90}]},"expect":[{"measure":"refused_share","compare":"\u003e=","limit":0.02,"unit":"ratio"},{"measure":"refused_share","compare":"\u003c=","limit":0.6,"unit":"ratio"},{"measure":"error_share","compare":"\u003c=","limit":0.4,"unit":"ratio"},{"measure":"served_share","compare":"\u003e=","limit":0.3,"unit":"ratio"},{"measure":"refused_in_baseline","compare":"==","limit":0,"unit":"tasks"},{"measure":"in_flight_over_limit","compare":"==","limit":0,"unit":"calls"},{"measure":"tasks_lost","compare":"==","limit":0,"unit":"tasks"},{"measure":"false_ends","compare":"==","limit":0,"unit":"tasks"},{"measure":"drained_within","compare":"\u003c=","limit":180,"unit":"s"},{"measure":"production_drift","compare":"==","limit":0,"unit":"tasks"}],"abort_if":[{"measure":"error_share","compare":"\u003e=","limit":0.9,"unit":"ratio"},{"measure":"in_flight_over_limit","compare":"\u003e=","limit":8,"unit":"calls"}],"recovery_s":600}','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b865-7218-a563-1597361a183c','phases','[{"name":"claim","began_ms":1796094212197,"ended_ms":1796094212219,"note":""},{"name":"preflight","began_ms":1796094212219,"ended_ms":1796094212225,"note":""}]','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b865-7218-a563-1597361a183c','hypotheses','[]','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b865-7218-a563-1597361a183c','undo','[]','host:1');
INSERT INTO "drill_parts" VALUES('01a22f8e-b865-7218-a563-1597361a183c','messages','[]','host:1');
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
INSERT INTO "drill_runs" VALUES('01a22f8e-b816-7f0a-bfa3-10f74667d47e',1796094212118,'rollback','Rollback','(devel)','manual','anna',20.0,0,1796094212118,1796094212122,'ended','skipped','a page is open: always of pool default (incident 01a22f8e-a391-7800-83cc-d9c0320762d5)',0,0,0,0,1,'WWCB5MOEJEHQIAYWJFZHWVCDCE','host:1');
INSERT INTO "drill_runs" VALUES('01a22f8e-b865-7218-a563-1597361a183c',1796094212197,'hung-upstream','Hung upstream','(devel)','manual','anna',20.0,0,1796094212197,1796094212225,'ended','skipped','a page is open: always of pool default (incident 01a22f8e-a391-7800-83cc-d9c0320762d5)',0,0,0,0,2,'WWCB5MOEJEHQIAYWJFZHWVCDCE','host:1');
CREATE TABLE drill_series (
    run    TEXT   NOT NULL,
    chunk  BIGINT NOT NULL CHECK (chunk >= 0),
    points BIGINT NOT NULL CHECK (points >= 0),
    body   TEXT   NOT NULL,
    writer TEXT   NOT NULL,
    PRIMARY KEY (run, chunk)
);
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO "goose_db_version" VALUES(1,0,1,'2026-12-01 03:03:19');
INSERT INTO "goose_db_version" VALUES(2,1,1,'2026-12-01 03:03:19');
INSERT INTO "goose_db_version" VALUES(3,2,1,'2026-12-01 03:03:19');
INSERT INTO "goose_db_version" VALUES(4,3,1,'2026-12-01 03:03:19');
INSERT INTO "goose_db_version" VALUES(5,4,1,'2026-12-01 03:03:19');
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
INSERT INTO "guards" VALUES('second','cooldown',1796094208769,1796096008769,'','','','',1796108608824,'anna','mode to observe','host:1');
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
INSERT INTO "incident_events" VALUES('01a22f8e-a391-7817-b6e4-3ee6a969c236','01a22f8e-a391-7800-83cc-d9c0320762d5',1,'opened',1796094206865,'page',4.0,'',0,0,0,'host:1','');
INSERT INTO "incident_events" VALUES('01a22f8e-a391-7860-b464-6a55c7e9258d','01a22f8e-a391-785b-b541-d37d3bf9a565',1,'opened',1796094206865,'warn',2.0,'',0,0,0,'host:1','');
INSERT INTO "incident_events" VALUES('01a22f8e-aaad-7df0-bcc3-702251057829','01a22f8e-a391-785b-b541-d37d3bf9a565',2,'mode_changed',1796094208685,'warn',2.0,'anna',0,0,0,'host:1','maintenance of the endpoint');
INSERT INTO "incident_events" VALUES('01a22f8e-ab04-769a-abf5-af5ee9a5e26b','01a22f8e-a391-785b-b541-d37d3bf9a565',3,'mode_changed',1796094208772,'warn',2.0,'anna',0,0,0,'host:1','');
INSERT INTO "incident_events" VALUES('01a22f8e-ab39-74d7-b096-74417f8766a8','01a22f8e-a391-785b-b541-d37d3bf9a565',4,'mode_changed',1796094208825,'warn',2.0,'anna',0,0,0,'host:1','trial');
INSERT INTO "incident_events" VALUES('01a22f8e-ac01-7bc7-97c9-b7ff5912840b','01a22f8e-a391-7800-83cc-d9c0320762d5',2,'silenced',1796094209025,'page',4.0,'anna',0,0,0,'host:1','until 2026-12-01 04:03:29 UTC, planned load test');
INSERT INTO "incident_events" VALUES('01a22f8e-ac01-7bd0-9e7b-29cd1709ddb3','01a22f8e-a391-785b-b541-d37d3bf9a565',5,'silenced',1796094209025,'warn',2.0,'anna',0,0,0,'host:1','until 2026-12-01 04:03:29 UTC, planned load test');
INSERT INTO "incident_events" VALUES('01a22f8e-bf25-7e0b-8f56-6749f6729f6f','01a22f8e-a391-785b-b541-d37d3bf9a565',6,'acknowledged',1796094213925,'warn',2.0,'anna',1,0,0,'host:1','');
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
INSERT INTO "incidents" VALUES('01a22f8e-a391-7800-83cc-d9c0320762d5','always','default','page','page',1796094206865,1796094206865,0,'',4.0,3.0,'tasks','a rule that fires at once','nothing, this is for the test data','queue_age','',2,0,0,'',0,1,0,'host:1');
INSERT INTO "incidents" VALUES('01a22f8e-a391-785b-b541-d37d3bf9a565','always','second','warn','warn',1796094206865,1796094206865,0,'',2.0,1.0,'tasks','a rule that fires at once','nothing, this is for the test data','queue_age','',6,0,0,'anna',1796101413925,1,1,'host:1');
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
INSERT INTO "mode_changes" VALUES('01a22f8e-8806-73f3-b73d-43bab2b45a1e',1796094199814,'default','first','enforce','enforce','enforce','settings','settings','first start',0,0,0,0,'host:1');
INSERT INTO "mode_changes" VALUES('01a22f8e-8806-773d-b804-cfe7b22cbd43',1796094199814,'second','first','enforce','enforce','enforce','settings','settings','first start',0,0,0,0,'host:1');
INSERT INTO "mode_changes" VALUES('01a22f8e-aaa9-7963-aad1-1c6fca32162f',1796094208681,'second','rollback','enforce','passthrough','enforce','anna','api','maintenance of the endpoint',0,0,0,0,'host:1');
INSERT INTO "mode_changes" VALUES('01a22f8e-ab01-7283-9cdc-94dfef1c435f',1796094208769,'second','restore','passthrough','enforce','enforce','anna','api','',0,0,0,0,'host:1');
INSERT INTO "mode_changes" VALUES('01a22f8e-ab38-709c-936e-9d629444e56b',1796094208823,'second','mode','enforce','observe','enforce','anna','api','trial',0,0,0,0,'host:1');
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
INSERT INTO "modes" VALUES('default','enforce','enforce',1796094199814,'settings','first start','01a22f8e-8806-73f3-b73d-43bab2b45a1e','host:1');
INSERT INTO "modes" VALUES('second','observe','enforce',1796094208823,'anna','trial','01a22f8e-ab38-709c-936e-9d629444e56b','host:1');
CREATE TABLE pauses (
    pool     TEXT   NOT NULL PRIMARY KEY,
    since_ms BIGINT NOT NULL CHECK (since_ms >= 0),
    until_ms BIGINT NOT NULL CHECK (until_ms >= 0),
    actor    TEXT   NOT NULL,
    via      TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    writer   TEXT   NOT NULL
);
CREATE TABLE progress (
    name   TEXT   NOT NULL PRIMARY KEY,
    value  BIGINT NOT NULL,
    writer TEXT   NOT NULL
);
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
INSERT INTO "rule_states" VALUES('always','default','firing','page','01a22f8e-a391-7800-83cc-d9c0320762d5',5000000000,5000000000,0,0,0,0,0,1796094206865,0,'1796094206865','host:1');
INSERT INTO "rule_states" VALUES('always','second','firing','warn','01a22f8e-a391-785b-b541-d37d3bf9a565',5000000000,0,0,0,0,0,0,1796094206865,0,'1796094206865','host:1');
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
INSERT INTO "silences" VALUES('01a22f8e-ac01-7ad4-8ac8-044ef2f07221','always','',1796094209025,1796097809025,'anna','planned load test',0,'host:1');
CREATE TABLE slo_hours (
    pool    TEXT   NOT NULL,
    hour_ms BIGINT NOT NULL CHECK (hour_ms >= 0), -- the hour's beginning
    run     TEXT   NOT NULL, -- names one opening of the record
    good    BIGINT NOT NULL CHECK (good >= 0),
    bad     BIGINT NOT NULL CHECK (bad >= 0),
    writer  TEXT   NOT NULL,
    PRIMARY KEY (pool, hour_ms, run)
);
CREATE INDEX mode_changes_by_time ON mode_changes (at_ms, id);
CREATE INDEX mode_changes_by_pool ON mode_changes (pool, at_ms, id);
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
CREATE UNIQUE INDEX drill_runs_occurrence ON drill_runs (drill, scheduled_ms) WHERE scheduled_ms > 0;
CREATE INDEX drill_runs_by_time ON drill_runs (at_ms, id);
CREATE INDEX drill_runs_by_drill ON drill_runs (drill, at_ms, id);
CREATE INDEX drill_runs_by_verdict ON drill_runs (verdict, cause, at_ms, id);
CREATE INDEX drill_runs_by_all ON drill_runs (drill, verdict, cause, at_ms, id);
CREATE INDEX drill_runs_open ON drill_runs (at_ms, id) WHERE status <> 'ended';
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('goose_db_version',5);
COMMIT;
