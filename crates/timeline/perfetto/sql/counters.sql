-- The frequency that the governor of a policy asked for.
CREATE PERFETTO VIEW opplab_requested_khz AS
SELECT counter.ts, CAST(substr(counter_track.name, 36) AS INT) AS cpu, counter.value AS khz
FROM counter
JOIN counter_track ON counter_track.id = counter.track_id
WHERE counter_track.name GLOB 'requested frequency, policy of cpu *';

-- The frequency that the hardware granted.
CREATE PERFETTO VIEW opplab_granted_khz AS
SELECT counter.ts, CAST(substr(counter_track.name, 34) AS INT) AS cpu, counter.value AS khz
FROM counter
JOIN counter_track ON counter_track.id = counter.track_id
WHERE counter_track.name GLOB 'granted frequency, policy of cpu *';

-- util_avg of each CPU's run queue.
CREATE PERFETTO VIEW opplab_cpu_util AS
SELECT counter.ts, CAST(substr(counter_track.name, 14) AS INT) AS cpu, counter.value AS util_avg
FROM counter
JOIN counter_track ON counter_track.id = counter.track_id
WHERE counter_track.name GLOB 'util_avg cpu [0-9]*';

-- util_avg and util_est of tasks; `task` is name and pid.
CREATE PERFETTO VIEW opplab_task_util AS
SELECT
  counter.ts,
  substr(counter_track.name, 10) AS task,
  substr(counter_track.name, 1, 8) AS signal,
  counter.value AS util
FROM counter
JOIN counter_track ON counter_track.id = counter.track_id
WHERE counter_track.name GLOB 'util_[ae][vs][gt] *' AND NOT counter_track.name GLOB 'util_avg cpu [0-9]*';
