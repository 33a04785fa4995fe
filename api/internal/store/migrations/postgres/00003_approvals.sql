-- +goose Up
-- A request of an agent to run what changes something, and what operators said to it.
CREATE TABLE approvals (
    id      TEXT COLLATE "C" PRIMARY KEY,
    session TEXT COLLATE "C" NOT NULL,
    token   TEXT NOT NULL, -- of the requester
    skill   TEXT NOT NULL,
    script  TEXT NOT NULL,
    class   TEXT NOT NULL CHECK (class IN ('mutating', 'dangerous')),
    input   TEXT NOT NULL, -- the judged bytes
    binding TEXT NOT NULL, -- protocol.Binding: what it is for
    wanted  INTEGER NOT NULL CHECK (wanted >= 1), -- different operators
    status  TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied', 'used')),
    run     TEXT NOT NULL DEFAULT '', -- the call that used it
    created TEXT COLLATE "C" NOT NULL,
    expires TEXT COLLATE "C" NOT NULL
);
CREATE INDEX approvals_by_session ON approvals (session, created);
CREATE INDEX approvals_by_time ON approvals (created);
CREATE INDEX approvals_by_run ON approvals (run) WHERE run <> '';
CREATE TABLE decisions (
    approval TEXT COLLATE "C" NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
    operator TEXT COLLATE "C" NOT NULL,
    approve  BOOLEAN NOT NULL,
    reason   TEXT NOT NULL,
    time     TEXT NOT NULL,
    PRIMARY KEY (approval, operator) -- nobody decides twice
);
-- The newest signed procedure of each script. What it says is proved by its signature, not by this row.
CREATE TABLE procedures (
    skill     TEXT COLLATE "C" NOT NULL,
    script    TEXT COLLATE "C" NOT NULL,
    document  BYTEA NOT NULL,
    signature BYTEA NOT NULL,
    PRIMARY KEY (skill, script)
);
-- Of the folder of an external skill, as an operator enabled it.
ALTER TABLE skills ADD COLUMN digest TEXT NOT NULL DEFAULT '';
-- +goose Down
SELECT 1;
