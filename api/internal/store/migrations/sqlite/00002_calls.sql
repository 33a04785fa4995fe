-- +goose Up
-- One row of each call, from its opened event on: the primary key is what makes "exactly once" true. closed is NULL
-- while the call is open.
CREATE TABLE calls (
    id       TEXT PRIMARY KEY,
    session  TEXT NOT NULL,
    turn     TEXT NOT NULL,
    token    TEXT NOT NULL,
    tool     TEXT NOT NULL,
    skill    TEXT NOT NULL,
    decision TEXT NOT NULL,
    counted  INTEGER NOT NULL,
    day      TEXT NOT NULL,
    instance INTEGER NOT NULL, -- of the api that opened it; 0 where only one can be
    opened   INTEGER NOT NULL, -- seq of its opened event
    closed   INTEGER,          -- seq of its closed event
    outcome  TEXT NOT NULL DEFAULT ''
);
CREATE INDEX calls_open ON calls (token) WHERE closed IS NULL;
INSERT INTO calls (id, session, turn, token, tool, skill, decision, counted, day, instance, opened)
    SELECT o.id, o.session, o.turn, json_extract(o.body, '$.token'), e.tool, e.skill, e.decision, o.counted, o.day, 0, e.seq
    FROM open_calls o JOIN events e ON e.call = o.id AND e.kind = 'opened';
DROP TABLE open_calls;
CREATE INDEX events_by_time ON events (time);
CREATE INDEX events_by_skill ON events (skill, seq);
CREATE INDEX events_denied ON events (seq) WHERE decision = 'deny';
-- +goose Down
SELECT 1;
