-- Every decision of an opplab run: which CPU, what, and why.
CREATE PERFETTO VIEW opplab_decision AS
SELECT
  slice.id,
  slice.ts,
  CAST(substr(track.name, 15) AS INT) AS cpu,
  slice.name,
  EXTRACT_ARG(slice.arg_set_id, 'debug.why') AS why,
  slice.arg_set_id
FROM slice
JOIN track ON track.id = slice.track_id
WHERE track.name GLOB 'decisions cpu [0-9]*';

-- Requests of a frequency with the utilisation of the CPU that reported.
CREATE PERFETTO VIEW opplab_frequency_request AS
SELECT
  ts,
  cpu,
  EXTRACT_ARG(arg_set_id, 'debug.khz') AS khz,
  EXTRACT_ARG(arg_set_id, 'debug.util') AS util,
  EXTRACT_ARG(arg_set_id, 'debug.max') AS max,
  why
FROM opplab_decision
WHERE name GLOB 'asks for *';

-- Activations that ended after their period, with how late they were.
CREATE PERFETTO VIEW opplab_missed_activation AS
SELECT
  ts,
  cpu,
  substr(name, 1, length(name) - 22) AS task,
  EXTRACT_ARG(arg_set_id, 'debug.run_ns') AS run_ns,
  -EXTRACT_ARG(arg_set_id, 'debug.slack_ns') AS late_ns
FROM opplab_decision
WHERE name GLOB '* misses its activation';
