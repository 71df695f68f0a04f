-- Where the last step of pruning ended, among rows that are old and have to stay.
SELECT at, name FROM dibs_turns WHERE what = ?1;
