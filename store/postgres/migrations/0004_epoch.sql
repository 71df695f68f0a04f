-- Schema dibs, version 4: the epoch of a namespace grows with each change of its identity. A client that has seen
-- a higher one knows that this is an older state of the data.
ALTER TABLE dibs.namespaces ADD COLUMN epoch bigint NOT NULL DEFAULT 0;

INSERT INTO dibs.migrations (version) VALUES (4);
