SELECT name, definition, generation, since, mark, removed FROM jobs WHERE name = ?1;
