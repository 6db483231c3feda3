//! The scheduler's own signals of each CPU, from debugfs `sched/debug` (`/proc/sched_debug` before v5.13).

use crate::root::Root;

/// Where the file is, newest first.
const FILES: [&str; 2] = ["/sys/kernel/debug/sched/debug", "/proc/sched_debug"];

/// The root fair queue of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CfsSignals {
    /// `util_avg`.
    pub util_avg: u64,
    /// `util_est` (`util_est_enqueued` before v6.8).
    pub util_est: u64,
    /// `runnable_avg`; 0 where the kernel has none.
    pub runnable_avg: u64,
    /// Tasks that are queued; 0: the CPU's fair class is idle.
    pub nr_running: u64,
}

/// The file, if it can be read.
pub fn find(root: &Root) -> Option<&'static str> {
    FILES.into_iter().find(|path| root.raw(path).is_ok_and(|text| text.contains("cfs_rq[")))
}

/// Reads the root queues; queues of groups are passed over.
pub fn parse(text: &str) -> Vec<(u32, CfsSignals)> {
    let mut found: Vec<(u32, CfsSignals)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if !line.starts_with([' ', '\t']) {
            inside = false;
            let root = line.strip_prefix("cfs_rq[").and_then(|rest| rest.trim_end().split_once("]:"));
            if let Some((cpu, path)) = root
                && matches!(path, "/" | "")
                && let Ok(cpu) = cpu.parse()
            {
                found.push((cpu, CfsSignals::default()));
                inside = true;
            }
            continue;
        }
        let (true, Some((_, signals))) = (inside, found.last_mut()) else { continue };
        let Some((name, value)) = line.split_once(':') else { continue };
        let Ok(value) = value.trim().parse() else { continue };
        match name.trim() {
            ".util_avg" => signals.util_avg = value,
            ".util_est" | ".util_est_enqueued" => signals.util_est = value,
            ".runnable_avg" => signals.runnable_avg = value,
            ".nr_running" | ".h_nr_running" | ".h_nr_queued" => signals.nr_running = signals.nr_running.max(value),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_queues_only() {
        let text = "cpu#0, 999 MHz\n  .nr_running : 3\n\ncfs_rq[0]:/autogroup-2\n  .util_avg : 9\n\ncfs_rq[0]:/\n  \
                    .h_nr_queued : 1\n  .runnable_avg                  : 415\n  .util_avg                      : 413\n  \
                    .util_est                      : 20\n  .removed.util_avg : 7\n\nrt_rq[0]:\n  .util_avg : 5\ncfs_rq[12]:/\n";
        let signals = CfsSignals { util_avg: 413, util_est: 20, runnable_avg: 415, nr_running: 1 };
        assert_eq!(parse(text), [(0, signals), (12, CfsSignals::default())]);
    }
}
