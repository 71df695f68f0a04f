-- instr = 1: the name begins with the prefix; every name begins with the empty one.
SELECT name, definition, generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed FROM dibs_jobs WHERE instr(name, ?1) = 1 ORDER BY name;
