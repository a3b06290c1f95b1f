-- The workspace's database. It is derived: everything in it can be made again from the release, the fetched
-- repositories and the run folders. Another schema version means rebuild; nothing is migrated.

CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);

-- The release, as imported. Ordinals are the release's own row order.
CREATE TABLE release_file (name VARCHAR PRIMARY KEY, sha256 VARCHAR NOT NULL);

-- What a reference to a release of the hub meant when the workspace first took it in.
CREATE TABLE seen (ref VARCHAR PRIMARY KEY, lasting VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL);

CREATE TABLE task (
    ordinal INTEGER NOT NULL, repo VARCHAR NOT NULL, task_id VARCHAR NOT NULL, language VARCHAR NOT NULL,
    selected BOOLEAN NOT NULL
);

CREATE TABLE query (
    ordinal INTEGER NOT NULL, repo VARCHAR NOT NULL, task_id VARCHAR NOT NULL, query_id VARCHAR NOT NULL,
    text VARCHAR NOT NULL, revision VARCHAR NOT NULL
);

-- The labels of a query at one image stage; revision is that of the corpus they are searched in ("" = not stated).
CREATE TABLE gold_row (
    image VARCHAR NOT NULL, query INTEGER NOT NULL, revision VARCHAR NOT NULL, place VARCHAR NOT NULL
);

CREATE TABLE gold_unit (
    image VARCHAR NOT NULL, query INTEGER NOT NULL, ordinal INTEGER NOT NULL, unit_key VARCHAR NOT NULL,
    path VARCHAR NOT NULL, symbol VARCHAR NOT NULL, fqmn VARCHAR NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, relevance VARCHAR NOT NULL, revision VARCHAR NOT NULL
);

-- fetch: one row a pinned revision. rules is what its listing was made under, '' before it was listed; asked is where
-- the last fetch asked for it. content is the digest of its listing (integrity.py).
CREATE TABLE revision (
    id INTEGER PRIMARY KEY, repo VARCHAR NOT NULL, sha VARCHAR NOT NULL, status VARCHAR NOT NULL,
    reason VARCHAR NOT NULL, rules VARCHAR NOT NULL, other_files INTEGER NOT NULL,
    asked VARCHAR NOT NULL, content UBIGINT NOT NULL DEFAULT 0, UNIQUE (repo, sha)
);

-- fetch: repositories that their host has moved.
CREATE TABLE moved (repo VARCHAR NOT NULL, url VARCHAR NOT NULL, note VARCHAR NOT NULL);

-- chunk: the files of each revision that are sources of the eleven languages, or that gold names.
-- blob -1 where the file is skipped by what the tree alone says; status then has the reason, else "source".
CREATE TABLE entry (
    revision INTEGER NOT NULL, path VARCHAR NOT NULL, blob INTEGER NOT NULL, status VARCHAR NOT NULL
);

-- One row a (blob, dialect): parsed once, however many revisions and paths hold it. content is the digest of its chunks.
CREATE TABLE blob (
    id INTEGER PRIMARY KEY, oid VARCHAR NOT NULL, dialect VARCHAR NOT NULL, rules VARCHAR NOT NULL,
    bytes BIGINT NOT NULL, lines INTEGER NOT NULL, status VARCHAR NOT NULL, error_count INTEGER NOT NULL,
    content UBIGINT NOT NULL
);

CREATE TABLE chunk (
    blob INTEGER NOT NULL, ordinal INTEGER NOT NULL, language VARCHAR NOT NULL, kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL, container VARCHAR NOT NULL, qualified_name VARCHAR NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, start_byte BIGINT NOT NULL, end_byte BIGINT NOT NULL,
    text VARCHAR NOT NULL USING COMPRESSION zstd -- a fifth of what DuckDB chooses, for a twentieth more time
);

-- canonicalize: one row a gold unit. tier '' where unresolved; path, blob and chunk say where it was found.
CREATE TABLE resolution (
    image VARCHAR NOT NULL, profile VARCHAR NOT NULL, query INTEGER NOT NULL, ordinal INTEGER NOT NULL, unit_key VARCHAR NOT NULL,
    tier VARCHAR NOT NULL, reason VARCHAR NOT NULL, path VARCHAR NOT NULL, blob INTEGER NOT NULL, chunk INTEGER NOT NULL
);

-- eval: what an unfinished run has so far, one row a query, kept after each corpus.
CREATE TABLE outcome (run_id VARCHAR NOT NULL, query INTEGER NOT NULL, document VARCHAR NOT NULL);

-- eval: the runs of this workspace and the files they wrote.
CREATE TABLE run (run_id VARCHAR PRIMARY KEY, model VARCHAR NOT NULL, image VARCHAR NOT NULL, identity VARCHAR NOT NULL);

CREATE TABLE run_file (
    run_id VARCHAR NOT NULL, name VARCHAR NOT NULL, sha256 VARCHAR NOT NULL, bytes BIGINT NOT NULL,
    PRIMARY KEY (run_id, name)
);
