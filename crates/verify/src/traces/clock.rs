//! The run queues' clocks: how far the PELT clock goes for a span of task time.

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::pelt::{HalfLife32, cap_scale};

use super::input::{Ev, Kind, Machine};
use super::report::{RecordingReport, UNEXPLAINED};
use super::state::State;

/// A run queue's clocks at a record.
#[derive(Debug, Clone, Copy)]
struct Seen {
    clock: RqClock,
    idle: bool,
    scale: Option<u64>,
    /// It began to idle after that record.
    idled: bool,
    /// It began to idle or to run, or its frequency changed, after that record.
    changed: bool,
}

/// What was seen of the clocks.
pub(super) struct Clock {
    invariant: bool,
    counter_scale: bool,
    /// By CPU: the last record of update_rq_clock().
    entries: Vec<Option<Seen>>,
    /// By CPU: the last update of the root queue.
    updates: Vec<Option<Seen>>,
}

impl Clock {
    /// Nothing yet.
    pub(super) fn new(machine: &Machine) -> Self {
        Self {
            invariant: machine.freq_ref,
            counter_scale: machine.counter_scale,
            entries: vec![None; machine.n_cpus],
            updates: vec![None; machine.n_cpus],
        }
    }

    /// Looks at one event.
    pub(super) fn event(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) {
        match ev.kind() {
            Kind::SchedSwitch => {
                let (Some(prev), Some(next)) = (ev.get("prev_pid"), ev.get("next_pid")) else { return };
                for seen in [&mut self.entries, &mut self.updates] {
                    if let Some(Some(seen)) = seen.get_mut(ev.cpu()) {
                        seen.idled |= next == 0;
                        seen.changed |= (next == 0) != (prev == 0);
                    }
                }
            }
            Kind::Setscale => {
                let mask = ev.u("cpus").unwrap_or(0);
                for (cpu, seen) in self.updates.iter_mut().enumerate().take(64) {
                    if let Some(seen) = seen.as_mut().filter(|_| mask >> cpu & 1 != 0) {
                        seen.changed = true;
                    }
                }
            }
            Kind::Rqclk => {
                let _ = self.entry(ev, state, report);
            }
            Kind::UpdCfs => {
                let _ = self.update(ev, state, report);
            }
            _ => {}
        }
    }

    fn seen(&self, clock: RqClock, cpu: usize, state: &State<'_>) -> Option<Seen> {
        let of = state.cpus.get(cpu)?;
        let scale = if self.counter_scale {
            None
        } else if self.invariant {
            of.freq_scale
        } else {
            Some(1024)
        };
        Some(Seen { clock, idle: of.curr? == 0, scale, idled: false, changed: false })
    }

    /// Entry of update_rq_clock(): the next entry shows what this call made of it.
    fn entry(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let cpu = ev.cpu_field("cpu")?;
        let now = RqClock {
            clock: ev.u("clock")?,
            clock_task: ev.u("task")?,
            clock_pelt: ev.u("pelt")?,
            lost_idle_time: ev.u("lost")?,
            clock_idle: ev.u("idle")?,
            clock_pelt_idle: ev.u("pidle")?,
            prev_irq_time: 0,
        };
        let seen = self.seen(now, cpu, state);
        let Some(last) = std::mem::replace(self.entries.get_mut(cpu)?, seen) else {
            report.without_input("clock_pelt", "the record before, or what ran then");
            return None;
        };
        let Some(scale) = last.scale else {
            report.without_input("clock_pelt", "the frequency scale (before its first change, or from counters)");
            return None;
        };
        let mut computed = last.clock;
        computed.update_rq_clock(now.clock, 0, last.idle, state.machine.capacity[cpu], scale);
        if last.idled {
            let sums = state.root(cpu).map_or(0, |queue| queue.avg.avg.util_sum);
            let of = &state.cpus[cpu];
            computed.update_idle_rq_clock_pelt::<HalfLife32>(sums, of.rt.avg.util_sum, of.dl.avg.util_sum);
        }
        report.compare("clock_pelt", ev.time_ns(), now, computed, UNEXPLAINED);
        Some(())
    }

    /// An update of a root queue shows the clocks at that time; other updates of the clock in between are not recorded.
    fn update(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let cpu = ev.cpu_field("cpu")?;
        let now = RqClock {
            clock: ev.u("clock")?,
            clock_task: ev.u("clock_task")?,
            clock_pelt: ev.u("clock_pelt")?,
            lost_idle_time: ev.u("lost")?,
            ..RqClock::default()
        };
        let seen = self.seen(now, cpu, state);
        let last = std::mem::replace(self.updates.get_mut(cpu)?, seen)?;
        if last.changed {
            return None;
        }
        let time = ev.time_ns();
        if last.idle {
            report.compare("clock_pelt_idle", time, now.clock_pelt, now.clock_task, UNEXPLAINED);
            return Some(());
        }
        let task = now.clock_task.wrapping_sub(last.clock.clock_task);
        let pelt = now.clock_pelt.wrapping_sub(last.clock.clock_pelt);
        if task == 0 && pelt == 0 {
            return None;
        }
        let Some(scale) = last.scale else {
            report.without_input("clock_pelt_span", "the frequency scale (before its first change, or from counters)");
            return None;
        };
        let dilated = cap_scale(cap_scale(task, state.machine.capacity[cpu]), scale);
        // Each unrecorded update rounds down twice; how many there were is not known.
        if pelt < dilated && dilated - pelt <= 64 {
            report.without_input("clock_pelt_span", "updates of the clock in between (each rounds down)");
        } else {
            report.compare("clock_pelt_span", time, pelt, dilated, UNEXPLAINED);
        }
        Some(())
    }
}
