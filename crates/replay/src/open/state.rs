//! What an open loop knows of policies and CPUs, and how governors see it.

use opplab_kernel::cpufreq::facts::CpuTimes;
use opplab_kernel::cpufreq::facts::{CpuFacts, RqFacts, SugovFacts};
use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpufreq::governor::{self as kernel, Worker};
use opplab_kernel::cpufreq::schedutil::{BW_SHIFT, FAIR_SERVER_BW};
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::unit::SCHED_CAPACITY_SHIFT;
use opplab_model::event::TaskIdx;
use opplab_signals::pelt::{PeltReplay, Sample};

use crate::calls::Kthread;
use crate::records::Records;

/// A no-op taker of samples: the governor asks when it needs one.
pub(super) type Signals<H> = PeltReplay<fn(&Sample), H>;

pub(super) struct FreqPolicy {
    pub(super) cpus: Vec<u32>,
    pub(super) governor: Box<dyn kernel::Governor>,
    pub(super) worker: Worker,
    pub(super) limits: FreqLimits,
    pub(super) cur_khz: u32,
    pub(super) kthread: Kthread,
    /// When the work of the last request begins, and when what it takes is in force.
    pub(super) due_ns: Option<(u64, u64)>,
    /// When the clock is another one, and which, kHz.
    pub(super) sets: Option<(u64, u32)>,
}

pub(super) struct CpuState {
    pub(super) current: TaskIdx,
    /// Of the current task.
    pub(super) pid: i32,
    pub(super) capacity: u64,
    /// What of it the policy's limit leaves out of reach.
    pub(super) cpufreq_pressure: u64,
    /// A fair task was queued: from then on the fair server has its bandwidth.
    pub(super) served: bool,
    pub(super) idle_calls: u64,
    /// It entered an idle state since it ran a task last, at this time.
    pub(super) entered_ns: Option<u64>,
    /// While it idles, a tick came or was stopped.
    pub(super) no_tick: bool,
    /// When the averages of other classes than the fair one were updated.
    pub(super) others_ns: u64,
    /// It has stopped its tick since it ran a task last.
    pub(super) tickless: bool,
    pub(super) idle_ns: u64,
    /// It idles, outside of interrupts.
    pub(super) idle_since_ns: Option<u64>,
}

/// What governors see of a kernel beside the averages: of the recorded kernel, and of the replayed one.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    /// Fair tasks have a deadline server.
    pub(super) fair_server: (bool, bool),
    /// Tasks of the replayed one have clamps.
    pub(super) clamps: bool,
}

pub(super) struct View<'a, H> {
    pub(super) signals: &'a Signals<H>,
    pub(super) cpus: &'a [CpuState],
    pub(super) members: &'a [u32],
    pub(super) kernels: Kernels,
    pub(super) records: &'a Records,
    /// Time of the events.
    pub(super) time_ns: u64,
    /// The number of the recorded call.
    pub(super) call: Option<u32>,
}

impl<H: HalfLife> SugovFacts for View<'_, H> {
    fn cpu(&self, index: usize) -> CpuFacts {
        let cpu = self.members[index];
        let state = &self.cpus[cpu as usize];
        if let Some(seen) = self.records.facts(cpu, self.call, self.time_ns) {
            let mut rq = RqFacts { capacity: state.capacity, dl_running_bw: self.dl_running_bw(index), ..seen.rq };
            if !self.kernels.clamps {
                let RqFacts { uclamp_min, uclamp_max, uclamp_used, .. } = RqFacts::default();
                rq = RqFacts { uclamp_min, uclamp_max, uclamp_used, ..rq };
            }
            return CpuFacts { rq, ..seen };
        }
        let mut util = self.signals.cpu_util(cpu);
        self.records.correct(cpu, self.time_ns, &mut util);
        let util_cfs = util.util_avg.max(util.util_est.into());
        let rq = RqFacts {
            capacity: state.capacity,
            util_rt: util.util_rt,
            util_dl: util.util_dl,
            rt_runnable: util.rt_runnable,
            dl_running_bw: self.dl_running_bw(index),
            ..RqFacts::default()
        };
        CpuFacts {
            rq,
            util_cfs: util_cfs.min(state.capacity),
            util_cfs_boost: util_cfs.max(util.runnable_avg).min(state.capacity),
            idle_calls: state.idle_calls,
        }
    }

    /// Deadline tasks have what was recorded of them; their kernel's server of fair tasks, if it has one, is in the records, too.
    fn dl_running_bw(&self, index: usize) -> u64 {
        let cpu = self.members[index];
        let served = self.cpus[cpu as usize].served;
        let server = |present: bool| if present && served { FAIR_SERVER_BW } else { 0 };
        let (then, now) = self.kernels.fair_server;
        let seen = self.records.facts(cpu, self.call, self.time_ns).map(|seen| seen.rq.dl_running_bw);
        let of_1024 = |bw: u32| u64::from(bw) << (BW_SHIFT - SCHED_CAPACITY_SHIFT);
        match seen.or_else(|| self.records.bw_dl(cpu, self.time_ns).map(of_1024)) {
            Some(bw) if then == now => bw,
            Some(bw) => bw.saturating_sub(server(then)) + server(now),
            None => server(now),
        }
    }
}

impl<H: HalfLife> kernel::View for View<'_, H> {
    fn times(&self, index: usize) -> CpuTimes {
        let state = &self.cpus[self.members[index] as usize];
        let open_ns = state.idle_since_ns.map_or(0, |since| self.time_ns.saturating_sub(since));
        CpuTimes { wall_us: self.time_ns / 1000, idle_us: (state.idle_ns + open_ns) / 1000, ..CpuTimes::default() }
    }
}
