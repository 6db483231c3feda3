//! Idle decisions of a recorded trace: what an idle governor decides on the recorded sleeps, beside what was decided.
//!
//! ```text
//!   cpu_idle state=n          cpu_idle exit      irq_handler_entry *timer*
//!        |<------ stay n ---------->|                 |
//!        |<------------- sleep length: until the CPU's next timer interrupt
//! ```
//! A governor sees the recorded history: each outcome that it learns from is the recorded one, whatever it would have chosen.
//! Too deep ("above") and too shallow ("below") are counted as the kernel does (drivers/cpuidle/cpuidle.c:
//! cpuidle_enter_state(), v6.12).
//! Beside governors stand rivals without any history: always the recorded run's most frequent state, and the deepest state that
//! the stay, known beforehand, was long enough for.
//! Of a simulated run the facts that its governor had are known, and the outcomes; all governors get the same, so that the run's
//! own decides as in the run.
//! Not in a trace, and assumed: the next timer is the next timer interrupt (one that was re-armed meanwhile is not seen),
//! the tick runs again after each stay, nobody waits for I/O, and PM QoS allows all.

use std::collections::BTreeMap;

use opplab_kernel::cpuidle::{IdleFacts, IdleOutcome, IdleState, KTIME_MAX, idle_governor, poll_time_ns};
use opplab_kernel::profile::KernelProfile;
use opplab_model::event::{self, CpuIdx, ExpiredTimer, IDLE_TASK, IdleCall, Sink};
use opplab_signals::decode::{SchedEvent, SchedSink};
use opplab_trace::Event;

/// The events that idle decisions follow from.
pub const EVENTS: [&str; 6] =
    ["cpu_idle", "cpu_idle_miss", "irq_handler_entry", "local_timer_entry", "hrtimer_expire_entry", "sched_switch"];

/// One stay in an idle state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// The state.
    pub state: usize,
    /// When it was entered, ns.
    pub from_ns: u64,
    /// When it was left, ns.
    pub to_ns: u64,
    /// Whether a timer interrupt came next on the CPU, before the next stay.
    pub by_timer: bool,
    /// The CPU's next timer interrupt, ns; `None` behind the last one of the trace.
    pub timer_ns: Option<u64>,
    /// What the kernel reported of it (`cpu_idle_miss`): too shallow if true, too deep if false.
    pub miss: Option<bool>,
    /// Whether a task ran before the CPU went idle again; `None` if the trace has no switches.
    pub ran: Option<bool>,
    /// What the governor of a simulated run was asked and learned.
    pub told: Option<Told>,
}

/// What the governor of a simulated run was asked before a stay, and learned from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Without the states; `None` where the kernel asks no governor.
    facts: Option<IdleFacts<'static>>,
    outcome: IdleOutcome,
}

/// All stays of a trace, by CPU; feed it with events in order of time.
#[derive(Debug, Default)]
pub struct Stays {
    /// By CPU, in order of time.
    pub cpus: Vec<Vec<Stay>>,
    open: Vec<Option<(usize, u64)>>,
    /// Stays of each CPU before which no timer interrupt has been seen yet.
    waiting: Vec<usize>,
    switches: bool,
    /// By CPU: what the governor was asked, and what it has learned since.
    asked: Vec<Option<IdleFacts<'static>>>,
    told: Vec<Option<Told>>,
}

impl Stays {
    fn cpu(&mut self, cpu: u32) -> Option<usize> {
        let cpu = Some(cpu as usize).filter(|&cpu| cpu < 1 << 16)?;
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Vec::new());
            self.open.resize(cpu + 1, None);
            self.waiting.resize(cpu + 1, 0);
            self.asked.resize(cpu + 1, None);
            self.told.resize(cpu + 1, None);
        }
        Some(cpu)
    }

    /// The last stay of a CPU.
    fn last(&mut self, cpu: u32) -> Option<&mut Stay> {
        self.cpu(cpu).and_then(|cpu| self.cpus[cpu].last_mut())
    }

    fn timer(&mut self, cpu: u32, now_ns: u64) {
        let Some(cpu) = self.cpu(cpu) else { return };
        let first = self.waiting[cpu];
        if let Some(last) = self.cpus[cpu].last_mut() {
            last.by_timer |= last.timer_ns.is_none();
        }
        for stay in &mut self.cpus[cpu][first..] {
            stay.timer_ns = Some(now_ns);
        }
        self.waiting[cpu] = self.cpus[cpu].len();
    }

    fn idle(&mut self, cpu: u32, now_ns: u64, state: Option<usize>) {
        let Some(cpu) = self.cpu(cpu) else { return };
        let entered = state.map(|state| (state, now_ns));
        if let (None, Some((state, from_ns))) = (entered, std::mem::replace(&mut self.open[cpu], entered)) {
            let (ran, told) = (self.switches.then_some(false), self.told[cpu].take());
            self.cpus[cpu].push(Stay {
                state,
                from_ns,
                to_ns: now_ns,
                by_timer: false,
                timer_ns: None,
                miss: None,
                ran,
                told,
            });
        }
    }

    /// Numbers the states as those of a machine.
    pub fn number(&mut self, number: impl Fn(u32, usize) -> usize) {
        for (cpu, stays) in (0..).zip(&mut self.cpus) {
            stays.iter_mut().for_each(|stay| stay.state = number(cpu, stay.state));
        }
    }

    fn switch(&mut self, cpu: u32, is_task: bool) {
        self.switches = true;
        if let Some(last) = self.last(cpu).filter(|_| is_task) {
            last.ran = Some(true);
        }
    }
}

/// The stays of a simulated run.
impl Sink for Stays {
    fn event(&mut self, now_ns: u64, event: &event::Event) {
        match *event {
            event::Event::CpuIdle { cpu, state } => self.idle(cpu, now_ns, usize::try_from(state).ok()),
            event::Event::SchedSwitch { cpu, next, .. } => self.switch(cpu, next != IDLE_TASK),
            _ => {}
        }
    }

    fn timer(&mut self, now_ns: u64, cpu: CpuIdx, _timer: ExpiredTimer) {
        Self::timer(self, cpu, now_ns);
    }

    fn idle_call(&mut self, cpu: CpuIdx, call: IdleCall<'_>) {
        let Some(cpu) = self.cpu(cpu) else { return };
        match call {
            IdleCall::Select(&IdleFacts {
                states: _,
                disabled,
                latency_req_ns,
                sleep_length_ns,
                delta_tick_ns,
                tick_stopped,
                nr_iowaiters,
                tick_ns,
                utilized,
                now_ns,
            }) => {
                self.asked[cpu] = Some(IdleFacts {
                    states: &[],
                    disabled,
                    latency_req_ns,
                    sleep_length_ns,
                    delta_tick_ns,
                    tick_stopped,
                    nr_iowaiters,
                    tick_ns,
                    utilized,
                    now_ns,
                });
            }
            IdleCall::Reflect(&outcome) => self.told[cpu] = Some(Told { facts: self.asked[cpu].take(), outcome }),
        }
    }
}

impl SchedSink for Stays {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        match *what {
            SchedEvent::Idle { cpu, state } => self.idle(cpu, event.time_ns, state),
            SchedEvent::IdleMiss { cpu, below } => {
                if let Some(last) = self.last(cpu) {
                    last.miss = Some(below);
                }
            }
            SchedEvent::Timer { .. } => self.timer(event.cpu, event.time_ns),
            SchedEvent::Irq { name } if name.to_ascii_lowercase().windows(5).any(|word| word == b"timer") => {
                self.timer(event.cpu, event.time_ns);
            }
            SchedEvent::Switch { next, .. } => self.switch(event.cpu, next.pid != 0),
            _ => {}
        }
    }
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider<'a> {
    /// What was recorded.
    Recorded,
    /// A governor of the kernel, by name.
    Governor(&'a str),
    /// Always the state that was recorded most often.
    Constant,
    /// The deepest state whose target residency the stay reached.
    Oracle,
}

/// How decisions compare with the recorded ones, of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleScore {
    /// Decisions.
    pub decisions: u64,
    /// The same state as recorded.
    pub equal: u64,
    /// A deeper one.
    pub deeper: u64,
    /// A shallower one.
    pub shallower: u64,
    /// Too deep, as the kernel counts.
    pub above: u64,
    /// Too shallow, as the kernel counts.
    pub below: u64,
    /// Of the recorded decisions, how many the kernel itself reported as too deep, and too shallow.
    pub told: (u64, u64),
    /// Time in each state, ns.
    pub time_ns: Vec<u64>,
    /// Of the decisions that differ: the stay ended by something else than a timer.
    pub intercepted: u64,
    /// Of the decisions that differ: it is not known when the next timer was due.
    pub no_timer: u64,
    /// Number of decisions by recorded state, chosen state, and whether a timer ended the stay.
    pub pairs: BTreeMap<(usize, usize, bool), u64>,
}

/// Whether a stay was too deep (true, false), too shallow (false, true) or neither (cpuidle.c:cpuidle_enter_state(), v6.12).
pub fn missed(states: &[IdleState], state: usize, stay_ns: u64) -> (bool, bool) {
    let Some(entered) = states.get(state) else { return (false, false) };
    if stay_ns < entered.target_residency_ns {
        return (state > 0, false);
    }
    let deeper = states.get(state + 1).map(|next| next.target_residency_ns);
    let rest = stay_ns.saturating_sub(entered.exit_latency_ns);
    (false, stay_ns > entered.exit_latency_ns && deeper.is_some_and(|target_ns| rest >= target_ns))
}

/// What `decider` decides on the stays of one CPU with these states, as in a kernel of this profile. `None` if there is no governor of that name.
pub fn decide(
    stays: &[Stay],
    states: &[IdleState],
    decider: Decider<'_>,
    profile: &KernelProfile,
    tick_ns: u64,
) -> Option<IdleScore> {
    let mut governor = match decider {
        Decider::Governor(name) => Some((idle_governor(name)?.new)(profile)),
        _ => None,
    };
    let mut counts = vec![0u64; states.len().max(1)];
    for stay in stays {
        if let Some(count) = counts.get_mut(stay.state) {
            *count += 1;
        }
    }
    let usual = (0..counts.len()).max_by_key(|&state| counts[state]).unwrap_or(0);
    let mut score = IdleScore { time_ns: vec![0; states.len()], ..IdleScore::default() };
    let mut tick_stopped = false;
    for stay in stays.iter().filter(|stay| stay.state < states.len()) {
        let stay_ns = stay.to_ns - stay.from_ns;
        let until_timer_ns = stay.timer_ns.map(|timer_ns| timer_ns.saturating_sub(stay.from_ns));
        let chosen = match (&mut governor, stay.told, decider) {
            (Some(governor), Some(told), _) => {
                let index =
                    told.facts.map_or(stay.state, |facts| governor.select(&IdleFacts { states, ..facts }).index);
                governor.reflect(&told.outcome);
                index
            }
            (Some(governor), None, _) => {
                let sleep_length_ns = until_timer_ns.unwrap_or(KTIME_MAX).min(KTIME_MAX) as i64;
                let to_tick = (tick_ns - stay.from_ns % tick_ns.max(1)) as i64;
                let facts = IdleFacts {
                    states,
                    disabled: 0,
                    utilized: false,
                    latency_req_ns: KTIME_MAX,
                    sleep_length_ns,
                    delta_tick_ns: if tick_stopped { sleep_length_ns } else { to_tick.min(sleep_length_ns) },
                    tick_stopped,
                    nr_iowaiters: 0,
                    tick_ns,
                    now_ns: stay.from_ns,
                };
                let choice = governor.select(&facts);
                tick_stopped |= choice.stop_tick;
                let got_tick = stay.by_timer && !tick_stopped;
                // The recorded stay holds what the last look at the clock added; times may be in us.
                let limit_ns = poll_time_ns(&**governor, &facts, profile.poll_limit, 1);
                governor.reflect(&IdleOutcome {
                    index: stay.state,
                    residency_ns: stay_ns,
                    got_tick,
                    poll_time_limit: states[stay.state].polling && limit_ns.is_some_and(|ns| stay_ns + 1 >= ns),
                    now_ns: stay.to_ns,
                });
                // The tick runs again once a task has run; a trace without switches does not show it.
                tick_stopped &= stay.ran == Some(false);
                choice.index
            }
            (None, _, Decider::Constant) => usual,
            (None, _, Decider::Oracle) => {
                states.iter().rposition(|state| state.target_residency_ns <= stay_ns).unwrap_or(0)
            }
            _ => stay.state,
        };
        score.decisions += 1;
        *score.pairs.entry((stay.state, chosen, stay.by_timer)).or_default() += 1;
        score.time_ns[chosen.min(states.len() - 1)] += stay_ns;
        let (above, below) = missed(states, chosen, stay_ns);
        score.above += u64::from(above);
        score.below += u64::from(below);
        score.told.0 += u64::from(stay.miss == Some(false));
        score.told.1 += u64::from(stay.miss == Some(true));
        match chosen.cmp(&stay.state) {
            std::cmp::Ordering::Equal => score.equal += 1,
            std::cmp::Ordering::Greater => score.deeper += 1,
            std::cmp::Ordering::Less => score.shallower += 1,
        }
        if chosen != stay.state {
            score.intercepted += u64::from(!stay.by_timer);
            score.no_timer += u64::from(stay.timer_ns.is_none());
        }
    }
    Some(score)
}

#[cfg(test)]
mod tests {
    use opplab_signals::decode::decoded;
    use opplab_trace::{ReadOptions, TraceFile};

    use super::*;

    const STATES: [IdleState; 3] = [
        IdleState { exit_latency_ns: 1_000, target_residency_ns: 1_000, polling: false },
        IdleState { exit_latency_ns: 100_000, target_residency_ns: 500_000, polling: false },
        IdleState { exit_latency_ns: 300_000, target_residency_ns: 2_000_000, polling: false },
    ];

    fn profile() -> KernelProfile {
        KernelProfile::named("6.12.117").expect("a profile")
    }

    fn stays(text: &str) -> Vec<Vec<Stay>> {
        let options = ReadOptions::default();
        let file = TraceFile::from_bytes(text.as_bytes().to_vec(), &options).expect("text");
        let mut stays = Stays::default();
        file.stream(&options, &mut decoded(&mut stays)).expect("events");
        stays.cpus
    }

    #[test]
    fn stays_are_those_of_the_text() {
        let text = "\
            x-0 [000] 1.000000: cpu_idle: state=1 cpu_id=0\n\
            x-0 [000] 1.000400: cpu_idle: state=4294967295 cpu_id=0\n\
            x-0 [000] 1.000400: cpu_idle_miss: cpu_id=0 state=1 type=above below=0\n\
            x-0 [000] 1.000410: irq_handler_entry: irq=30 name=uart\n\
            x-0 [000] 1.000500: cpu_idle: state=0 cpu_id=0\n\
            x-0 [000] 1.004000: cpu_idle: state=4294967295 cpu_id=0\n\
            x-0 [000] 1.004002: irq_handler_entry: irq=19 name=arch_timer\n\
            x-0 [000] 1.004100: cpu_idle: state=0 cpu_id=0\n\
            x-0 [000] 1.004200: cpu_idle: state=4294967295 cpu_id=0\n";
        let stays = stays(text);
        let timers: Vec<_> = stays[0].iter().map(|stay| (stay.by_timer, stay.timer_ns.map(|ns| ns / 1000))).collect();
        assert_eq!(timers, [(false, Some(1_004_002)), (true, Some(1_004_002)), (false, None)]);
        assert_eq!(stays[0][0].miss, Some(false));
        let score = decide(&stays[0], &STATES, Decider::Recorded, &profile(), 4_000_000).expect("a decider");
        // 400 us in a state for 500, 3.5 ms in WFI, 100 us in WFI.
        assert_eq!((score.decisions, score.equal, score.above, score.below), (3, 3, 1, 1));
        assert_eq!(score.told, (1, 0));
        let oracle = decide(&stays[0], &STATES, Decider::Oracle, &profile(), 4_000_000).expect("a decider");
        assert_eq!((oracle.above, oracle.below, oracle.shallower, oracle.deeper), (0, 0, 1, 1));
        assert_eq!(oracle.time_ns, [500_000, 0, 3_500_000]);
        assert!(decide(&stays[0], &STATES, Decider::Governor("none"), &profile(), 1).is_none());
    }

    /// Goal: with a timer every 10 ms and nothing else both governors go deep, and so no decision is missed.
    #[test]
    fn governors_follow_timers() {
        let mut text = String::new();
        for nth in 1..200u32 {
            let (from, to) = (f64::from(nth) / 100.0 + 0.0001, f64::from(nth + 1) / 100.0);
            text += &format!("x-0 [000] {from:.6}: cpu_idle: state=2 cpu_id=0\n");
            text += &format!("x-0 [000] {to:.6}: cpu_idle: state=4294967295 cpu_id=0\n");
            text += &format!("x-0 [000] {to:.6}: irq_handler_entry: irq=19 name=arch_timer\n");
        }
        for name in ["menu", "teo"] {
            let score = decide(&stays(&text)[0], &STATES, Decider::Governor(name), &profile(), 4_000_000);
            let score = score.expect("a governor");
            assert_eq!(score.decisions, 199, "{name}");
            assert!(score.equal >= 190, "{name}: {score:?}");
        }
    }

    /// Goal: polling that ends at its limit is no short sleep. Method: two such stays before each long one, and the same stays a little
    /// shorter, after which teo expects short ones.
    #[test]
    fn polling_up_to_the_limit_is_no_short_sleep() {
        let state =
            |us: u64, polling| IdleState { exit_latency_ns: us * 1_000, target_residency_ns: us * 1_000, polling };
        let states = [state(0, true), state(2, false), state(600, false)];
        let deepest = |poll_us: u32| {
            let mut text = String::new();
            let mut stay = |from_us: u32, to_us: u32, state: u32| {
                for (us, state) in [(from_us, state), (to_us, u32::MAX)] {
                    text += &format!("x-0 [000] {:.6}: cpu_idle: state={state} cpu_id=0\n", f64::from(us) / 1e6);
                }
            };
            for begin_us in (1..200).map(|nth| 1_000_000 + nth * 10_000) {
                stay(begin_us + 100, begin_us + 100 + poll_us, 0);
                stay(begin_us + 400, begin_us + 400 + poll_us, 0);
                stay(begin_us + 700, begin_us + 9_999, 2);
            }
            let score = decide(&stays(&text)[0], &states, Decider::Governor("teo"), &profile(), 4_000_000);
            let pairs = score.expect("a governor").pairs;
            pairs.iter().filter(|((_, chosen, _), _)| *chosen == 2).map(|(_, count)| count).sum::<u64>()
        };
        let (at_limit, shorter) = (deepest(250), deepest(240));
        assert!(at_limit > 590 && shorter < 10, "{at_limit} {shorter}");
    }
}
