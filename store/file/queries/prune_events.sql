DELETE FROM events WHERE at < ?1;
