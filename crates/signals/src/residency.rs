//! Sums of times: how long each CPU was at each frequency and in each idle state, where and how fast each task ran, and how long
//! tasks waited for a CPU.
//!
//! Times are counted between the first and the last event. Who leaves a CPU at its first switch has run there since the first event,
//! unless the CPU was idle in between, as [`crate::activations`] and energy have it. Clocks and idle states before their first events
//! are unknown and counted nowhere.

use std::collections::{BTreeMap, HashMap};

use crate::decode::{SchedEvent, SchedSink, sleeps};
use crate::waits::Waits;
use opplab_trace::Event;

/// A wait for a CPU: from becoming runnable to running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waited.
    pub pid: i32,
    /// Where it ran then.
    pub cpu: u32,
    /// When it began to run.
    pub time_ns: u64,
    /// How long it had waited.
    pub wait_ns: u64,
    /// After a wake-up; if not, after a preemption.
    pub woken: bool,
}

/// Time sums; feed it with events in time order as a [`SchedSink`], then call [`Residency::finish`].
#[derive(Debug, Default)]
pub struct Residency {
    /// Nanoseconds by CPU and frequency in kHz.
    pub frequency_ns: BTreeMap<(u32, u32), u64>,
    /// Nanoseconds by CPU and idle state.
    pub idle_ns: BTreeMap<(u32, u32), u64>,
    /// Nanoseconds by pid, CPU and frequency in kHz (0 while the frequency is not known).
    pub running_ns: BTreeMap<(i32, u32, u32), u64>,
    /// All waits, in order of their ends.
    pub waits: Vec<Wait>,
    cpus: Vec<CpuState>,
    runnable: Waits<i32>,
    sums: HashMap<(i32, u32, u32), u64>,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Who runs before a CPU's first switch, until that names it.
const UNNAMED: i32 = i32::MIN;

#[derive(Clone, Debug, Default)]
struct CpuState {
    /// Frequency, and since when it is counted.
    frequency: Option<(u32, u64)>,
    idle: Option<(u32, u64)>,
    /// Running task, since when its time is counted.
    running: Option<(i32, u64)>,
    /// What ran before its first switch: from when to when, at which frequency in kHz.
    unnamed: Vec<(u64, u64, u32)>,
}

impl Residency {
    fn cpu(&mut self, cpu: u32) -> &mut CpuState {
        let cpu = (cpu & 0xffff) as usize;
        if self.cpus.len() <= cpu {
            let running = self.first_ns.map(|since| (UNNAMED, since));
            self.cpus.resize(cpu + 1, CpuState { running, ..CpuState::default() });
        }
        &mut self.cpus[cpu]
    }

    /// Counts the running task's time up to `now`, at the frequency that held.
    fn settle_running(&mut self, cpu: u32, now: u64) {
        let state = self.cpu(cpu);
        let khz = state.frequency.map_or(0, |(khz, _)| khz);
        if let Some((pid, since)) = &mut state.running {
            let (pid, since) = (*pid, std::mem::replace(since, now));
            if pid == UNNAMED {
                state.unnamed.push((since, now, khz));
            } else {
                *self.sums.entry((pid, cpu, khz)).or_default() += now.saturating_sub(since);
            }
        }
    }

    fn settle_frequency(&mut self, cpu: u32, now: u64) {
        if let Some((khz, since)) = &mut self.cpu(cpu).frequency {
            let (khz, ns) = (*khz, now.saturating_sub(std::mem::replace(since, now)));
            *self.frequency_ns.entry((cpu, khz)).or_default() += ns;
        }
    }

    fn leave_idle(&mut self, cpu: u32, now: u64) {
        if let Some((state, since)) = self.cpu(cpu).idle.take() {
            *self.idle_ns.entry((cpu, state)).or_default() += now.saturating_sub(since);
        }
    }

    /// Counts what is open up to the last event.
    pub fn finish(&mut self) {
        let now = self.last_ns;
        for cpu in 0..self.cpus.len() as u32 {
            self.settle_running(cpu, now);
            self.settle_frequency(cpu, now);
            if let Some((state, since)) = &mut self.cpu(cpu).idle {
                let (state, ns) = (*state, now.saturating_sub(std::mem::replace(since, now)));
                *self.idle_ns.entry((cpu, state)).or_default() += ns;
            }
        }
        for (key, ns) in self.sums.drain() {
            *self.running_ns.entry(key).or_default() += ns;
        }
    }

    /// Gives to `pid` what ran before the first switch; to nobody, if the CPU was idle.
    fn name_first(&mut self, cpu: u32, pid: Option<i32>) {
        if self.cpu(cpu).running.take_if(|(pid, _)| *pid == UNNAMED).is_none() {
            return;
        }
        let unnamed = std::mem::take(&mut self.cpu(cpu).unnamed);
        let Some(pid) = pid.filter(|&pid| pid != 0) else { return };
        for (from, to, khz) in unnamed {
            *self.sums.entry((pid, cpu, khz)).or_default() += to.saturating_sub(from);
        }
    }

    /// What ran before `since` is not known.
    fn not_before(&mut self, cpu: u32, now: u64, since: u64) {
        self.settle_running(cpu, now);
        self.cpu(cpu).unnamed.iter_mut().for_each(|(from, ..)| *from = since.max(*from));
    }

    fn switch(&mut self, cpu: u32, now: u64, prev: (i32, bool), next: i32) {
        self.settle_running(cpu, now);
        self.name_first(cpu, Some(prev.0));
        self.cpu(cpu).running = (next != 0).then_some((next, now));
        if next != 0 {
            self.leave_idle(cpu, now);
        }
        if let Some((wait_ns, woken)) = self.runnable.switch(cpu, now, prev, next) {
            self.waits.push(Wait { pid: next, cpu, time_ns: now, wait_ns, woken });
        }
    }
}

impl SchedSink for Residency {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        let now = event.time_ns;
        self.first_ns.get_or_insert(now);
        self.last_ns = self.last_ns.max(now);
        match *what {
            SchedEvent::Switch { prev, prev_state, next } => {
                self.switch(event.cpu, now, (prev.pid, !sleeps(prev_state)), next.pid);
            }
            SchedEvent::Waking { task } | SchedEvent::Wakeup { task, .. } => self.runnable.woken(task.pid, now),
            SchedEvent::Frequency { cpu, khz } => {
                self.settle_running(cpu, now);
                self.settle_frequency(cpu, now);
                self.cpu(cpu).frequency = Some((khz, now));
            }
            SchedEvent::Lost { cpu, pid, woken_ns } => {
                self.settle_running(cpu, now);
                self.cpu(cpu).running = None;
                self.leave_idle(cpu, now);
                self.runnable.lost(cpu, pid, woken_ns);
            }
            SchedEvent::NotBefore { cpu, since_ns, .. } => self.not_before(cpu, now, since_ns),
            SchedEvent::Idle { cpu, state } => {
                self.name_first(cpu, None);
                self.leave_idle(cpu, now);
                self.cpu(cpu).idle = state.map(|state| (state as u32, now));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{BIRTHS_AND_ENDS, Threads, decoded_threads};
    use opplab_trace::TraceFile;

    const TEXT: &str = "\
        x-0 [000] 0.000000: cpu_frequency: state=1000 cpu_id=0\n\
        x-0 [000] 0.000010: cpu_idle: state=1 cpu_id=0\n\
        x-0 [000] 0.000040: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000\n\
        x-0 [000] 0.000050: cpu_idle: state=4294967295 cpu_id=0\n\
        x-0 [000] 0.000060: sched_switch: prev_comm=swapper prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n\
        a-7 [000] 0.000100: cpu_frequency: state=2000 cpu_id=0\n\
        a-7 [000] 0.000120: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=8 next_prio=120\n\
        b-8 [000] 0.000150: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120\n\
        a-7 [000] 0.000160: sched_waking: comm=b pid=8 prio=120 target_cpu=000\n\
        a-7 [000] 0.000200: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n\
        b-8 [000] 0.000210: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120\n";

    fn residency(text: &str) -> Residency {
        let mut residency = Residency::default();
        let options = opplab_trace::ReadOptions::default();
        let file = TraceFile::from_bytes(text.as_bytes().to_vec(), &options).unwrap();
        let (names, mut threads) = ([&BIRTHS_AND_ENDS[..], &["cpu_frequency"]].concat(), Threads::default());
        file.stream(&options, &mut decoded_threads(&names, &mut residency, &mut threads)).unwrap();
        residency.finish();
        residency
    }

    #[test]
    fn times_and_waits_are_those_of_the_text() {
        let r = residency(TEXT);
        assert_eq!(r.frequency_ns, BTreeMap::from([((0, 1000), 100_000), ((0, 2000), 110_000)]));
        assert_eq!(r.idle_ns, BTreeMap::from([((0, 1), 40_000)]));
        let running = BTreeMap::from([((7, 0, 1000), 40_000), ((7, 0, 2000), 70_000), ((8, 0, 2000), 40_000)]);
        assert_eq!(r.running_ns, running);
        let waits: Vec<_> = r.waits.iter().map(|w| (w.pid, w.wait_ns, w.woken)).collect();
        // Task 8 first ran without a wake-up in the trace; its second has only a waking.
        assert_eq!(waits, [(7, 20_000, true), (7, 30_000, false), (8, 40_000, true)]);
    }

    /// Goal: a CPU that sleeps runs nobody, also where the switch to idle is missing.
    #[test]
    fn who_was_seen_last_does_not_run_while_the_cpu_sleeps() {
        let text = "\
            x-0 [000] 0.000010: sched_switch: prev_comm=x prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n\
            x-0 [000] 0.000050: cpu_idle: state=1 cpu_id=0\n\
            x-0 [000] 0.000090: cpu_idle: state=4294967295 cpu_id=0\n\
            x-0 [000] 0.000100: sched_switch: prev_comm=x prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n\
            a-7 [000] 0.000130: sched_waking: comm=b pid=8 prio=120 target_cpu=000\n";
        let r = residency(text);
        assert_eq!(r.running_ns, BTreeMap::from([((7, 0, 0), 70_000)]));
        assert_eq!(r.idle_ns, BTreeMap::from([((0, 1), 40_000)]));
    }

    fn switch(cpu: u32, us: u32, prev: u32, next: u32) -> String {
        format!(
            "x-0 [{cpu:03}] 0.{us:06}: sched_switch: prev_comm=x prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=x \
             next_pid={next} next_prio=120\n"
        )
    }

    /// Goal: a task runs on one CPU at a time: where it is seen elsewhere, it has left without an event.
    #[test]
    fn who_is_seen_elsewhere_has_left() {
        let ran = |events: &[&str]| {
            let text = switch(0, 10, 0, 7) + &events.concat() + &switch(3, 900, 0, 9);
            let r = residency(&text);
            let waits: Vec<_> = r.waits.iter().map(|w| (w.pid, w.wait_ns)).collect();
            (r.running_ns.get(&(7, 0, 0)).copied().unwrap_or(0) / 1_000, waits)
        };
        let wake = |name: &str, us: u32, target: u32| {
            format!("x-0 [003] 0.{us:06}: {name}: comm=x pid=7 prio=120 target_cpu={target:03}\n")
        };
        let (there, back) = (switch(1, 50, 0, 7), switch(1, 80, 7, 0));
        // Switched in elsewhere, or leaving there, with a further switch of CPU 0 or without.
        assert_eq!(ran(&[&there, &back]), (40, vec![]));
        assert_eq!(ran(&[&back]), (70, vec![]));
        assert_eq!(ran(&[&there, &back, &switch(0, 300, 8, 0)]), (40, vec![]));
        // Its wake-up begins with the event that may also be one of a task that runs.
        let (waking, woken) = (wake("sched_waking", 30, 0), wake("sched_wakeup", 35, 1));
        assert_eq!(ran(&[&waking, &woken, &there]), (25, vec![(7, 20_000)]));
        assert_eq!(ran(&[&waking, &there]), (40, vec![(7, 20_000)]));
        // One that runs, and is woken there.
        let in_place = wake("sched_wakeup", 35, 0);
        assert_eq!(ran(&[&waking, &in_place, &there]), (40, vec![]));
        assert_eq!(ran(&[&waking, &in_place, &switch(0, 100, 7, 0)]), (90, vec![]));
        let moved = "x-0 [003] 0.000020: sched_migrate_task: comm=x pid=7 prio=120 orig_cpu=0 dest_cpu=1\n";
        assert_eq!(ran(&[moved]).0, 10);
        // It ends elsewhere; or its pid is another task's.
        assert_eq!(ran(&["x-7 [002] 0.000060: sched_process_exit: comm=x pid=7 prio=120\n"]).0, 50);
        assert_eq!(ran(&["x-9 [002] 0.000070: task_newtask: pid=7 comm=x clone_flags=0 oom_score_adj=0\n"]).0, 60);
        // On its own CPU it has still to leave.
        assert_eq!(
            ran(&["x-7 [000] 0.000060: sched_process_exit: comm=x pid=7 prio=120\n", &switch(0, 65, 7, 0)]).0,
            55
        );
    }

    /// Goal: who leaves a CPU first did not run there before it was seen elsewhere.
    #[test]
    fn who_was_elsewhere_has_not_run_since_the_first_event() {
        let r = residency(&(switch(1, 10, 7, 0) + &switch(1, 50, 0, 7) + &switch(1, 80, 7, 0) + &switch(0, 100, 7, 0)));
        assert_eq!(r.running_ns, BTreeMap::from([((7, 0, 0), 20_000), ((7, 1, 0), 30_000)]));
        // Nor before it was moved there, or born.
        let moved = "x-0 [001] 0.000060: sched_migrate_task: comm=x pid=7 prio=120 orig_cpu=1 dest_cpu=0\n";
        let born = "x-0 [001] 0.000070: sched_wakeup_new: comm=x pid=7 prio=120 target_cpu=000\n";
        let (start, end) = (switch(1, 10, 0, 8), switch(0, 100, 7, 0));
        for (event, ns) in [("", 90_000), (moved, 40_000), (born, 30_000)] {
            assert_eq!(residency(&[&start, event, &end].concat()).running_ns[&(7, 0, 0)], ns, "{event}");
        }
    }

    /// Goal: an offline CPU neither runs nor idles.
    #[test]
    fn a_cpu_that_is_taken_down_does_nothing() {
        let idle = |us: u32, state: u32| format!("x-0 [001] 0.{us:06}: cpu_idle: state={state} cpu_id=1\n");
        let down = |us: u32, step: &str| {
            format!("x-5 [000] 0.{us:06}: cpuhp_enter: cpu: 0001 target:   0 step:  84 ({step})\n")
        };
        let done = |us: u32| format!("x-5 [000] 0.{us:06}: cpuhp_exit:  cpu: 0001  state:   4 step:  84 ret: 0\n");
        let up = "x-5 [000] 0.000500: cpuhp_enter: cpu: 0001 target: 230 step: 3 (smpcfd_prepare_cpu)\n";
        let text = [
            idle(10, 1),
            down(20, "cpuhp_kick_ap_work"),
            done(30),
            idle(40, u32::MAX),
            idle(50, 1),
            down(60, "takedown_cpu"),
            done(70),
            up.to_owned(),
            done(505),
            switch(1, 510, 0, 8),
            switch(1, 530, 8, 0),
        ];
        let r = residency(&text.concat());
        assert_eq!((r.idle_ns[&(1, 1)], r.running_ns[&(8, 1, 0)]), (50_000, 20_000));
    }

    /// Goal: the parts of a CPU's time add up to the whole, also where its first switch comes late.
    #[test]
    fn who_leaves_first_has_run_since_the_first_event() {
        let text = "\
            x-0 [001] 0.000000: cpu_idle: state=4294967295 cpu_id=1\n\
            x-0 [001] 0.000010: sched_waking: comm=a pid=7 prio=120 target_cpu=000\n\
            a-7 [000] 0.000100: cpu_frequency: state=2000 cpu_id=0\n\
            x-0 [001] 0.000150: sched_switch: prev_comm=x prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=c next_pid=9 next_prio=120\n\
            a-7 [000] 0.000300: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n\
            c-9 [001] 0.000400: sched_waking: comm=a pid=7 prio=120 target_cpu=000\n\
            b-8 [000] 0.000450: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n";
        let r = residency(text);
        let a_and_b = [((7, 0, 0), 100_000), ((7, 0, 2000), 200_000), ((8, 0, 2000), 150_000)];
        assert_eq!(r.running_ns, BTreeMap::from_iter(a_and_b.into_iter().chain([((9, 1, 0), 300_000)])));
        // Its first wake-up ended on CPU 0 before a switch shows it: its wait is not known.
        let waits: Vec<_> = r.waits.iter().map(|w| (w.pid, w.wait_ns, w.woken)).collect();
        assert_eq!(waits, [(7, 50_000, true)]);
    }
}
