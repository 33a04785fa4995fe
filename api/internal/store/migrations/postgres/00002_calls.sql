-- +goose Up
-- The same schema as SQLite's at this version. Text sorts by bytes (COLLATE "C"), as SQLite's does, so that both stores
-- answer in the same order. Times are text of one form, and bodies are text: what is hashed is what is stored.
CREATE TABLE tokens (
    name    TEXT COLLATE "C" NOT NULL,
    role    TEXT NOT NULL CHECK (role IN ('agent', 'viewer', 'operator')),
    mode    TEXT NOT NULL CHECK (mode IN ('read-only', 'mutating-with-confirm', 'dual-sign-required')),
    hash    TEXT NOT NULL PRIMARY KEY, -- hex sha256 of the secret
    created TEXT COLLATE "C" NOT NULL,
    revoked BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE NOT revoked;
CREATE TABLE skills (
    name          TEXT COLLATE "C" PRIMARY KEY,
    published     BOOLEAN NOT NULL DEFAULT FALSE,
    agent_enabled BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE TABLE skill_files (
    skill   TEXT COLLATE "C" NOT NULL REFERENCES skills (name) ON DELETE CASCADE,
    path    TEXT COLLATE "C" NOT NULL,
    content BYTEA NOT NULL,
    exec    BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (skill, path)
);
CREATE TABLE tool_config (
    tool    TEXT PRIMARY KEY CHECK (tool IN ('skill_load', 'skill_run')),
    enabled BOOLEAN NOT NULL DEFAULT FALSE
);
INSERT INTO tool_config (tool) VALUES ('skill_load'), ('skill_run');
CREATE TABLE sandbox_config (
    one              INTEGER PRIMARY KEY CHECK (one = 1),
    daily_run_limit  INTEGER NOT NULL DEFAULT 0 CHECK (daily_run_limit >= 0),
    total_timeout_ms INTEGER NOT NULL DEFAULT 30000 CHECK (total_timeout_ms BETWEEN 5000 AND 120000)
);
INSERT INTO sandbox_config (one) VALUES (1);
CREATE TABLE daily_quota (
    day  TEXT COLLATE "C" PRIMARY KEY, -- UTC, 2026-01-31
    runs INTEGER NOT NULL DEFAULT 0 CHECK (runs >= 0)
);
CREATE TABLE sessions (
    id       TEXT COLLATE "C" PRIMARY KEY,
    token    TEXT COLLATE "C" NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('rest', 'mcp')),
    turn     TEXT NOT NULL DEFAULT '',
    offered  TEXT NOT NULL DEFAULT '[]',
    runs     INTEGER NOT NULL DEFAULT 0 CHECK (runs >= 0),
    created  TEXT COLLATE "C" NOT NULL,
    last_end TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX sessions_by_token ON sessions (token, kind, created);
CREATE TABLE turns (
    session TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn    TEXT COLLATE "C" NOT NULL,
    runs    INTEGER NOT NULL DEFAULT 0 CHECK (runs >= 0),
    PRIMARY KEY (session, turn)
);
CREATE TABLE calls (
    id       TEXT COLLATE "C" PRIMARY KEY,
    session  TEXT NOT NULL,
    turn     TEXT NOT NULL,
    token    TEXT COLLATE "C" NOT NULL,
    tool     TEXT NOT NULL,
    skill    TEXT NOT NULL,
    decision TEXT NOT NULL,
    counted  BOOLEAN NOT NULL,
    day      TEXT NOT NULL,
    instance INTEGER NOT NULL, -- of the api that opened it; its liveness is an advisory lock
    opened   BIGINT NOT NULL,
    closed   BIGINT,
    outcome  TEXT NOT NULL DEFAULT ''
);
CREATE INDEX calls_open ON calls (token) WHERE closed IS NULL;
CREATE SEQUENCE instances AS INTEGER;
CREATE TABLE events (
    seq      BIGINT PRIMARY KEY,
    time     TEXT COLLATE "C" NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('opened', 'closed', 'operator')),
    call     TEXT COLLATE "C" NOT NULL,
    session  TEXT COLLATE "C" NOT NULL,
    tool     TEXT NOT NULL,
    skill    TEXT NOT NULL,
    decision TEXT NOT NULL,
    body     TEXT NOT NULL,
    prev     TEXT NOT NULL,
    hash     TEXT NOT NULL
);
CREATE INDEX events_by_session ON events (session, seq);
CREATE INDEX events_by_call ON events (call);
CREATE INDEX events_by_time ON events (time);
CREATE INDEX events_by_skill ON events (skill, seq);
CREATE INDEX events_denied ON events (seq) WHERE decision = 'deny';
-- +goose Down
SELECT 1;
