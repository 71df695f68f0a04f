SELECT at, name FROM dibs_turns WHERE what = ?1;
