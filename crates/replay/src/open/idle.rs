//! Ticks and idle CPUs of an open loop, and the calls of governors that come with them.

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::SingleStateTick;
use opplab_model::event::IDLE_TASK;

use super::Run;
use super::requests::Call;
use crate::events::{Ev, What};

impl<H: HalfLife> Run<'_, H> {
    /// The recorded calls that `here` made up to now.
    pub(super) fn calls_of(&mut self, here: u32) {
        let (now, later): (Vec<Call>, Vec<Call>) = self.calls.iter().partition(|call| call.here == here);
        self.calls = later;
        now.into_iter().for_each(|call| self.call(call));
    }

    /// The recorded calls that `here` made on `cpu`, but the last.
    pub(super) fn calls_before(&mut self, here: u32, cpu: u32) {
        let its = |call: &Call| call.here == here && call.cpu == cpu;
        while self.calls.iter().filter(|call| its(call)).count() > 1
            && let Some(at) = self.calls.iter().position(its)
        {
            let call = self.calls.remove(at);
            self.call(call);
        }
    }

    /// Counts idle time as the kernel does: without interrupts that wake somebody.
    pub(super) fn idle(&mut self, ev: &Ev) {
        let cpu = &mut self.cpus[ev.cpu as usize];
        let enters = match ev.what {
            What::Switch { next, .. } => {
                if next == IDLE_TASK && !self.idle_told {
                    cpu.idle_calls += 1;
                }
                (cpu.entered_ns, cpu.no_tick, cpu.tickless) = (None, false, false);
                next == IDLE_TASK
            }
            What::Idle { state, .. } => {
                let entered = state.is_some();
                if self.idle_call(ev.cpu as usize, ev.time_ns, entered) {
                    self.balance(ev.time_ns, |nohz, host, jiffies| nohz.tick(host, ev.cpu, jiffies));
                }
                entered
            }
            // An interrupt has begun; the CPU idles again at its next idle event.
            What::Waking { .. } if self.idle_told => false,
            _ => return,
        };
        let cpu = &mut self.cpus[ev.cpu as usize];
        if enters {
            cpu.idle_since_ns.get_or_insert(ev.time_ns);
        } else if let Some(since) = cpu.idle_since_ns.take() {
            cpu.idle_ns += ev.time_ns.saturating_sub(since);
        }
    }

    /// Counts a call of tick_nohz_idle_stop_tick(); whether a tick came while the CPU idled, at its end. Where no cpuidle governor decides, a CPU that goes idle keeps its tick at first,
    /// and stops it when it goes on to idle after a tick (idle.c:idle_call_stop_or_retain_tick(), v6.12.117).
    pub(super) fn idle_call(&mut self, cpu: usize, time_ns: u64, entered: bool) -> bool {
        let states = self.machine.cluster_of(cpu as u32).idle.len();
        // A driver with one state kept the tick for a while (e5c9ffc6ae1b).
        let kept = self.single_state_tick == SingleStateTick::Kept && states == 1;
        let stops = states > 1 || self.single_state_tick != SingleStateTick::Retained && !kept;
        let clock_ns = self.clock(time_ns);
        let base_ns = self.clock_ns;
        let state = &mut self.cpus[cpu];
        if !entered {
            // A tick that was not stopped ends the idle state.
            let stopped = state.no_tick || stops || kept;
            let came = state.entered_ns.filter(|_| !stopped).is_some_and(|since| {
                let since = since.saturating_add(base_ns);
                self.ticks
                    .map_or(clock_ns.saturating_sub(since) > self.tick_ns, |ticks| ticks.last_before(clock_ns) >= since)
            });
            state.no_tick |= came;
            return came;
        }
        state.entered_ns = Some(time_ns);
        if stops || state.no_tick {
            state.idle_calls += 1;
            self.stops_tick(cpu as u32);
        }
        false
    }

    pub(super) fn stops_tick(&mut self, cpu: u32) {
        if !std::mem::replace(&mut self.cpus[cpu as usize].tickless, true)
            && let Some(nohz) = &mut self.nohz
        {
            nohz.enter_idle(cpu);
        }
    }

    /// The tick of all busy CPUs.
    pub(super) fn tick(&mut self, time_ns: u64) {
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].current != IDLE_TASK {
                self.signals.update(self.clock(time_ns), cpu);
                self.changed(time_ns, cpu);
            }
        }
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].current != IDLE_TASK {
                self.balance(time_ns, |nohz, host, jiffies| nohz.tick(host, cpu, jiffies));
            }
        }
    }
}
