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
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795872713521054', '01a2225a-eb30-7de0-bc95-7423ff76aeec', 'clock-step', '', '', '0', '', 'web-1', 'by 3 s');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795872713521054', '01a2225a-eb30-7e00-89c2-5b9b55eb4cc7', 'lease-broken', 'broken', 'shop/report', '1795834800000000', '01a2225a-eb15-7a23-9b53-5a1775c34f05', 'web-1', 'by ann');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795872713585773', '01a2225a-eb71-7682-8fb4-1f7fb4b7ad02', 'task-cancel', '', '', '0', '', '', '1 task: 7 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795872713587112', '01a2225a-eb72-7b97-bba7-4f5a7112552f', 'task-discard', '', '', '0', '', '', '1 task: 8 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795872713590380', '01a2225a-eb75-7ef3-bfd2-9f2b8c6820db', 'task-promote', '', '', '0', '', '', '1 task: 9 by ann: a test');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795872713644924', '01a2225a-ebac-7824-8882-f2dae9817665', 'queue-paused', '', '', '0', '', '', 'queue closed by ann: stocktaking');
INSERT INTO dibs_events (`ns`, `at`, `id`, `kind`, `lease_key`, `job`, `tick`, `run_id`, `host`, `reason`) VALUES ('shop', '1795872713670929', '01a2225a-ebc6-7c75-9830-a95b47e6df8a', 'limit-changed', '', '', '0', '', '', '"printer" from 1 to 1 by ann');
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
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/gone', '{}', '1', '1795834800000000', '1795834799999999', '1795872713485589', '0', '0', NULL, NULL, '0', NULL);
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/paused', '{}', '1', '1795834800000000', '1795834799999999', '0', '1795872713486241', '0', 'ann', 'stocktaking', '0', NULL);
INSERT INTO dibs_jobs (`ns`, `name`, `definition`, `generation`, `since`, `mark`, `removed`, `paused_since`, `paused_until`, `paused_by`, `paused_why`, `paused_resumed`, `past`) VALUES ('shop', 'shop/report', '{"schedules":["@hourly"]}', '2', '1795831200000000', '1795852800000000', '0', '0', '0', NULL, NULL, '0', NULL);
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
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'broken', 'eb66971414fcf5c957672a7ce0197e0a', '1795872713479129', '{"id":"eb66971414fcf5c957672a7ce0197e0a","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713479129', '1795872713479129', '1795872718479129', '0', NULL, '{"by":"ann","why":"it hangs","at":"0001-01-01T00:00:00Z"}', '1795872713480323');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'deploy', '5ab6c91d07a4aa1990462df040f571ef', '1795872713476786', '{"id":"5ab6c91d07a4aa1990462df040f571ef","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713476786', '1795872713476786', '1795872718476786', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once238538c871ecb270a8581cbeac5e4eec', 'bc7354028cca6188c8d39b6e81166890', '1795872713594766', '{"id":"bc7354028cca6188c8d39b6e81166890","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713594766', '1795872713594766', '1795872718594766', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once34649e67203bd691f3bad59b28eb4849', '60933b8869072460cdbaf2f9a034a306', '1795872713606651', '{"id":"60933b8869072460cdbaf2f9a034a306","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713606651', '1795872713606651', '1795872718606651', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once58c7f09d2436667a3b42a4c8e1aa55f6', '4fdc23102306a12e85a823abed1ed203', '1795872713621444', '{"id":"4fdc23102306a12e85a823abed1ed203","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713621444', '1795872713621444', '1795872718621444', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'once891dec124dbd82656e2a9830ca475e18', '0c11b8aab21e7e32f45a0db68d202c0c', '1795872713522561', '{"id":"0c11b8aab21e7e32f45a0db68d202c0c","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713522561', '1795872713522561', '1795872718522561', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'released', 'ea849bc5d264f0c4ab70dce5aa0c47c9', '1795872713467220', '{"id":"ea849bc5d264f0c4ab70dce5aa0c47c9","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713467220', '1795872713467220', '0', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'server/web-1', 'eb1af68e0c47f8be2b7d8e46a6b6b7e3', '1795872713488666', '{"id":"eb1af68e0c47f8be2b7d8e46a6b6b7e3","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713488666', '1795872713488666', '1795872718488666', '0', NULL, NULL, '0');
INSERT INTO dibs_leases (`ns`, `lease_key`, `owner`, `token`, `holder`, `replaceable`, `ttl`, `acquired`, `renewed`, `expires`, `busy_until`, `wanted`, `broken`, `broken_at`) VALUES ('shop', 'shop/report', 'e118942f5b97cb6ee94cec6875eddff7', '1795872713491164', '{"id":"e118942f5b97cb6ee94cec6875eddff7","host":"web-1","pid":42,"command":"php report.php"}', '0', '5000000', '1795872713491164', '1795872713491164', '1795872718491164', '0', NULL, NULL, '0');
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
INSERT INTO dibs_meta (`ns`, `installation`, `identity`, `max_ttl`, `hold_until`, `created`, `epoch`) VALUES ('shop', '240b45abd603d5ef8f06ee8c5386eb9b', 'vm|34915|/dev/shm/dibs-mariadb-72949548/data/|1', '15000000', '0', '1795872713463515', '1795872713463515');
CREATE TABLE `dibs_outputs` (
  `ns` varbinary(64) NOT NULL,
  `run_id` varbinary(64) NOT NULL,
  `at` bigint(20) NOT NULL,
  `output` mediumblob NOT NULL,
  PRIMARY KEY (`ns`,`run_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_outputs (`ns`, `run_id`, `at`, `output`) VALUES ('shop', '01a2225a-eb15-7a23-9b53-5a1775c34f05', '1795872713509226', '42 reports
');
CREATE TABLE `dibs_processes` (
  `ns` varbinary(64) NOT NULL,
  `id` varbinary(32) NOT NULL,
  `seen` bigint(20) NOT NULL,
  `record` varbinary(8192) NOT NULL,
  PRIMARY KEY (`ns`,`id`),
  KEY `recent` (`ns`,`seen`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
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
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a2225a-eb15-7a23-9b53-5a1775c34f05', 'shop/report', '1795834800000000', 'e118942f5b97cb6ee94cec6875eddff7', '1795872713491164', 'web-1', '42', 'php report.php', 'succeeded', '', '0', '1795872713494746', '1795872713495746', '[{"n":1,"outcome":"","started":"2026-11-28T13:31:53.494746Z","ended":"2026-11-28T13:31:53.495746Z"}]', NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a2225a-eb1c-73c7-a42b-916efa0d37dd', 'shop/report', '1795838400000000', 'e118942f5b97cb6ee94cec6875eddff7', '1795872713491164', 'web-1', '42', 'php report.php', 'failed', 'exit status 1', '0', '1795872713500964', '1795872713501964', '[{"n":1,"outcome":"","started":"2026-11-28T13:31:53.500964Z","ended":"2026-11-28T13:31:53.501964Z"}]', NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a2225a-eb2c-770d-a1d6-77ef5d68b32a', 'shop/report', '1795856400000000', 'e118942f5b97cb6ee94cec6875eddff7', '1795872713491164', 'web-1', '42', 'php report.php', '', NULL, '0', '1795872713517205', '0', NULL, NULL);
INSERT INTO dibs_runs (`ns`, `run_id`, `job`, `tick`, `owner`, `token`, `host`, `pid`, `command`, `outcome`, `reason`, `inferred`, `started`, `ended`, `attempts`, `cause`) VALUES ('shop', '01a2225a-eb30-74b3-be62-904a51279182', 'shop/once', '0', 'e8a00b2a457a6d60a137f580feba26f9', '7', 'web-2', '0', '', 'succeeded', '', '0', '1795838400000000', '1795842000000000', NULL, '{"by":"ann","why":"a test"}');
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
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('1', 'shop', '4', '7022278005251356015', 'mail', 'good', '5', '0', '0', '0', '1795872713525609', '0', '1795872713525609', '0', '0', '1795872713528413', '1795872713533722', '5', '1', '0', '0', '0', '1', '0', '1795872713528413', '1', '0', '1795872713528413', NULL, '0', NULL, '0', '', '', '', '{"of":"good"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('2', 'shop', '4', '6505994587082923459', 'mail', 'bad', '6', '0', '0', '0', '1795872713536398', '0', '1795872713536398', '0', '0', '1795872713539570', '1795872713544406', '6', '1', '0', '0', '0', '1', '0', '1795872713539570', '1', '0', '1795872713539570', NULL, '0', NULL, '0', 'attempts', '', '', '{"of":"bad"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('3', 'shop', '4', '989028055896728617', 'mail', 'again', '4', '0', '0', '0', '8107392713555425', '8107392713555425', '1795872713547799', '0', '0', '1795872713550879', '0', '0', '1', '0', '0', '0', '1', '0', '1795872713550879', '1', '0', '1795872713550879', NULL, '0', NULL, '0', '', '', '', '{"of":"again"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('4', 'shop', '4', '4246373609545057653', 'mail', 'postponed', '4', '0', '0', '0', '8107392713565410', '8107392713565410', '1795872713558722', '0', '0', '1795872713561141', '0', '0', '0', '0', '0', '1', '1', '0', '1795872713561141', '1', '0', '1795872713561141', NULL, '0', NULL, '0', '', '', '', '{"of":"postponed"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('5', 'shop', '4', '6705030812160400849', 'mail', 'dropped', '7', '0', '0', '0', '1795872713567872', '0', '1795872713567872', '0', '0', '1795872713570085', '1795872713573786', '7', '0', '0', '0', '0', '1', '0', '1795872713570085', '1', '0', '1795872713570085', NULL, '0', NULL, '0', 'handler', '', '', '{"of":"dropped"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('6', 'shop', '4', '3547330915203525211', 'mail', 'window', '5', '0', '0', '0', '1795872713575853', '0', '1795872713575853', '0', '0', '1795872713579074', '1795872713582524', '5', '1', '0', '0', '0', '1', '0', '1795872713579074', '1', '0', '1795872713579074', 0x8F43614ED41DD77EC40F3F1971F2D7A8, '8107392713582524', NULL, '0', '', '', '{"unique":{"key":"w","window":6311520000000000000}}', '{"of":"window"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('7', 'shop', '2', '3894255745167609032', 'mail', 'canceled', '8', '0', '0', '0', '1795872713584510', '0', '1795872713584510', '0', '0', '0', '1795872713585089', '8', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', 'operator', '', '', '{"of":"canceled"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('8', 'shop', '2', '5753380159956280728', 'mail', 'discarded', '7', '0', '0', '0', '1795872713584510', '0', '1795872713584510', '0', '0', '0', '1795872713586513', '7', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', 'operator', '', '', '{"of":"discarded"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('9', 'shop', '2', '3531207283515617163', 'mail', 'front', '1', '0', '-100', '0', '1795872713584510', '0', '1795872713584510', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"front"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('10', 'shop', '7', '5937476707794856082', 'mail', 'poison', '9', '2', '0', '0', '1795872713592816', '0', '1795872713592816', '0', '0', '1795872713610578', '1795872713617539', '9', '0', '0', '1', '0', '1', '0', '1795872713610578', '3', '0', '0', NULL, '0', NULL, '0', '', '', '{"max_crashes":1}', '{"of":"poison"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('11', 'shop', '4', '4572714375828863502', 'mail', 'suspect', '1', '1', '0', '0', '1795872713592816', '0', '1795872713592816', '0', '0', '1795872713628228', '0', '0', '0', '0', '0', '0', '1', '0', '1795872713628228', '4', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"suspect"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('12', 'shop', '1', '6484592654145242847', 'mail', 'later', '0', '0', '0', '0', '8107392713636905', '8107392713636905', '1795872713638618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"later"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('13', 'shop', '1', '7577323810498599917', 'mail', 'expiring', '1', '0', '0', '0', '1795872713638618', '0', '1795872713638618', '8107392713636905', '8107392713636905', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"expiring"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('14', 'shop', '1', '9007424100946699636', 'mail', 'urgent', '1', '0', '-9', '9', '1795872713638618', '0', '1795872713638618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '{"tags":["vip"]}', '{"of":"urgent"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('15', 'shop', '1', '7628459992232769243', 'mail', 'unique', '1', '0', '0', '0', '1795872713638618', '0', '1795872713638618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', 0x433B34A177510E765C804ED7E69E0765, '0', NULL, '0', '', '', '{"unique":{"key":"welcome","shared":true}}', '{"of":"unique"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('16', 'shop', '1', '8536988840329540153', 'mail', 'plain', '1', '0', '0', '0', '1795872713638618', '0', '1795872713638618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('17', 'shop', '1', '8536988840329540153', 'mail', 'plain', '1', '0', '0', '0', '1795872713638618', '0', '1795872713638618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('18', 'shop', '1', '5493566598521500993', 'mail', 'rated', '1', '0', '0', '0', '1795872713638618', '0', '1795872713638618', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"rated"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('19', 'shop', '1', '4385138385235690800', 'closed', 'plain', '1', '0', '0', '0', '1795872713643991', '0', '1795872713643991', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"plain"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('20', 'shop', '3', '1466000630381567318', 'mail', 'limited', '3', '0', '0', '0', '1795872713651672', '0', '1795872713651672', '0', '0', '1795872713663096', '0', '0', '0', '0', '0', '0', '1', '0', '1795872713663096', '1', '1', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('21', 'shop', '1', '1466000630381567318', 'mail', 'limited', '2', '0', '0', '0', '1795872713651672', '0', '1795872713651672', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('22', 'shop', '1', '1466000630381567318', 'mail', 'limited', '2', '0', '0', '0', '1795872713651672', '0', '1795872713651672', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xADB4EFE9636187F0ACC3397D61D18C75, '1', '', '', '{"limit":{"key":"printer","shared":true}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('23', 'shop', '1', '6392117787272255741', 'mail', 'unsaid', '1', '0', '0', '0', '1795872713675160', '0', '1795872713675160', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', NULL, '0', 0xA2DB2AB3E0A592A13D6417D2EBFD009A, '1', '', '', '{"limit":{"key":"scanner","max":2}}', '{"of":"limited"}');
INSERT INTO dibs_tasks (`id`, `ns`, `ver`, `subqueue`, `queue`, `kind`, `state`, `class`, `ordinal`, `priority`, `run_at`, `due_at`, `enqueued`, `expires`, `lapses`, `started`, `ended`, `done`, `attempts`, `granted`, `crashes`, `snoozes`, `begun`, `displaced`, `token`, `worker`, `holder`, `completed`, `ukey`, `win`, `limited`, `line`, `reason`, `stop`, `options`, `args`) VALUES ('24', 'shop', '3', '4174740612734023908', 'mail', 'running', '3', '0', '0', '0', '1795872713677444', '0', '1795872713677444', '0', '0', '1795872713681272', '0', '0', '0', '0', '0', '0', '1', '0', '1795872713681272', '1', '1', '0', NULL, '0', NULL, '0', '', '', '', '{"of":"running"}');
CREATE TABLE `dibs_task_attempts` (
  `task` bigint(20) NOT NULL,
  `i` bigint(20) NOT NULL AUTO_INCREMENT,
  `attempt` mediumblob NOT NULL,
  PRIMARY KEY (`task`,`i`),
  KEY `i` (`i`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('2', '1', '{"n":1,"outcome":"failed","started":"2026-11-28T13:31:53.544102Z","ended":"2026-11-28T13:31:53.544102Z","host":"web-1","error":"no such address"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('3', '2', '{"n":1,"outcome":"failed","started":"2026-11-28T13:31:53.555197Z","ended":"2026-11-28T13:31:53.555197Z","host":"web-1","error":"timeout"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('4', '3', '{"n":1,"outcome":"snoozed","started":"2026-11-28T13:31:53.565183Z","ended":"2026-11-28T13:31:53.565183Z","host":"web-1"}');
INSERT INTO dibs_task_attempts (`task`, `i`, `attempt`) VALUES ('10', '4', '{"n":1,"outcome":"crashed","started":"2026-11-28T13:31:53.610578Z","ended":"2026-11-28T13:31:53.617539Z","host":"web-2"}');
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
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795872660000000', 'mail', 'canceled', 'canceled', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795872660000000', 'mail', 'discarded', 'discarded:operator', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795872660000000', 'mail', 'plain', 'enqueued', '0', '2');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795872660000000', 'mail', 'poison', 'crashed', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795872660000000', 'mail', 'poison', 'rescued', '0', '1');
INSERT INTO dibs_task_counts (`ns`, `minute`, `queue`, `kind`, `name`, `salt`, `n`) VALUES ('shop', '1795872660000000', 'mail', 'suspect', 'rescued', '0', '1');
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
INSERT INTO dibs_task_limits (`ns`, `hash`, `limit_key`, `slots`, `token`, `declared`, `said_by`, `said`) VALUES ('shop', 0xA2DB2AB3E0A592A13D6417D2EBFD009A, 'scanner', '2', '1795872713674014', '0', '', '0');
INSERT INTO dibs_task_limits (`ns`, `hash`, `limit_key`, `slots`, `token`, `declared`, `said_by`, `said`) VALUES ('shop', 0xADB4EFE9636187F0ACC3397D61D18C75, 'printer', '1', '1795872713663096', '1', 'ann', '1795872713669900');
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
INSERT INTO dibs_task_pauses (`ns`, `queue`, `kind`, `since`, `until`, `by_`, `why`) VALUES ('shop', 'closed', '', '1795872713644924', '0', 'ann', 'stocktaking');
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
INSERT INTO dibs_task_rates (`ns`, `kind`, `ver`, `each_`, `burst`, `full`, `per`, `most`, `taken`) VALUES ('shop', 'rated', '1', '200000000', '1000000000', '0', '1062500000', '5', '');
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
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('1', 'shop', '0c11b8aab21e7e32f45a0db68d202c0c', '1795872713522561', 'once891dec124dbd82656e2a9830ca475e18', 'web-1', '7', '[["mail"],null]', '10', '1795872713524319', '0');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('2', 'shop', 'bc7354028cca6188c8d39b6e81166890', '1795872713594766', 'once238538c871ecb270a8581cbeac5e4eec', 'web-2', '7', '[["mail"],null]', '10', '1795872713596900', '1795872713605361');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('3', 'shop', '60933b8869072460cdbaf2f9a034a306', '1795872713606651', 'once34649e67203bd691f3bad59b28eb4849', 'web-2', '7', '[["mail"],null]', '10', '1795872713609544', '1795872713619425');
INSERT INTO dibs_task_workers (`id`, `ns`, `owner`, `token`, `lease_key`, `host`, `pid`, `does`, `slots`, `since`, `ended`) VALUES ('4', 'shop', '4fdc23102306a12e85a823abed1ed203', '1795872713621444', 'once58c7f09d2436667a3b42a4c8e1aa55f6', 'web-2', '7', '[["mail"],null]', '10', '1795872713623504', '1795872713635264');
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
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795834800000000', '0', '0', 'closed', 'shop/report', 'e118942f5b97cb6ee94cec6875eddff7', '1795872713491164', '{"id":"eb1af68e0c47f8be2b7d8e46a6b6b7e3","host":"web-1","pid":42}', '01a2225a-eb15-7a23-9b53-5a1775c34f05', 'succeeded', '', '0', '0', '1795872713492695', '1795872713494746', '1795872713495746');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795838400000000', '0', '0', 'closed', 'shop/report', 'e118942f5b97cb6ee94cec6875eddff7', '1795872713491164', '{"id":"eb1af68e0c47f8be2b7d8e46a6b6b7e3","host":"web-1","pid":42}', '01a2225a-eb1c-73c7-a42b-916efa0d37dd', 'failed', 'exit status 1', '0', '0', '1795872713498759', '1795872713500964', '1795872713501964');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795842000000000', '0', '0', 'closed', 'server/web-1', 'eb1af68e0c47f8be2b7d8e46a6b6b7e3', '1795872713488666', '{"id":"eb1af68e0c47f8be2b7d8e46a6b6b7e3","host":"web-1","pid":42}', '', 'skipped', 'overlap', '0', '0', '1795872713509906', '0', '1795872713509906');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795845600000000', '1795852800000000', '3', 'closed', '', '', '0', NULL, '', 'missed', 'nobody was there', '0', '0', '0', '0', '1795872713511541');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795856400000000', '0', '0', 'started', 'shop/report', 'e118942f5b97cb6ee94cec6875eddff7', '1795872713491164', '{"id":"eb1af68e0c47f8be2b7d8e46a6b6b7e3","host":"web-1","pid":42}', '01a2225a-eb2c-770d-a1d6-77ef5d68b32a', '', '', '0', '0', '1795872713515195', '1795872713517205', '0');
INSERT INTO dibs_ticks (`ns`, `job`, `at`, `through`, `many`, `state`, `lease_key`, `lease_owner`, `lease_token`, `claimant`, `run_id`, `outcome`, `reason`, `inferred`, `reruns`, `claimed`, `started`, `ended`) VALUES ('shop', 'shop/report', '1795860000000000', '0', '0', 'claimed', 'server/web-1', 'eb1af68e0c47f8be2b7d8e46a6b6b7e3', '1795872713488666', '{"id":"eb1af68e0c47f8be2b7d8e46a6b6b7e3","host":"web-1","pid":42}', '', '', '', '0', '0', '1795872713519435', '0', '0');
