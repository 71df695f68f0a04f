-- When the oldest process reported, and the one beyond a crowd; 0: there are fewer.
SELECT coalesce(min(seen), 0), coalesce((SELECT seen FROM dibs_processes ORDER BY seen DESC LIMIT 1 OFFSET ?), 0) FROM dibs_processes
