//! Time that hardware threads were busy beside a busy thread of their core, and what that cost: a sink.
//!
//! The cost is how much longer the time is than work would take alone, by the speed that the machine (or a benchmark's
//! own number) gives to such threads. Work of a fixed length does not follow it, so that the cost is an upper bound.

use opplab_model::event::{Event, IDLE_TASK, Sink};
use opplab_model::machine::Machine;

/// Sums that time; made for one run.
#[derive(Debug)]
pub struct SmtSharing {
    core_of: Vec<usize>,
    busy: Vec<bool>,
    /// Of each core: busy threads, and since when they are so many.
    cores: Vec<(u64, u64)>,
    /// Speed beside a busy thread, 1024: as alone.
    smt_yield: u32,
    /// Until then nothing counts.
    warmup_ns: u64,
    beside_ns: u64,
}

impl SmtSharing {
    /// For a run on `machine`, measured from `warmup_ns` on, with a benchmark's own yield if it has one.
    pub fn new(machine: &Machine, smt_yield: Option<u32>, warmup_ns: u64) -> Self {
        let core_of: Vec<usize> = machine.cpus.iter().map(|place| place.core as usize).collect();
        Self {
            busy: vec![false; core_of.len()],
            cores: vec![(0, 0); core_of.iter().max().map_or(0, |last| last + 1)],
            core_of,
            smt_yield: smt_yield.unwrap_or(machine.smt_yield),
            warmup_ns,
            beside_ns: 0,
        }
    }

    fn settle(&mut self, core: usize, now_ns: u64) {
        let (running, since_ns) = &mut self.cores[core];
        let since_ns = std::mem::replace(since_ns, now_ns).max(self.warmup_ns);
        if *running > 1 {
            self.beside_ns += *running * now_ns.saturating_sub(since_ns);
        }
    }

    /// What a run that ended at `end_ns` had of it: the time, and how much of it was lost, in ns.
    pub fn finish(mut self, end_ns: u64) -> (u64, u64) {
        for core in 0..self.cores.len() {
            self.settle(core, end_ns);
        }
        let lost_ns = (u128::from(self.beside_ns) * u128::from(1024 - self.smt_yield.min(1024))) >> 10;
        (self.beside_ns, lost_ns as u64)
    }
}

impl Sink for SmtSharing {
    fn event(&mut self, now_ns: u64, event: &Event) {
        let Event::SchedSwitch { cpu, next, .. } = *event else { return };
        let (cpu, runs) = (cpu as usize, next != IDLE_TASK);
        if std::mem::replace(&mut self.busy[cpu], runs) != runs {
            let core = self.core_of[cpu];
            self.settle(core, now_ns);
            let running = &mut self.cores[core].0;
            *running = if runs { *running + 1 } else { *running - 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_model::event::TaskState;
    use opplab_model::file::parse_machine;

    const MACHINE: &str = r#"format = 1
        name = "two cores"
        smt_yield = 640
        [topology]
        core = ["0,2", "1"]
        [[driver]]
        name = "acpi-cpufreq"
        transition_latency_us = 100
        fast_switch = true
        [[cluster]]
        name = "c"
        cpus = "0-2"
        capacity = 1024
        opp = [{ khz = 1000000, mw = 100 }]
        idle = [{ name = "C1", mw = 5, exit_latency_us = 1, target_residency_us = 1 }]
    "#;

    #[test]
    fn only_threads_of_one_core_share_and_only_after_the_warm_up() {
        let machine = parse_machine("two.toml", MACHINE).expect("a machine");
        let mut sink = SmtSharing::new(&machine, None, 1500);
        let mut switch = |now_ns, cpu, prev, next| {
            sink.event(now_ns, &Event::SchedSwitch { cpu, prev, prev_state: TaskState::Running, next })
        };
        switch(0, 0, IDLE_TASK, 3);
        switch(500, 1, IDLE_TASK, 4);
        switch(1000, 2, IDLE_TASK, 5);
        switch(2000, 0, 3, 6);
        switch(3548, 0, 6, IDLE_TASK);
        switch(5000, 0, IDLE_TASK, 6);
        // Both threads, from 1500 to 3548 and from 5000 on; 384/1024 of it is lost.
        assert_eq!(sink.finish(6024), (2 * 2048 + 2 * 1024, 2 * 768 + 2 * 384));
    }
}
