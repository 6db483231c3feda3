//! A host's settings as one text, in the form that `opplab machine import` and `opplab host show --root` read:
//! `path: value|` a line, where `|` ends each line of the value.

use crate::root::{CPU, Root};

/// Folders below a CPU's or a policy's that are taken, and below the root of control groups.
const LEVELS: u32 = 5;
const GROUP_LEVELS: u32 = 32;

fn walk(root: &Root, path: &str, levels: u32, wanted: &dyn Fn(&str) -> bool, shown: &str, out: &mut String) {
    for name in root.children(path) {
        let child = format!("{path}/{name}");
        // Links (cpuN/cpufreq, subsystem, driver, firmware_node) lead to what is visited anyway, or in circles.
        let meta = root.file(&child).and_then(|file| file.symlink_metadata().ok());
        let Some(meta) = meta else { continue };
        if meta.is_dir() {
            if let Some(levels) = levels.checked_sub(1) {
                walk(root, &child, levels, wanted, shown, out);
            }
        } else if meta.is_file() && wanted(&child) {
            let Ok(text) = root.raw(&child) else { continue };
            let value: String = text.trim_end_matches('\n').lines().map(|line| format!("{line}|")).collect();
            let value = if value.is_empty() { "|".to_owned() } else { value };
            let from = child.strip_prefix(shown).unwrap_or(&child);
            out.push_str(&format!("{from}: {value}\n"));
        }
    }
}

/// `/sys` of CPUs: cpufreq, cpuidle, CPPC, topology, capacity.
pub fn sysfs(root: &Root) -> String {
    const NOT: &[&str] =
        &["/stats/", "/cache/", "/microcode/", "/crash_notes", "/hotplug/", "/thermal_throttle/", "/trans_table"];
    let wanted = |path: &str| !NOT.iter().any(|part| path.contains(part)) || path.ends_with("shared_cpu_list");
    let mut out = String::new();
    walk(root, CPU, LEVELS, &wanted, "", &mut out);
    out
}

/// The cpu and cpuset controllers' files of all control groups, at the usual places of v2 and v1.
pub fn cgroups(root: &Root) -> String {
    let wanted = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or("");
        // Pressure files have trigger handles; all else is numbers.
        (name.starts_with("cpu.") && name != "cpu.pressure")
            || name.starts_with("cpuset.cpus")
            || matches!(name, "cpuset.effective_cpus" | "cpuset.sched_load_balance")
    };
    let mut out = String::new();
    for place in ["/sys/fs/cgroup", "/dev/cpuctl", "/dev/cpuset"] {
        walk(root, place, GROUP_LEVELS, &wanted, "", &mut out);
    }
    out
}

/// Each thread's number, that of its process, its name and its groups.
pub fn members(root: &Root) -> String {
    let mut out = String::new();
    for pid in root.numbered("/proc", "") {
        for tid in root.numbered(&format!("/proc/{pid}/task"), "") {
            let at = format!("/proc/{pid}/task/{tid}");
            // Threads come and go.
            let Ok(groups) = root.raw(&format!("{at}/cgroup")) else { continue };
            let name = root.text(&format!("{at}/comm")).unwrap_or_default();
            out.push_str(&format!("{tid} {pid} {name}: {}\n", groups.replace('\n', "|")));
        }
    }
    out
}

/// debugfs: the energy model and the scheduler's domains and features; and the scheduler's sysctls.
pub fn debugfs(root: &Root) -> String {
    const DEBUG: &str = "/sys/kernel/debug";
    let wanted = |path: &str| !path.ends_with("sched/debug");
    let mut out = String::new();
    walk(root, &format!("{DEBUG}/energy_model"), LEVELS, &wanted, "/sys/kernel/debug/", &mut out);
    walk(root, &format!("{DEBUG}/sched"), LEVELS, &wanted, "/sys/kernel/debug/", &mut out);
    let sysctl = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("sched_"));
    walk(root, "/proc/sys/kernel", 0, &sysctl, "", &mut out);
    out
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn groups_and_their_members_are_saved() {
        let folder = std::env::temp_dir().join(format!("opplab-snapshot-{}", std::process::id()));
        let deep = format!("sys/fs/cgroup{}", "/a".repeat(12));
        for (path, text) in [
            ("sys/fs/cgroup/web/cpu.max", "20000 100000\n"),
            ("sys/fs/cgroup/web/cpu.stat", "usage_usec 1\nnr_throttled 2\n"),
            ("sys/fs/cgroup/web/cpu.pressure", "some avg10=0.00\n"),
            ("sys/fs/cgroup/web/memory.max", "max\n"),
            (&format!("{deep}/cpu.weight"), "100\n"),
            ("proc/12/task/13/cgroup", "0::/web\n"),
            ("proc/12/task/13/comm", "a b\n"),
            ("proc/self/task/14/cgroup", "0::/\n"),
        ] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("writable");
            fs::write(path, text).expect("writable");
        }
        let root = Root::open(&folder).expect("a folder");
        let lines = cgroups(&root);
        let weight = format!("/{deep}/cpu.weight: 100|\n");
        let expected =
            "/sys/fs/cgroup/web/cpu.max: 20000 100000|\n/sys/fs/cgroup/web/cpu.stat: usage_usec 1|nr_throttled 2|\n";
        assert_eq!(lines, format!("{weight}{expected}"));
        assert_eq!(members(&root), "13 12 a b: 0::/web|\n");
        fs::remove_dir_all(&folder).expect("ours");
    }
}
