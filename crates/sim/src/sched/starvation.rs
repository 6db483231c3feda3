//! A CPU's accounts of what keeps fair tasks from starving behind real-time tasks.

use opplab_kernel::sched::dl_server::DlServer;
use opplab_kernel::sched::rt_bandwidth::RtBandwidth;

/// The accounts of both ways: a kernel has one of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Starvation {
    /// The deadline server of fair tasks (v6.12).
    pub(crate) server: DlServer,
    /// What real-time tasks used (before v6.12).
    pub(crate) rt: RtBandwidth,
    /// The queue's clock up to which its time is charged.
    pub(crate) charged_ns: u64,
    /// When the armed timer comes; 0 if none is.
    pub(crate) timer_ns: u64,
}
