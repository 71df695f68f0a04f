-- Where the next step goes on.
INSERT OR REPLACE INTO dibs_turns (what, at, name) VALUES (?1, ?2, ?3);
