DELETE FROM dibs_events WHERE at < ?1;
