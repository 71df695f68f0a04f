SELECT seen, record FROM dibs_processes ORDER BY seen DESC LIMIT ?
