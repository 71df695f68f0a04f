SELECT output FROM outputs WHERE run_id = ?1;
