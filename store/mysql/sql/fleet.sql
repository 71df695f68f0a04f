-- name: report
-- Keeps what a process says of itself.
INSERT INTO dibs_processes (ns, id, seen, record) VALUES (?, ?, IF(? = 0, @dibs_now, LEAST(?, @dibs_now)), ?)
ON DUPLICATE KEY UPDATE seen = VALUES(seen), record = VALUES(record);

-- name: processes-ends
-- Now, when the oldest process reported, and when the latest but a crowd did; 0: there is none.
SELECT @dibs_now, COALESCE((SELECT seen FROM dibs_processes WHERE ns = ? ORDER BY seen, id LIMIT 1), 0),
  COALESCE((SELECT seen FROM dibs_processes WHERE ns = ? ORDER BY seen DESC, id DESC LIMIT 1 OFFSET ?), 0);

-- name: old-processes
SELECT id FROM dibs_processes WHERE ns = ? AND seen < ? ORDER BY seen, id LIMIT ?;

-- name: forget-processes
-- "seen + 0" matches no index: the rows are locked in that order in which a report locks them.
DELETE FROM dibs_processes WHERE ns = ? AND id IN (?) AND seen + 0 < ?;

-- name: processes
-- The processes, the latest to report first.
SELECT seen, record FROM dibs_processes FORCE INDEX (recent) WHERE ns = ? ORDER BY seen DESC, id DESC LIMIT ?;
