//! A headroom other than a quarter: what schedutil adds to a utilisation before it asks for a frequency.

use super::proposal::{ProposalEntry, ProposalParam, Within};
use crate::cpufreq::perf_margin::PerfMargin;

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "headroom",
    what: "schedutil and the energy model add another share than a quarter to a utilisation.",
    thread: "Q. Yousef, sched/fair/schedutil: Remove hardcoded margins, 2023-12, \
             https://lore.kernel.org/lkml/20231208002342.367117-1-qyousef@layalina.io/",
    differs: "The thread makes the share of how often the clock may change; here it is a number, in 1024ths rounded up (110 \
              is 1127/1024). Before v6.8 the energy model keeps its quarter.",
    params: &[ProposalParam {
        name: "percent",
        what: "the frequency asked for in percent of what is used; the kernel has 125",
        min: 100,
        max: 200,
        default: 100,
    }],
    excludes: &["response-time"],
    needs: None,
    within: Some(Within::Governor("schedutil")),
    apply: |proposals, values| proposals.margin = PerfMargin::of_1024((values.get("percent") * 1024).div_ceil(100)),
};
