//! The idle balance of an open loop: what CPUs without a task do for others.

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::group::{CpuLoad, scale_rt_capacity};
use opplab_kernel::sched::placement::{CpuCapacity, fits_capacity};
use opplab_model::event::IDLE_TASK;

use super::Run;
use super::requests::Call;
use super::state::CpuState;
use crate::nohz::{self, Nohz};

/// A period of load tracking, ns, as a shift.
const PERIOD_SHIFT: u32 = 20;

/// The balancer's machine at a time.
pub(super) struct Balancer<'r, 'a, H> {
    run: &'r mut Run<'a, H>,
    time_ns: u64,
}

impl<H: HalfLife> nohz::Host for Balancer<'_, '_, H> {
    fn update_blocked(&mut self, here: u32, cpu: u32) -> bool {
        let now_ns = self.run.clock(self.time_ns);
        self.run.signals.update(now_ns, cpu);
        // The averages of the other classes are brought up to date nowhere else, while none of their tasks comes or goes.
        let others = &mut self.run.cpus[cpu as usize].others_ns;
        let decayed = *others >> PERIOD_SHIFT != now_ns >> PERIOD_SHIFT;
        *others = now_ns;
        if self.run.signals.take_changed(cpu) || decayed {
            self.run.call(Call { time_ns: self.time_ns, here, cpu, flags: 0, told: None });
        }
        self.run.signals.has_blocked(cpu)
    }

    fn is_idle(&self, cpu: u32) -> bool {
        self.run.cpus[cpu as usize].current == IDLE_TASK && self.run.signals.runnable(cpu) == 0
    }

    fn nr_running(&self, cpu: u32) -> u64 {
        self.run.signals.runnable(cpu)
    }

    fn has_reduced_capacity(&self, cpu: u32, imbalance_pct: u32) -> bool {
        let CpuState { capacity: orig, cpufreq_pressure, .. } = self.run.cpus[cpu as usize];
        let util = self.run.signals.cpu_util(cpu);
        let whole = CpuCapacity { orig, of: orig, hw_pressure: 0, cpufreq_pressure };
        let of = scale_rt_capacity(&whole, util.util_rt, util.util_dl, 0);
        let load = CpuLoad { capacity: CpuCapacity { of, ..whole }, ..CpuLoad::default() };
        self.nr_running(cpu) > 0 && !util.rt_runnable && load.has_reduced_capacity(imbalance_pct)
    }

    fn is_misfit(&self, cpu: u32) -> bool {
        let state = &self.run.cpus[cpu as usize];
        let most = self.run.cpus.iter().map(|cpu| cpu.capacity).max();
        let task = self.run.signals.peek_task(state.pid, self.run.clock(self.time_ns));
        let util = task.map_or(0, |task| task.util_avg.max(task.util_est.into()));
        Some(state.capacity) < most && !fits_capacity(util, state.capacity)
    }
}

impl<'a, H: HalfLife> Run<'a, H> {
    /// What a tick or a CPU that goes idle makes the balancer do.
    pub(super) fn balance(&mut self, time_ns: u64, what: impl FnOnce(&mut Nohz, &mut Balancer<'_, 'a, H>, u64)) {
        if self.told {
            return;
        }
        let jiffies = self.jiffies;
        if let Some(mut nohz) = self.nohz.take() {
            what(&mut nohz, &mut Balancer { run: self, time_ns }, jiffies);
            self.nohz = Some(nohz);
        }
    }
}
