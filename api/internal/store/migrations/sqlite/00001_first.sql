-- +goose Up
CREATE TABLE tokens (
    name    TEXT NOT NULL,
    role    TEXT NOT NULL CHECK (role IN ('agent', 'viewer', 'operator')),
    mode    TEXT NOT NULL CHECK (mode IN ('read-only', 'mutating-with-confirm', 'dual-sign-required')),
    hash    TEXT NOT NULL PRIMARY KEY, -- hex sha256 of the secret
    created TEXT NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked = 0;

CREATE TABLE skills (
    name          TEXT PRIMARY KEY,
    published     INTEGER NOT NULL DEFAULT 0,
    agent_enabled INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE skill_files (
    skill   TEXT NOT NULL REFERENCES skills (name) ON DELETE CASCADE,
    path    TEXT NOT NULL,
    content BLOB NOT NULL,
    exec    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (skill, path)
);

CREATE TABLE tool_config (
    tool    TEXT PRIMARY KEY CHECK (tool IN ('skill_load', 'skill_run')),
    enabled INTEGER NOT NULL DEFAULT 0
);
INSERT INTO tool_config (tool, enabled) VALUES ('skill_load', 0), ('skill_run', 0);

CREATE TABLE sandbox_config (
    one              INTEGER PRIMARY KEY CHECK (one = 1),
    daily_run_limit  INTEGER NOT NULL DEFAULT 0 CHECK (daily_run_limit >= 0),
    total_timeout_ms INTEGER NOT NULL DEFAULT 30000 CHECK (total_timeout_ms BETWEEN 5000 AND 120000)
);
INSERT INTO sandbox_config (one) VALUES (1);

CREATE TABLE daily_quota (
    day  TEXT PRIMARY KEY, -- UTC, 2026-01-31
    runs INTEGER NOT NULL DEFAULT 0 CHECK (runs >= 0)
);

CREATE TABLE sessions (
    id       TEXT PRIMARY KEY,
    token    TEXT NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('rest', 'mcp')),
    turn     TEXT NOT NULL DEFAULT '',
    offered  TEXT NOT NULL DEFAULT '[]',
    runs     INTEGER NOT NULL DEFAULT 0 CHECK (runs >= 0),
    created  TEXT NOT NULL,
    last_end TEXT NOT NULL DEFAULT ''
);
CREATE INDEX sessions_by_token ON sessions (token, kind, created);
CREATE TABLE turns (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn    TEXT NOT NULL,
    runs    INTEGER NOT NULL DEFAULT 0 CHECK (runs >= 0),
    PRIMARY KEY (session, turn)
);

-- A call has a row here from its opened event to its closed one: that is what makes "exactly one closed" true.
CREATE TABLE open_calls (
    id      TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    turn    TEXT NOT NULL,
    counted INTEGER NOT NULL,
    day     TEXT NOT NULL,
    body    TEXT NOT NULL -- of the opened event
);

CREATE TABLE events (
    seq      INTEGER PRIMARY KEY,
    time     TEXT NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('opened', 'closed', 'operator')),
    call     TEXT NOT NULL,
    session  TEXT NOT NULL,
    tool     TEXT NOT NULL,
    skill    TEXT NOT NULL,
    decision TEXT NOT NULL,
    body     TEXT NOT NULL,
    prev     TEXT NOT NULL,
    hash     TEXT NOT NULL
);
CREATE INDEX events_by_session ON events (session, seq);
CREATE INDEX events_by_call ON events (call);

-- +goose Down
SELECT 1;
