CREATE TABLE `dibs_events` (
  `ns` varbinary(64) NOT NULL,
  `at` bigint(20) NOT NULL,
  `id` varbinary(64) NOT NULL,
  `kind` varbinary(64) NOT NULL,
  `lease_key` varbinary(530) NOT NULL DEFAULT '',
  `job` varbinary(530) NOT NULL DEFAULT '',
  `tick` bigint(20) NOT NULL DEFAULT 0,
  `run_id` varbinary(64) NOT NULL DEFAULT '',
  `host` text DEFAULT NULL,
  `reason` mediumtext DEFAULT NULL,
  PRIMARY KEY (`ns`,`at`,`id`),
  KEY `of_job` (`ns`,`job`,`at`,`id`),
  KEY `of_run` (`ns`,`run_id`,`at`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795648776014139', '01a21501-e74e-7076-9e2c-2c07a3c37b13', 'clock-step', '', '', '0', '', 'web-1', 'by 3 s');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795648776014139', '01a21501-e74e-708a-a267-8b29432f0aab', 'lease-broken', 'broken', 'shop/report', '1795611600000000', '01a21501-e6ff-7038-829e-f642282b3575', 'web-1', 'by ann');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795648776182117', '01a21501-e7f5-7b6e-8986-b46c7975a0c6', 'task-cancel', '', '', '0', '', '', '1 task: 7 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795648776190507', '01a21501-e7fe-722c-b70d-94cb47dd7aec', 'task-discard', '', '', '0', '', '', '1 task: 8 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795648776192071', '01a21501-e7ff-7ac4-8250-15371abc9470', 'task-promote', '', '', '0', '', '', '1 task: 9 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795648776325615', '01a21501-e885-7415-a591-ef2e676bb6b1', 'queue-paused', '', '', '0', '', '', 'queue closed by ann: stocktaking');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795648776362373', '01a21501-e8aa-745c-90d6-386bf5e0404f', 'limit-changed', '', '', '0', '', '', '"printer" from 1 to 1 by ann');
CREATE TABLE `dibs_jobs` (
  `ns` varbinary(64) NOT NULL,
  `name` varbinary(530) NOT NULL,
  `definition` mediumtext DEFAULT NULL,
  `generation` bigint(20) NOT NULL DEFAULT 0,
  `since` bigint(20) NOT NULL DEFAULT 0,
  `mark` bigint(20) NOT NULL DEFAULT 0,
  `removed` bigint(20) NOT NULL DEFAULT 0,
  `paused_since` bigint(20) NOT NULL DEFAULT 0,
  `paused_until` bigint(20) NOT NULL DEFAULT 0,
  `paused_by` text DEFAULT NULL,
  `paused_why` text DEFAULT NULL,
  `paused_resumed` tinyint(4) NOT NULL DEFAULT 0,
  `past` mediumtext DEFAULT NULL,
  PRIMARY KEY (`ns`,`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/gone', '{}', '1', '1795611600000000', '1795611599999999', '1795648775913600', '0', '0', NULL, NULL, '0', NULL);
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/paused', '{}', '1', '1795611600000000', '1795611599999999', '0', '1795648775915194', '0', 'ann', 'stocktaking', '0', NULL);
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/report', '{"schedules":["@hourly"]}', '2', '1795608000000000', '1795629600000000', '0', '0', '0', NULL, NULL, '0', NULL);
CREATE TABLE `dibs_leases` (
  `ns` varbinary(64) NOT NULL,
  `lease_key` varbinary(530) NOT NULL,
  `owner` varbinary(32) NOT NULL DEFAULT '',
  `token` bigint(20) NOT NULL DEFAULT 0,
  `holder` mediumtext DEFAULT NULL,
  `replaceable` tinyint(4) NOT NULL DEFAULT 0,
  `ttl` bigint(20) NOT NULL DEFAULT 0,
  `acquired` bigint(20) NOT NULL DEFAULT 0,
  `renewed` bigint(20) NOT NULL DEFAULT 0,
  `expires` bigint(20) NOT NULL DEFAULT 0,
  `busy_until` bigint(20) NOT NULL DEFAULT 0,
  `wanted` mediumtext DEFAULT NULL,
  `broken` mediumtext DEFAULT NULL,
  `broken_at` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`ns`,`lease_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'broken', 'af8271aa5570a20ea263aa9f88ae3886', '1795648775892811', '{"id":"af8271aa5570a20ea263aa9f88ae3886","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648775892811', '1795648775892811', '1795648780892811', '0', NULL, '{"by":"ann","why":"it hangs","at":"0001-01-01T00:00:00Z"}', '1795648775894799');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'deploy', '342e5982ddce81fff03f45bf43a8b6de', '1795648775883848', '{"id":"342e5982ddce81fff03f45bf43a8b6de","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648775883848', '1795648775883848', '1795648780883848', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once862d9439e23e1287ac35fc00fb053bf9', '33223e719f619437911e21aa89cab591', '1795648776233363', '{"id":"33223e719f619437911e21aa89cab591","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648776233363', '1795648776233363', '1795648781233363', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once8ef0b1f118c80f83e0bc2fe9ec38c63a', 'd939cd7a898b78d018380b5026e30ce4', '1795648776268709', '{"id":"d939cd7a898b78d018380b5026e30ce4","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648776268709', '1795648776268709', '1795648781268709', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'oncee3b8d7a99a5b3c2b77484dfaf3299f74', '6e44caec6b134e61bb4996931c430709', '1795648776021434', '{"id":"6e44caec6b134e61bb4996931c430709","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648776021434', '1795648776021434', '1795648781021434', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'oncef3eaf3fc7ee4b3a9a6b00f56f1d4bc88', 'e23392dba9c3ee889fef1e065fce0739', '1795648776201527', '{"id":"e23392dba9c3ee889fef1e065fce0739","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648776201527', '1795648776201527', '1795648781201527', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'released', 'c850bfbf3ff1e373885595528c8bcb66', '1795648775872960', '{"id":"c850bfbf3ff1e373885595528c8bcb66","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648775872960', '1795648775872960', '0', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'server/web-1', '0fe4310092ba70fd6c48aaecbb5426d0', '1795648775921371', '{"id":"0fe4310092ba70fd6c48aaecbb5426d0","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648775921371', '1795648775921371', '1795648780921371', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'shop/report', '49ed2308e431c903d4a474b4c2f88dd2', '1795648775925321', '{"id":"49ed2308e431c903d4a474b4c2f88dd2","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795648775925321', '1795648775925321', '1795648780925321', '0', NULL, NULL, '0');
CREATE TABLE `dibs_meta` (
  `ns` varbinary(64) NOT NULL,
  `installation` varbinary(64) NOT NULL,
  `identity` varbinary(512) NOT NULL,
  `max_ttl` bigint(20) NOT NULL,
  `hold_until` bigint(20) NOT NULL,
  `created` bigint(20) NOT NULL,
  `epoch` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`ns`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_meta (`ns`, `installation`, `identity`, `max_ttl`, `hold_until`, `created`, `epoch`) VALUES ('shop', '5aa3340ba87c3b08b5bc0f4481b53d71', 'vm|53306|/tmp/names/my/data/|1', '15000000', '0', '1795648775862330', '1795648775862330');
CREATE TABLE `dibs_outputs` (
  `ns` varbinary(64) NOT NULL,
  `run_id` varbinary(64) NOT NULL,
  `at` bigint(20) NOT NULL,
  `output` mediumblob NOT NULL,
  PRIMARY KEY (`ns`,`run_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_outputs (`ns`, `run_id`, `at`, `output`) VALUES ('shop', '01a21501-e6ff-7038-829e-f642282b3575', '1795648775955576', '42 reports
');
CREATE TABLE `dibs_pruned` (
  `ns` varbinary(64) NOT NULL,
  `kind` varbinary(16) NOT NULL,
  `at` bigint(20) NOT NULL DEFAULT 0,
  `name` varbinary(530) NOT NULL DEFAULT '',
  PRIMARY KEY (`ns`,`kind`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE `dibs_runs` (
  `ns` varbinary(64) NOT NULL,
  `run_id` varbinary(64) NOT NULL,
  `job` varbinary(530) NOT NULL DEFAULT '',
  `tick` bigint(20) NOT NULL DEFAULT 0,
  `owner` varbinary(32) NOT NULL DEFAULT '',
  `token` bigint(20) NOT NULL DEFAULT 0,
  `host` text DEFAULT NULL,
  `pid` bigint(20) NOT NULL DEFAULT 0,
  `command` mediumtext DEFAULT NULL,
  `outcome` varbinary(16) NOT NULL DEFAULT '',
  `reason` mediumtext DEFAULT NULL,
  `inferred` tinyint(4) NOT NULL DEFAULT 0,
  `started` bigint(20) NOT NULL DEFAULT 0,
  `ended` bigint(20) NOT NULL DEFAULT 0,
  `attempts` mediumtext DEFAULT NULL,
  `cause` text DEFAULT NULL,
  PRIMARY KEY (`ns`,`run_id`),
  KEY `recent` (`ns`,`started`,`run_id`),
  KEY `of_job` (`ns`,`job`,`started`,`run_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21501-e6ff-7038-829e-f642282b3575', 'shop/report', '1795611600000000', '49ed2308e431c903d4a474b4c2f88dd2', '1795648775925321', 'web-1', '42', 'php report.php', 'succeeded', '', '0', '1795648775935554', '1795648775936554', '[{"n":1,"outcome":"","started":"2026-11-25T23:19:35.935554Z","ended":"2026-11-25T23:19:35.936554Z"}]', NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21501-e709-72fc-9186-e5b9de32295f', 'shop/report', '1795615200000000', '49ed2308e431c903d4a474b4c2f88dd2', '1795648775925321', 'web-1', '42', 'php report.php', 'failed', 'exit status 1', '0', '1795648775945598', '1795648775946598', '[{"n":1,"outcome":"","started":"2026-11-25T23:19:35.945598Z","ended":"2026-11-25T23:19:35.946598Z"}]', NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21501-e731-7aa4-b759-6386e066eae4', 'shop/report', '1795633200000000', '49ed2308e431c903d4a474b4c2f88dd2', '1795648775925321', 'web-1', '42', 'php report.php', '', NULL, '0', '1795648775986263', '0', NULL, NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21501-e74d-75e5-89f2-3ca580055b0a', 'shop/once', '0', 'cf15e16c14fc9d88747fbdfd80fc80d9', '7', 'web-2', '0', '', 'succeeded', '', '0', '1795615200000000', '1795618800000000', NULL, '{"by":"ann","why":"a test"}');
CREATE TABLE `dibs_schema` (
  `version` int(11) NOT NULL,
  `oldest` int(11) NOT NULL,
  PRIMARY KEY (`version`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO dibs_schema (`version`, `oldest`) VALUES ('1', '1');
CREATE TABLE `dibs_tasks` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `ns` varbinary(64) NOT NULL,
  `ver` bigint(20) NOT NULL DEFAULT 1,
  `subqueue` bigint(20) NOT NULL,
  `queue` varbinary(128) NOT NULL,
  `kind` varbinary(128) NOT NULL,
  `state` tinyint(4) NOT NULL,
  `class` tinyint(4) NOT NULL DEFAULT 0,
  `ordinal` smallint(6) NOT NULL,
  `priority` smallint(6) NOT NULL,
  `run_at` bigint(20) NOT NULL,
  `due_at` bigint(20) NOT NULL DEFAULT 0,
  `enqueued` bigint(20) NOT NULL,
  `expires` bigint(20) NOT NULL DEFAULT 0,
  `lapses` bigint(20) NOT NULL DEFAULT 0,
  `started` bigint(20) NOT NULL DEFAULT 0,
  `ended` bigint(20) NOT NULL DEFAULT 0,
  `done` tinyint(4) NOT NULL DEFAULT 0,
  `attempts` int(11) NOT NULL DEFAULT 0,
  `granted` int(11) NOT NULL DEFAULT 0,
  `crashes` int(11) NOT NULL DEFAULT 0,
  `snoozes` int(11) NOT NULL DEFAULT 0,
  `begun` tinyint(4) NOT NULL DEFAULT 0,
  `displaced` tinyint(4) NOT NULL DEFAULT 0,
  `token` bigint(20) NOT NULL DEFAULT 0,
  `worker` bigint(20) NOT NULL DEFAULT 0,
  `holder` bigint(20) NOT NULL DEFAULT 0,
  `completed` bigint(20) NOT NULL DEFAULT 0,
  `ukey` binary(16) DEFAULT NULL,
  `win` bigint(20) NOT NULL DEFAULT 0,
  `limited` binary(16) DEFAULT NULL,
  `line` tinyint(4) NOT NULL DEFAULT 0,
  `reason` text NOT NULL,
  `stop` text NOT NULL,
  `options` mediumblob NOT NULL,
  `args` mediumblob NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `one` (`ns`,`ukey`),
  KEY `listed` (`ns`,`id`),
  KEY `ready` (`ns`,`subqueue`,`state`,`class`,`ordinal`,`id`),
  KEY `due` (`ns`,`subqueue`,`due_at`),
  KEY `line` (`ns`,`limited`,`state`,`line`,`subqueue`,`ordinal`,`id`),
  KEY `held` (`ns`,`holder`),
  KEY `lapse` (`ns`,`lapses`),
  KEY `win` (`ns`,`win`),
  KEY `old` (`ns`,`done`,`ended`)
) ENGINE=InnoDB AUTO_INCREMENT=25 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('1', 'shop', '4', '7022278005251356015', 'mail', 'good', '5', '0', '0', '0', '1795648776037231', '0', '1795648776037231', '0', '0', '1795648776041356', '1795648776057522', '5', '1', '0', '0', '0', '1', '0', '1795648776041356', '1', '0', '1795648776041356', NULL, '0', NULL, '0', '', '', '', '{"of":"good"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('2', 'shop', '4', '6505994587082923459', 'mail', 'bad', '6', '0', '0', '0', '1795648776064629', '0', '1795648776064629', '0', '0', '1795648776067522', '1795648776073678', '6', '1', '0', '0', '0', '1', '0', '1795648776067522', '1', '0', '1795648776067522', NULL, '0', NULL, '0', 'attempts', '', '', '{"of":"bad"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('3', 'shop', '4', '989028055896728617', 'mail', 'again', '4', '0', '0', '0', '8107168776101785', '8107168776101785', '1795648776080616', '0', '0', '1795648776086878', '0', '0', '1', '0', '0', '0', '1', '0', '1795648776086878', '1', '0', '1795648776086878', NULL, '0', NULL, '0', '', '', '', '{"of":"again"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('4', 'shop', '4', '4246373609545057653', 'mail', 'postponed', '4', '0', '0', '0', '8107168776121839', '8107168776121839', '1795648776105233', '0', '0', '1795648776113474', '0', '0', '0', '0', '0', '1', '1', '0', '1795648776113474', '1', '0', '1795648776113474', NULL, '0', NULL, '0', '', '', '', '{"of":"postponed"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('5', 'shop', '4', '6705030812160400849', 'mail', 'dropped', '7', '0', '0', '0', '1795648776124763', '0', '1795648776124763', '0', '0', '1795648776126315', '1795648776135230', '7', '0', '0', '0', '0', '1', '0', '1795648776126315', '1', '0', '1795648776126315', NULL, '0', NULL, '0', 'handler', '', '', '{"of":"dropped"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('6', 'shop', '4', '3547330915203525211', 'mail', 'window', '5', '0', '0', '0', '1795648776145475', '0', '1795648776145475', '0', '0', '1795648776154579', '1795648776162846', '5', '1', '0', '0', '0', '1', '0', '1795648776154579', '1', '0', '1795648776154579', 0x8F43614ED41DD77EC40F3F1971F2D7A8, '8107168776162846', NULL, '0', '', '', '{"unique":{"key":"w","window":6311520000000000000}}', '{"of":"window"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('7', 'shop', '2', '3894255745167609032', 'mail', 'canceled', '8', '0', '0', '0', '1795648776178476', '0', '1795648776178476', '0', '0', '0', '1795648776181452', '8', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', 'operator', '', '', '{"of":"canceled"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('8', 'shop', '2', '5753380159956280728', 'mail', 'discarded', '7', '0', '0', '0', '1795648776178476', '0', '1795648776178476', '0', '0', '0', '1795648776189857', '7', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', 'operator', '', '', '{"of":"discarded"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('9', 'shop', '2', '3531207283515617163', 'mail', 'front', '1', '0', '-100', '0', '1795648776178476', '0', '1795648776178476', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"front"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('10', 'shop', '7', '5937476707794856082', 'mail', 'poison', '9', '2', '0', '0', '1795648776198585', '0', '1795648776198585', '0', '0', '1795648776245928', '1795648776258178', '9', '0', '0', '1', '0', '1', '0', '1795648776245928', '3', '0', '0', NULL, '0', NULL, '0', '', '', '{"max_crashes":1}', '{"of":"poison"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('11', 'shop', '4', '4572714375828863502', 'mail', 'suspect', '1', '1', '0', '0', '1795648776198585', '0', '1795648776198585', '0', '0', '1795648776279107', '0', '0', '0', '0', '0', '0', '1', '0', '1795648776279107', '4', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"suspect"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('12', 'shop', '1', '6484592654145242847', 'mail', 'later', '0', '0', '0', '0', '8107168776305472', '8107168776305472', '1795648776313509', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"later"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('13', 'shop', '1', '7577323810498599917', 'mail', 'expiring', '1', '0', '0', '0', '1795648776313509', '0', '1795648776313509', '8107168776305472', '8107168776305472', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"expiring"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('14', 'shop', '1', '9007424100946699636', 'mail', 'urgent', '1', '0', '-9', '9', '1795648776313509', '0', '1795648776313509', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '{"tags":["vip"]}', '{"of":"urgent"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('15', 'shop', '1', '7628459992232769243', 'mail', 'unique', '1', '0', '0', '0', '1795648776313509', '0', '1795648776313509', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', 0x433B34A177510E765C804ED7E69E0765, '0', NULL, '0', '', '', '{"unique":{"key":"welcome","shared":true}}', '{"of":"unique"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('16', 'shop', '1', '8536988840329540153', 'mail', 'plain', '1', '0', '0', '0', '1795648776313509', '0', '1795648776313509', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('17', 'shop', '1', '8536988840329540153', 'mail', 'plain', '1', '0', '0', '0', '1795648776313509', '0', '1795648776313509', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('18', 'shop', '1', '5493566598521500993', 'mail', 'rated', '1', '0', '0', '0', '1795648776313509', '0', '1795648776313509', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"rated"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('19', 'shop', '1', '4385138385235690800', 'closed', 'plain', '1', '0', '0', '0', '1795648776321203', '0', '1795648776321203', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('20', 'shop', '3', '1466000630381567318', 'mail', 'limited', '3', '0', '0', '0', '1795648776345696', '0', '1795648776345696', '0', '0', '1795648776351778', '0', '0', '0', '0', '0', '0', '1', '0', '1795648776351778', '1', '1', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('21', 'shop', '1', '1466000630381567318', 'mail', 'limited', '2', '0', '0', '0', '1795648776345696', '0', '1795648776345696', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('22', 'shop', '1', '1466000630381567318', 'mail', 'limited', '2', '0', '0', '0', '1795648776345696', '0', '1795648776345696', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('23', 'shop', '1', '6392117787272255741', 'mail', 'unsaid', '1', '0', '0', '0', '1795648776377690', '0', '1795648776377690', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xA2DB2AB3E0A592A13D6417D2EBFD009A, '1', '', '', '{"limit":{"key":"scanner","max":2}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('24', 'shop', '3', '4174740612734023908', 'mail', 'running', '3', '0', '0', '0', '1795648776381264', '0', '1795648776381264', '0', '0', '1795648776387398', '0', '0', '0', '0', '0', '0', '1', '0', '1795648776387398', '1', '1', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"running"}');
CREATE TABLE `dibs_task_attempts` (
  `task` bigint(20) NOT NULL,
  `i` bigint(20) NOT NULL AUTO_INCREMENT,
  `attempt` mediumblob NOT NULL,
  PRIMARY KEY (`task`,`i`),
  KEY `i` (`i`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('2', '1', '{"n":1,"outcome":"failed","started":"2026-11-25T23:19:36.073499Z","ended":"2026-11-25T23:19:36.073499Z","host":"web-1","error":"no such address"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('3', '2', '{"n":1,"outcome":"failed","started":"2026-11-25T23:19:36.101468Z","ended":"2026-11-25T23:19:36.101468Z","host":"web-1","error":"timeout"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('4', '3', '{"n":1,"outcome":"snoozed","started":"2026-11-25T23:19:36.1217Z","ended":"2026-11-25T23:19:36.1217Z","host":"web-1"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('10', '4', '{"n":1,"outcome":"crashed","started":"2026-11-25T23:19:36.245928Z","ended":"2026-11-25T23:19:36.258178Z","host":"web-2"}');
CREATE TABLE `dibs_task_counts` (
  `ns` varbinary(64) NOT NULL,
  `minute` bigint(20) NOT NULL,
  `queue` varbinary(128) NOT NULL,
  `kind` varbinary(128) NOT NULL,
  `name` varbinary(128) NOT NULL,
  `salt` bigint(20) NOT NULL,
  `n` bigint(20) NOT NULL,
  PRIMARY KEY (`ns`,`minute`,`queue`,`kind`,`name`,`salt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795648740000000', 'mail', 'canceled', 'canceled', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795648740000000', 'mail', 'discarded', 'discarded:operator', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795648740000000', 'mail', 'plain', 'enqueued', '0', '2');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795648740000000', 'mail', 'poison', 'crashed', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795648740000000', 'mail', 'poison', 'rescued', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795648740000000', 'mail', 'suspect', 'rescued', '0', '1');
CREATE TABLE `dibs_task_limits` (
  `ns` varbinary(64) NOT NULL,
  `hash` binary(16) NOT NULL,
  `limit_key` varbinary(530) NOT NULL,
  `slots` int(11) NOT NULL,
  `token` bigint(20) NOT NULL DEFAULT 0,
  `declared` int(11) NOT NULL DEFAULT 0,
  `said_by` varchar(1000) NOT NULL DEFAULT '',
  `said` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`ns`,`hash`),
  KEY `said` (`ns`,`declared`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_limits (`ns`, `hash`, `limit_key`, `slots`, `token`, `declared`, `said_by`, `said`) VALUES ('shop', 0xA2DB2AB3E0A592A13D6417D2EBFD009A, 'scanner', '2', '1795648776373072', '0', '', '0');
INSERT INTO dibs_task_limits (`ns`, `hash`, `limit_key`, `slots`, `token`, `declared`, `said_by`, `said`) VALUES ('shop', 0xADB4EFE9636187F0ACC3397D61D18C75, 'printer', '1', '1795648776351778', '1', 'ann', '1795648776361746');
CREATE TABLE `dibs_task_pauses` (
  `ns` varbinary(64) NOT NULL,
  `queue` varbinary(128) NOT NULL,
  `kind` varbinary(128) NOT NULL,
  `since` bigint(20) NOT NULL,
  `until` bigint(20) NOT NULL,
  `by_` text NOT NULL,
  `why` text NOT NULL,
  PRIMARY KEY (`ns`,`queue`,`kind`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_pauses (`ns`, `queue`, `kind`, `since`, `until`, `by_`, `why`) VALUES ('shop', 'closed', '', '1795648776325615', '0', 'ann', 'stocktaking');
CREATE TABLE `dibs_task_rates` (
  `ns` varbinary(64) NOT NULL,
  `kind` varbinary(128) NOT NULL,
  `ver` bigint(20) NOT NULL DEFAULT 1,
  `each_` bigint(20) NOT NULL,
  `burst` bigint(20) NOT NULL,
  `full` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`ns`,`kind`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_rates (`ns`, `kind`, `ver`, `each_`, `burst`, `full`) VALUES ('shop', 'rated', '1', '200000000', '1000000000', '0');
CREATE TABLE `dibs_task_subqueues` (
  `ns` varbinary(64) NOT NULL,
  `queue` varbinary(128) NOT NULL,
  `kind` varbinary(128) NOT NULL,
  `salt` bigint(20) NOT NULL,
  PRIMARY KEY (`ns`,`queue`,`kind`,`salt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'closed', 'plain', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'again', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'bad', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'canceled', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'discarded', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'dropped', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'expiring', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'front', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'good', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'later', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'limited', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'plain', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'poison', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'postponed', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'rated', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'running', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'suspect', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'unique', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'unsaid', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'urgent', '0');
INSERT INTO dibs_task_subqueues (`ns`, `queue`, `kind`, `salt`) VALUES ('shop', 'mail', 'window', '0');
CREATE TABLE `dibs_task_wakes` (
  `ns` varbinary(64) NOT NULL,
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `hash` binary(16) NOT NULL,
  `limit_key` varbinary(530) NOT NULL,
  `slots` int(11) NOT NULL,
  PRIMARY KEY (`ns`,`id`),
  KEY `id` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE `dibs_task_workers` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `ns` varbinary(64) NOT NULL,
  `owner` varbinary(32) NOT NULL,
  `token` bigint(20) NOT NULL,
  `lease_key` varbinary(530) NOT NULL,
  `host` text NOT NULL,
  `pid` bigint(20) NOT NULL DEFAULT 0,
  `does` mediumblob NOT NULL,
  `slots` int(11) NOT NULL DEFAULT 0,
  `since` bigint(20) NOT NULL DEFAULT 0,
  `ended` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  UNIQUE KEY `one` (`ns`,`owner`,`token`,`lease_key`),
  KEY `ended` (`ns`,`ended`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('1', 'shop', '6e44caec6b134e61bb4996931c430709', '1795648776021434', 'oncee3b8d7a99a5b3c2b77484dfaf3299f74', 'web-1', '7', '[["mail"],null]', '10', '1795648776030044', '0');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('2', 'shop', 'e23392dba9c3ee889fef1e065fce0739', '1795648776201527', 'oncef3eaf3fc7ee4b3a9a6b00f56f1d4bc88', 'web-2', '7', '[["mail"],null]', '10', '1795648776205982', '1795648776226164');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('3', 'shop', '33223e719f619437911e21aa89cab591', '1795648776233363', 'once862d9439e23e1287ac35fc00fb053bf9', 'web-2', '7', '[["mail"],null]', '10', '1795648776241785', '1795648776261376');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('4', 'shop', 'd939cd7a898b78d018380b5026e30ce4', '1795648776268709', 'once8ef0b1f118c80f83e0bc2fe9ec38c63a', 'web-2', '7', '[["mail"],null]', '10', '1795648776274295', '1795648776298111');
CREATE TABLE `dibs_ticks` (
  `ns` varbinary(64) NOT NULL,
  `job` varbinary(530) NOT NULL,
  `at` bigint(20) NOT NULL,
  `through` bigint(20) NOT NULL DEFAULT 0,
  `many` int(11) NOT NULL DEFAULT 0,
  `state` varbinary(16) NOT NULL,
  `lease_key` varbinary(530) NOT NULL DEFAULT '',
  `lease_owner` varbinary(32) NOT NULL DEFAULT '',
  `lease_token` bigint(20) NOT NULL DEFAULT 0,
  `claimant` mediumtext DEFAULT NULL,
  `run_id` varbinary(64) NOT NULL DEFAULT '',
  `outcome` varbinary(16) NOT NULL DEFAULT '',
  `reason` mediumtext DEFAULT NULL,
  `inferred` tinyint(4) NOT NULL DEFAULT 0,
  `reruns` int(11) NOT NULL DEFAULT 0,
  `claimed` bigint(20) NOT NULL DEFAULT 0,
  `started` bigint(20) NOT NULL DEFAULT 0,
  `ended` bigint(20) NOT NULL DEFAULT 0,
  `open_job` varbinary(530) GENERATED ALWAYS AS (if(`state` = 'closed',NULL,`job`)) VIRTUAL,
  `owed_app` varbinary(530) GENERATED ALWAYS AS (if(`state` = 'closed' and `lease_token` > 0 and (`outcome` in ('lost','crashed','canceled','missed','unavailable','paused') or `outcome` = 'skipped' and `reason` = 'window'),left(`job`,locate('/',`job`)),NULL)) VIRTUAL,
  `range_end` bigint(20) GENERATED ALWAYS AS (nullif(`through`,0)) VIRTUAL,
  PRIMARY KEY (`ns`,`job`,`at`),
  KEY `unfinished` (`ns`,`state`,`at`),
  KEY `recent` (`ns`,`at`,`job`),
  KEY `unfinished_by_job` (`ns`,`open_job`,`at`),
  KEY `owed` (`ns`,`owed_app`,`at`,`job`),
  KEY `ranges` (`ns`,`range_end`,`at`,`job`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795611600000000', '0', '0', 'closed', 'shop/report', '49ed2308e431c903d4a474b4c2f88dd2', '1795648775925321', '{"id":"0fe4310092ba70fd6c48aaecbb5426d0","host":"web-1","pid":42}', '01a21501-e6ff-7038-829e-f642282b3575', 'succeeded', '', '0', '0', '1795648775933750', '1795648775935554', '1795648775936554');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795615200000000', '0', '0', 'closed', 'shop/report', '49ed2308e431c903d4a474b4c2f88dd2', '1795648775925321', '{"id":"0fe4310092ba70fd6c48aaecbb5426d0","host":"web-1","pid":42}', '01a21501-e709-72fc-9186-e5b9de32295f', 'failed', 'exit status 1', '0', '0', '1795648775941670', '1795648775945598', '1795648775946598');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795618800000000', '0', '0', 'closed', 'server/web-1', '0fe4310092ba70fd6c48aaecbb5426d0', '1795648775921371', '{"id":"0fe4310092ba70fd6c48aaecbb5426d0","host":"web-1","pid":42}', '', 'skipped', 'overlap', '0', '0', '1795648775957562', '0', '1795648775957562');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795622400000000', '1795629600000000', '3', 'closed', '', '', '0', NULL, '', 'missed', 'nobody was there', '0', '0', '0', '0', '1795648775958761');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795633200000000', '0', '0', 'started', 'shop/report', '49ed2308e431c903d4a474b4c2f88dd2', '1795648775925321', '{"id":"0fe4310092ba70fd6c48aaecbb5426d0","host":"web-1","pid":42}', '01a21501-e731-7aa4-b759-6386e066eae4', '', '', '0', '0', '1795648775982431', '1795648775986263', '0');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795636800000000', '0', '0', 'claimed', 'server/web-1', '0fe4310092ba70fd6c48aaecbb5426d0', '1795648775921371', '{"id":"0fe4310092ba70fd6c48aaecbb5426d0","host":"web-1","pid":42}', '', '', '', '0', '0', '1795648776008059', '0', '0');
