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
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795790916528239', '01a21d7a-cbb0-7000-8611-ca9f8f2ea3e0', 'clock-step', '', '', '0', '', 'web-1', 'by 3 s');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795790916528239', '01a21d7a-cbb0-7102-95d3-adef91307815', 'lease-broken', 'broken', 'shop/report', '1795752000000000', '01a21d7a-cacd-753c-9a2e-d3a8796c1c24', 'web-1', 'by ann');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795790916987561', '01a21d7a-cd7a-733f-bfb1-e0b7c1b0f492', 'task-cancel', '', '', '0', '', '', '1 task: 7 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795790916993981', '01a21d7a-cd7e-7e73-9cf2-926047588774', 'task-discard', '', '', '0', '', '', '1 task: 8 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795790916997737', '01a21d7a-cd85-7016-b4a3-c450240d4317', 'task-promote', '', '', '0', '', '', '1 task: 9 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795790917137860', '01a21d7a-ce11-78a5-a39e-5c3fba54a624', 'queue-paused', '', '', '0', '', '', 'queue closed by ann: stocktaking');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795790917166586', '01a21d7a-ce2e-747d-b2a2-150b197b0d2d', 'limit-changed', '', '', '0', '', '', '"printer" from 1 to 1 by ann');
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
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/gone', '{}', '1', '1795752000000000', '1795751999999999', '1795790916290294', '0', '0', NULL, NULL, '0', NULL);
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/paused', '{}', '1', '1795752000000000', '1795751999999999', '0', '1795790916292208', '0', 'ann', 'stocktaking', '0', NULL);
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/report', '{"schedules":["@hourly"]}', '2', '1795748400000000', '1795770000000000', '0', '0', '0', NULL, NULL, '0', NULL);
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
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'broken', '197184d848a06cc2587c6a9d7368852f', '1795790916279650', '{"id":"197184d848a06cc2587c6a9d7368852f","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790916279650', '1795790916279650', '1795790921279650', '0', NULL, '{"by":"ann","why":"it hangs","at":"0001-01-01T00:00:00Z"}', '1795790916281023');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'deploy', '8236e6f3bb55b2c7fa508d4524475289', '1795790916276642', '{"id":"8236e6f3bb55b2c7fa508d4524475289","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790916276642', '1795790916276642', '1795790921276642', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once05396c4bd7ef04c44e7141a7127d666f', 'f82020c07120f507f46115e5dca89a4f', '1795790917078540', '{"id":"f82020c07120f507f46115e5dca89a4f","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790917078540', '1795790917078540', '1795790922078540', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once223d2e96ec7b04f2c06ba7c09230991a', '8aa8117ce342e307a3b1fcbef7f94352', '1795790917106008', '{"id":"8aa8117ce342e307a3b1fcbef7f94352","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790917106008', '1795790917106008', '1795790922106008', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once2b9cb5fe6bd51d8b8b26cf2bc8079971', 'd9342a92b499caf5bf0359a492d61785', '1795790916540899', '{"id":"d9342a92b499caf5bf0359a492d61785","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790916540899', '1795790916540899', '1795790921540899', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once92dadc86f74fdbc29b07c8af7e8d25a7', 'fa27134d77eb81aff98b703263719af1', '1795790917006588', '{"id":"fa27134d77eb81aff98b703263719af1","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790917006588', '1795790917006588', '1795790922006588', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'released', '30941560d608b33eb30960ae85f5d82d', '1795790916271108', '{"id":"30941560d608b33eb30960ae85f5d82d","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790916271108', '1795790916271108', '0', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'server/web-1', 'e4de808c63cf8385e3600e40511f2622', '1795790916294427', '{"id":"e4de808c63cf8385e3600e40511f2622","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790916294427', '1795790916294427', '1795790921294427', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'shop/report', '0a981fcb9ded27449303dee50f7fd225', '1795790916297688', '{"id":"0a981fcb9ded27449303dee50f7fd225","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795790916297688', '1795790916297688', '1795790921297688', '0', NULL, NULL, '0');
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
INSERT INTO dibs_meta (`ns`, `installation`, `identity`, `max_ttl`, `hold_until`, `created`, `epoch`) VALUES ('shop', '7cff8a4ad9c1ed242c3cb801eb1efd76', 'vm|3306|/var/lib/mysql/|1', '15000000', '0', '1795790916266327', '1795790916266327');
CREATE TABLE `dibs_outputs` (
  `ns` varbinary(64) NOT NULL,
  `run_id` varbinary(64) NOT NULL,
  `at` bigint(20) NOT NULL,
  `output` mediumblob NOT NULL,
  PRIMARY KEY (`ns`,`run_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_outputs (`ns`, `run_id`, `at`, `output`) VALUES ('shop', '01a21d7a-cacd-753c-9a2e-d3a8796c1c24', '1795790916317780', '42 reports
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
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21d7a-cacd-753c-9a2e-d3a8796c1c24', 'shop/report', '1795752000000000', '0a981fcb9ded27449303dee50f7fd225', '1795790916297688', 'web-1', '42', 'php report.php', 'succeeded', '', '0', '1795790916301853', '1795790916302853', '[{"n":1,"outcome":"","started":"2026-11-27T14:48:36.301853Z","ended":"2026-11-27T14:48:36.302853Z"}]', NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21d7a-cad3-777a-9774-50e25d127134', 'shop/report', '1795755600000000', '0a981fcb9ded27449303dee50f7fd225', '1795790916297688', 'web-1', '42', 'php report.php', 'failed', 'exit status 1', '0', '1795790916307831', '1795790916308831', '[{"n":1,"outcome":"","started":"2026-11-27T14:48:36.307831Z","ended":"2026-11-27T14:48:36.308831Z"}]', NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21d7a-cb4c-728c-89e8-35f8f3c06cb9', 'shop/report', '1795773600000000', '0a981fcb9ded27449303dee50f7fd225', '1795790916297688', 'web-1', '42', 'php report.php', '', NULL, '0', '1795790916428622', '0', NULL, NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a21d7a-cbaa-7332-bf39-4a03c219b8f0', 'shop/once', '0', '976ebf5f260249e9e762ae2406308726', '7', 'web-2', '0', '', 'succeeded', '', '0', '1795755600000000', '1795759200000000', NULL, '{"by":"ann","why":"a test"}');
CREATE TABLE `dibs_schema` (
  `version` int(11) NOT NULL,
  `oldest` int(11) NOT NULL,
  PRIMARY KEY (`version`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
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
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('1', 'shop', '4', '7022278005251356015', 'mail', 'good', '5', '0', '0', '0', '1795790916565712', '0', '1795790916565712', '0', '0', '1795790916588717', '1795790916619558', '5', '1', '0', '0', '0', '1', '0', '1795790916588717', '1', '0', '1795790916588717', NULL, '0', NULL, '0', '', '', '', '{"of":"good"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('2', 'shop', '4', '6505994587082923459', 'mail', 'bad', '6', '0', '0', '0', '1795790916744242', '0', '1795790916744242', '0', '0', '1795790916758741', '1795790916790542', '6', '1', '0', '0', '0', '1', '0', '1795790916758741', '1', '0', '1795790916758741', NULL, '0', NULL, '0', 'attempts', '', '', '{"of":"bad"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('3', 'shop', '4', '989028055896728617', 'mail', 'again', '4', '0', '0', '0', '8107310916859897', '8107310916859897', '1795790916811395', '0', '0', '1795790916831209', '0', '0', '1', '0', '0', '0', '1', '0', '1795790916831209', '1', '0', '1795790916831209', NULL, '0', NULL, '0', '', '', '', '{"of":"again"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('4', 'shop', '4', '4246373609545057653', 'mail', 'postponed', '4', '0', '0', '0', '8107310916877960', '8107310916877960', '1795790916867575', '0', '0', '1795790916871262', '0', '0', '0', '0', '0', '1', '1', '0', '1795790916871262', '1', '0', '1795790916871262', NULL, '0', NULL, '0', '', '', '', '{"of":"postponed"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('5', 'shop', '4', '6705030812160400849', 'mail', 'dropped', '7', '0', '0', '0', '1795790916889535', '0', '1795790916889535', '0', '0', '1795790916896223', '1795790916914366', '7', '0', '0', '0', '0', '1', '0', '1795790916896223', '1', '0', '1795790916896223', NULL, '0', NULL, '0', 'handler', '', '', '{"of":"dropped"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('6', 'shop', '4', '3547330915203525211', 'mail', 'window', '5', '0', '0', '0', '1795790916919499', '0', '1795790916919499', '0', '0', '1795790916941387', '1795790916977274', '5', '1', '0', '0', '0', '1', '0', '1795790916941387', '1', '0', '1795790916941387', 0x8F43614ED41DD77EC40F3F1971F2D7A8, '8107310916977274', NULL, '0', '', '', '{"unique":{"key":"w","window":6311520000000000000}}', '{"of":"window"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('7', 'shop', '2', '3894255745167609032', 'mail', 'canceled', '8', '0', '0', '0', '1795790916983645', '0', '1795790916983645', '0', '0', '0', '1795790916985736', '8', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', 'operator', '', '', '{"of":"canceled"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('8', 'shop', '2', '5753380159956280728', 'mail', 'discarded', '7', '0', '0', '0', '1795790916983645', '0', '1795790916983645', '0', '0', '0', '1795790916990650', '7', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', 'operator', '', '', '{"of":"discarded"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('9', 'shop', '2', '3531207283515617163', 'mail', 'front', '1', '0', '-100', '0', '1795790916983645', '0', '1795790916983645', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"front"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('10', 'shop', '7', '5937476707794856082', 'mail', 'poison', '9', '2', '0', '0', '1795790917002368', '0', '1795790917002368', '0', '0', '1795790917086986', '1795790917099553', '9', '0', '0', '1', '0', '1', '0', '1795790917086986', '3', '0', '0', NULL, '0', NULL, '0', '', '', '{"max_crashes":1}', '{"of":"poison"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('11', 'shop', '4', '4572714375828863502', 'mail', 'suspect', '1', '1', '0', '0', '1795790917002368', '0', '1795790917002368', '0', '0', '1795790917115792', '0', '0', '0', '0', '0', '0', '1', '0', '1795790917115792', '4', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"suspect"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('12', 'shop', '1', '6484592654145242847', 'mail', 'later', '0', '0', '0', '0', '8107310917129209', '8107310917129209', '1795790917132618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"later"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('13', 'shop', '1', '7577323810498599917', 'mail', 'expiring', '1', '0', '0', '0', '1795790917132618', '0', '1795790917132618', '8107310917129209', '8107310917129209', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"expiring"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('14', 'shop', '1', '9007424100946699636', 'mail', 'urgent', '1', '0', '-9', '9', '1795790917132618', '0', '1795790917132618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '{"tags":["vip"]}', '{"of":"urgent"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('15', 'shop', '1', '7628459992232769243', 'mail', 'unique', '1', '0', '0', '0', '1795790917132618', '0', '1795790917132618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', 0x433B34A177510E765C804ED7E69E0765, '0', NULL, '0', '', '', '{"unique":{"key":"welcome","shared":true}}', '{"of":"unique"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('16', 'shop', '1', '8536988840329540153', 'mail', 'plain', '1', '0', '0', '0', '1795790917132618', '0', '1795790917132618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('17', 'shop', '1', '8536988840329540153', 'mail', 'plain', '1', '0', '0', '0', '1795790917132618', '0', '1795790917132618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('18', 'shop', '1', '5493566598521500993', 'mail', 'rated', '1', '0', '0', '0', '1795790917132618', '0', '1795790917132618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"rated"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('19', 'shop', '1', '4385138385235690800', 'closed', 'plain', '1', '0', '0', '0', '1795790917137122', '0', '1795790917137122', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('20', 'shop', '3', '1466000630381567318', 'mail', 'limited', '3', '0', '0', '0', '1795790917143456', '0', '1795790917143456', '0', '0', '1795790917153474', '0', '0', '0', '0', '0', '0', '1', '0', '1795790917153474', '1', '1', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('21', 'shop', '1', '1466000630381567318', 'mail', 'limited', '2', '0', '0', '0', '1795790917143456', '0', '1795790917143456', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('22', 'shop', '1', '1466000630381567318', 'mail', 'limited', '2', '0', '0', '0', '1795790917143456', '0', '1795790917143456', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('23', 'shop', '1', '6392117787272255741', 'mail', 'unsaid', '1', '0', '0', '0', '1795790917177086', '0', '1795790917177086', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xA2DB2AB3E0A592A13D6417D2EBFD009A, '1', '', '', '{"limit":{"key":"scanner","max":2}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('24', 'shop', '3', '4174740612734023908', 'mail', 'running', '3', '0', '0', '0', '1795790917181839', '0', '1795790917181839', '0', '0', '1795790917188070', '0', '0', '0', '0', '0', '0', '1', '0', '1795790917188070', '1', '1', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"running"}');
CREATE TABLE `dibs_task_attempts` (
  `task` bigint(20) NOT NULL,
  `i` bigint(20) NOT NULL AUTO_INCREMENT,
  `attempt` mediumblob NOT NULL,
  PRIMARY KEY (`task`,`i`),
  KEY `i` (`i`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('2', '1', '{"n":1,"outcome":"failed","started":"2026-11-27T14:48:36.790402Z","ended":"2026-11-27T14:48:36.790402Z","host":"web-1","error":"no such address"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('3', '2', '{"n":1,"outcome":"failed","started":"2026-11-27T14:48:36.859447Z","ended":"2026-11-27T14:48:36.859447Z","host":"web-1","error":"timeout"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('4', '3', '{"n":1,"outcome":"snoozed","started":"2026-11-27T14:48:36.877866Z","ended":"2026-11-27T14:48:36.877866Z","host":"web-1"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('10', '4', '{"n":1,"outcome":"crashed","started":"2026-11-27T14:48:37.086986Z","ended":"2026-11-27T14:48:37.099553Z","host":"web-2"}');
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
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795790880000000', 'mail', 'canceled', 'canceled', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795790880000000', 'mail', 'discarded', 'discarded:operator', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795790880000000', 'mail', 'plain', 'enqueued', '0', '2');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795790880000000', 'mail', 'poison', 'crashed', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795790880000000', 'mail', 'poison', 'rescued', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795790880000000', 'mail', 'suspect', 'rescued', '0', '1');
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
INSERT INTO dibs_task_limits (`ns`, `hash`, `limit_key`, `slots`, `token`, `declared`, `said_by`, `said`) VALUES ('shop', 0xA2DB2AB3E0A592A13D6417D2EBFD009A, 'scanner', '2', '1795790917175430', '0', '', '0');
INSERT INTO dibs_task_limits (`ns`, `hash`, `limit_key`, `slots`, `token`, `declared`, `said_by`, `said`) VALUES ('shop', 0xADB4EFE9636187F0ACC3397D61D18C75, 'printer', '1', '1795790917153474', '1', 'ann', '1795790917165706');
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
INSERT INTO dibs_task_pauses (`ns`, `queue`, `kind`, `since`, `until`, `by_`, `why`) VALUES ('shop', 'closed', '', '1795790917137860', '0', 'ann', 'stocktaking');
CREATE TABLE `dibs_task_rates` (
  `ns` varbinary(64) NOT NULL,
  `kind` varbinary(128) NOT NULL,
  `ver` bigint(20) NOT NULL DEFAULT 1,
  `each_` bigint(20) NOT NULL,
  `burst` bigint(20) NOT NULL,
  `full` bigint(20) NOT NULL DEFAULT 0,
  `per` bigint(20) NOT NULL DEFAULT 0,
  `most` int(11) NOT NULL DEFAULT 0,
  `taken` varchar(1000) NOT NULL DEFAULT '',
  PRIMARY KEY (`ns`,`kind`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_rates (`ns`, `kind`, `ver`, `each_`, `burst`, `full`, `per`, `most`, `taken`) VALUES ('shop', 'rated', '1', '200000000', '1000000000', '0', '1000000000', '5', '');
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
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('1', 'shop', 'd9342a92b499caf5bf0359a492d61785', '1795790916540899', 'once2b9cb5fe6bd51d8b8b26cf2bc8079971', 'web-1', '7', '[["mail"],null]', '10', '1795790916554768', '0');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('2', 'shop', 'fa27134d77eb81aff98b703263719af1', '1795790917006588', 'once92dadc86f74fdbc29b07c8af7e8d25a7', 'web-2', '7', '[["mail"],null]', '10', '1795790917028019', '1795790917076866');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('3', 'shop', 'f82020c07120f507f46115e5dca89a4f', '1795790917078540', 'once05396c4bd7ef04c44e7141a7127d666f', 'web-2', '7', '[["mail"],null]', '10', '1795790917085308', '1795790917102766');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('4', 'shop', '8aa8117ce342e307a3b1fcbef7f94352', '1795790917106008', 'once223d2e96ec7b04f2c06ba7c09230991a', 'web-2', '7', '[["mail"],null]', '10', '1795790917111149', '1795790917123978');
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
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795752000000000', '0', '0', 'closed', 'shop/report', '0a981fcb9ded27449303dee50f7fd225', '1795790916297688', '{"id":"e4de808c63cf8385e3600e40511f2622","host":"web-1","pid":42}', '01a21d7a-cacd-753c-9a2e-d3a8796c1c24', 'succeeded', '', '0', '0', '1795790916298791', '1795790916301853', '1795790916302853');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795755600000000', '0', '0', 'closed', 'shop/report', '0a981fcb9ded27449303dee50f7fd225', '1795790916297688', '{"id":"e4de808c63cf8385e3600e40511f2622","host":"web-1","pid":42}', '01a21d7a-cad3-777a-9774-50e25d127134', 'failed', 'exit status 1', '0', '0', '1795790916304124', '1795790916307831', '1795790916308831');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795759200000000', '0', '0', 'closed', 'server/web-1', 'e4de808c63cf8385e3600e40511f2622', '1795790916294427', '{"id":"e4de808c63cf8385e3600e40511f2622","host":"web-1","pid":42}', '', 'skipped', 'overlap', '0', '0', '1795790916318908', '0', '1795790916318908');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795762800000000', '1795770000000000', '3', 'closed', '', '', '0', NULL, '', 'missed', 'nobody was there', '0', '0', '0', '0', '1795790916422357');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795773600000000', '0', '0', 'started', 'shop/report', '0a981fcb9ded27449303dee50f7fd225', '1795790916297688', '{"id":"e4de808c63cf8385e3600e40511f2622","host":"web-1","pid":42}', '01a21d7a-cb4c-728c-89e8-35f8f3c06cb9', '', '', '0', '0', '1795790916424353', '1795790916428622', '0');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795777200000000', '0', '0', 'claimed', 'server/web-1', 'e4de808c63cf8385e3600e40511f2622', '1795790916294427', '{"id":"e4de808c63cf8385e3600e40511f2622","host":"web-1","pid":42}', '', '', '', '0', '0', '1795790916441829', '0', '0');
