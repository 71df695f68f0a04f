-- What the ?2 runs of a job printed that started before its newest ?3.
DELETE FROM dibs_outputs WHERE run_id IN
    (SELECT id FROM dibs_runs WHERE job = ?1 ORDER BY started DESC, id DESC LIMIT ?2 OFFSET ?3);
