//! What the scheduler knows of a CPU's utilisation, in the forms that governors and placement ask for.

use opplab_kernel::cpufreq::facts::CpuTimes;
use opplab_kernel::cpufreq::facts::RqFacts;
use opplab_kernel::cpufreq::schedutil::FAIR_SERVER_BW;
use opplab_kernel::profile::DlUtil;
use opplab_kernel::sched::placement::Clamps;
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;

use crate::ids::TaskId;
use crate::run::cpu::Cpu;
use crate::run::gates::{Gates, UtilEst};

/// fair.c:cpu_util_cfs() and, with `boost`, cpu_util_cfs_boost(): the fair class's utilisation or its estimate.
#[inline]
pub(crate) fn cpu_util_cfs(cpu: &Cpu, gates: &Gates, boost: bool) -> u64 {
    let mut util = cpu.cfs.avg.util_avg;
    if boost {
        util = util.max(cpu.cfs.avg.runnable_avg);
    }
    let util = util.max(cfs_util_est(cpu, gates));
    let util = if gates.proposes { proposed_util(cpu, util) } else { util };
    util.min(cpu.capacity)
}

/// The same as proposals have it.
#[inline(never)]
fn proposed_util(cpu: &Cpu, util: u64) -> u64 {
    cpu.proposed.util(util).max(cpu.proposed.io_util * cpu.capacity / SCHED_CAPACITY_SCALE)
}

/// The sum of the estimates of a queue's tasks.
#[inline]
pub(crate) fn cfs_util_est(cpu: &Cpu, gates: &Gates) -> u64 {
    match gates.util_est {
        UtilEst::Single => cpu.cfs.avg.util_est.into(),
        UtilEst::Pair(_) => cpu.cfs_util_est.enqueued.into(),
    }
}

/// The idle and niced times of a CPU, as sampling governors read them.
pub(crate) fn cpu_times(cpu: &Cpu, now: u64) -> CpuTimes {
    cpu.idle_times.times(now, cpu.curr == TaskId::IDLE, cpu.nr_iowait > 0)
}

/// The bandwidth of deadline tasks on `cpu`. That of the fair tasks' server stays once it has served, as recorded kernels show it.
#[inline]
pub(crate) fn dl_running_bw(cpu: &Cpu, gates: &Gates) -> u64 {
    let tasks = if gates.dl_util == DlUtil::Bandwidth { cpu.dl_bw.running_bw } else { 0 };
    tasks + if cpu.fair_served { FAIR_SERVER_BW } else { 0 }
}

/// What the other classes and the clamps of `cpu` report.
#[inline]
pub(crate) fn rq_facts(cpu: &Cpu, gates: &Gates, uclamp_used: bool) -> RqFacts {
    let clamps = if uclamp_used { cpu.clamps.value() } else { Clamps::NONE };
    let (rt, dl) = (cpu.rt.util_avg, cpu.dl.util_avg);
    let (util_rt, util_dl) = if gates.dl_util == DlUtil::Ran { (rt + dl, 0) } else { (rt, dl) };
    // SCHED_CPUFREQ_DL, up to v4.15: as real-time tasks.
    let dl_highest = gates.dl_util == DlUtil::Highest && !cpu.dl_queue.is_empty();
    RqFacts {
        uclamp_min: clamps.min,
        uclamp_max: clamps.max,
        uclamp_used,
        capacity: cpu.capacity,
        util_rt,
        util_dl,
        util_irq: cpu.irq.util_avg,
        rt_runnable: dl_highest || !cpu.rt_queue.is_empty() && !cpu.starvation.rt.throttled,
        dl_running_bw: dl_running_bw(cpu, gates),
    }
}
