DELETE FROM dibs_processes WHERE id IN (SELECT id FROM dibs_processes WHERE seen < ? ORDER BY seen LIMIT ?)
