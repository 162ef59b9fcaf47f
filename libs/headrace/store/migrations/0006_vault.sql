-- What is kept outside the log so that it can be forgotten: sealed bytes only.

CREATE TABLE headrace.project_key (
    id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    project text NOT NULL UNIQUE,
    wrapped bytea NOT NULL
);

CREATE TABLE headrace.secret (
    project text,
    name text,
    version text,
    sealed bytea NOT NULL,
    PRIMARY KEY (project, name, version)
);
