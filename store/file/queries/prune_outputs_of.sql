-- Deletes the outputs of the ?2 runs of a job that started just before its newest ?3.
DELETE FROM dibs_outputs WHERE run_id IN
    (SELECT id FROM dibs_runs WHERE job = ?1 ORDER BY started DESC, id DESC LIMIT ?2 OFFSET ?3);
