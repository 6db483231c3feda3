-- Power of each cluster, constant from `ts` for `dur`.
CREATE PERFETTO VIEW opplab_power AS
SELECT
  counter.ts,
  lead(counter.ts) OVER (PARTITION BY counter.track_id ORDER BY counter.ts) - counter.ts AS dur,
  substr(counter_track.name, 7) AS cluster,
  counter.value AS uw
FROM counter
JOIN counter_track ON counter_track.id = counter.track_id
WHERE counter_track.name GLOB 'power *, cluster [0-9]*';

-- Energy of each cluster over the run, mJ.
CREATE PERFETTO VIEW opplab_energy AS
SELECT cluster, sum(uw * dur) / 1e12 AS mj
FROM opplab_power
WHERE dur IS NOT NULL
GROUP BY cluster;
