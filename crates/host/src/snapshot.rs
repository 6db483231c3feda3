//! A host's settings as one text, in the form that `opplab machine import` and `opplab host show --root` read:
//! `path: value|` a line, where `|` ends each line of the value.

use crate::root::{CPU, Root};

/// Folders below a CPU's or a policy's that are taken.
const DEPTH_MAX: u32 = 5;

fn walk(root: &Root, path: &str, depth: u32, wanted: &dyn Fn(&str) -> bool, shown: &str, out: &mut String) {
    if depth > DEPTH_MAX {
        return;
    }
    for name in root.children(path) {
        let child = format!("{path}/{name}");
        // Links (cpuN/cpufreq, subsystem, driver, firmware_node) lead to what is visited anyway, or in circles.
        let meta = root.file(&child).and_then(|file| file.symlink_metadata().ok());
        let Some(meta) = meta else { continue };
        if meta.is_dir() {
            walk(root, &child, depth + 1, wanted, shown, out);
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
    walk(root, CPU, 0, &wanted, "", &mut out);
    out
}

/// debugfs: the energy model and the scheduler's domains and features; and the scheduler's sysctls.
pub fn debugfs(root: &Root) -> String {
    const DEBUG: &str = "/sys/kernel/debug";
    let wanted = |path: &str| !path.ends_with("sched/debug");
    let mut out = String::new();
    walk(root, &format!("{DEBUG}/energy_model"), 0, &wanted, "/sys/kernel/debug/", &mut out);
    walk(root, &format!("{DEBUG}/sched"), 0, &wanted, "/sys/kernel/debug/", &mut out);
    let sysctl = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("sched_"));
    walk(root, "/proc/sys/kernel", DEPTH_MAX, &sysctl, "", &mut out);
    out
}
