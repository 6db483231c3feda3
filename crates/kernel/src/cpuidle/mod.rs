//! cpuidle governors: plain facts in, a state and the fate of the tick out (drivers/cpuidle/governors/, v6.12).
//!
//! A governor is one CPU's state machine. Whoever drives it (simulator, replay, a notebook) reads the clock, the
//! timers and the idle-state table, hands them over as [`IdleFacts`], obeys the [`IdleChoice`], and reports afterwards
//! what happened with [`IdleGovernor::reflect`] or [`IdleGovernor::reject`].
//!
//! ```text
//!   select ──► enter state ──► wake-up ──► reflect ──► (work) ──► select ...
//!          └─► driver refuses ───────────► reject  ──► (work) ──► select ...
//! ```
//!
//! Not here: entering the state, stopping the tick, PM QoS aggregation, the idle-state tables themselves.

pub mod haltpoll;
pub mod ladder;
pub mod menu;
pub mod teo;
pub mod teo_parts;
pub mod teo_recent;
pub mod teo_short;
pub mod teo_util;

pub use haltpoll::Haltpoll;
pub use ladder::Ladder;
pub use menu::Menu;
pub use teo::Teo;
pub use teo_recent::TeoRecent;
pub use teo_short::{TeoShort, TickRule};

pub use crate::profile::{PollLimit, TeoForm, TeoNearTimer, TeoUtil};

use crate::profile::KernelProfile;

/// Below this target residency or predicted idle time the timers are not asked, because asking costs more than the
/// answer is worth; ns (drivers/cpuidle/governors/gov.h, v6.12).
pub const RESIDENCY_THRESHOLD_NS: u64 = 15_000;

/// "No timer at all", the largest `ktime_t`; ns.
pub const KTIME_MAX: u64 = i64::MAX as u64;

/// Limits of polling are taken from states with at least this target residency, ns (CPUIDLE_POLL_MIN, cpuidle.c, v6.12).
const CPUIDLE_POLL_MIN_NS: u64 = 10_000;

/// Pauses of poll_idle() from one look at the clock to the next (POLL_IDLE_RELAX_COUNT and one, poll_state.c, v6.12).
pub const POLL_IDLE_PAUSES: u64 = 201;

/// One idle state of the driver's table (`struct cpuidle_state`), shallowest first in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleState {
    /// Worst-case time from the wake-up event to the first instruction, ns.
    pub exit_latency_ns: u64,
    /// Time that must be spent in the state for it to save energy, ns.
    pub target_residency_ns: u64,
    /// The CPU spins instead of sleeping (`CPUIDLE_FLAG_POLLING`).
    pub polling: bool,
}

/// What a governor needs to know when a CPU goes idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleFacts<'a> {
    /// The table, shallowest state first.
    pub states: &'a [IdleState],
    /// Bit `i` set: state `i` is disabled (by the driver or in sysfs).
    pub disabled: u64,
    /// Longest acceptable exit latency (PM QoS), ns; 0 allows state 0 only.
    pub latency_req_ns: u64,
    /// Time until the closest timer if the tick were stopped, ns; negative when it has expired already.
    pub sleep_length_ns: i64,
    /// Time until the closest event with the tick running, ns.
    pub delta_tick_ns: i64,
    /// The tick is stopped already.
    pub tick_stopped: bool,
    /// Tasks that went to sleep on this CPU and wait for I/O (`nr_iowait_cpu()`).
    pub nr_iowaiters: u32,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// The CPU uses more than 1/64 of its capacity; asked for where teo looks at it ([`KernelProfile::teo_util`]).
    pub utilized: bool,
    /// The CPU's clock (`local_clock()`), ns.
    pub now_ns: u64,
}

impl IdleFacts<'_> {
    /// Whether state `index` may not be used.
    pub fn is_disabled(&self, index: usize) -> bool {
        index < 64 && self.disabled >> index & 1 != 0
    }

    fn is_polling(&self, index: usize) -> bool {
        self.states.get(index).is_some_and(|state| state.polling)
    }
}

/// A governor's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleChoice {
    /// Index of the state to enter.
    pub index: usize,
    /// Whether the tick may be stopped before entering.
    pub stop_tick: bool,
    /// Whether the governor looked at the timers (`tick_nohz_get_sleep_length()`), which costs time on a real CPU.
    pub queried_sleep_length: bool,
}

/// What happened after a choice: the CPU idled and woke up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleOutcome {
    /// The state that was entered; usually, but not always, the chosen one.
    pub index: usize,
    /// Measured time in the state including the exit latency (`last_residency_ns`), ns.
    pub residency_ns: u64,
    /// The tick woke the CPU up (`tick_nohz_idle_got_tick()`).
    pub got_tick: bool,
    /// The polling state ended because its time limit was reached.
    pub poll_time_limit: bool,
    /// The CPU's clock after the wake-up, ns.
    pub now_ns: u64,
}

/// A cpuidle governor for one CPU (`struct cpuidle_governor` with the per-CPU data inside).
pub trait IdleGovernor: Send + std::fmt::Debug {
    /// The governor's sysfs name.
    fn name(&self) -> &'static str;
    /// Chooses the state for the idle period that begins. The index is always inside the table (0 if it is empty).
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice;
    /// Records how the idle period ended; kept cheap, the statistics are updated by the next [`Self::select`].
    fn reflect(&mut self, outcome: &IdleOutcome);
    /// Records that the driver refused the chosen state: no time was spent idle and nothing is learnt.
    fn reject(&mut self);
    /// The limit that the governor sets for polling, ns (`dev->poll_limit_ns`).
    fn own_poll_limit_ns(&self) -> Option<u64> {
        None
    }
}

/// How long a CPU that goes idle polls at most, ns; `None` until it is woken (cpuidle.c:cpuidle_poll_time(), v6.12). It looks
/// at the clock every `look_ns`, for which [`POLL_IDLE_PAUSES`] take, and stops once more than its limit has passed
/// (poll_state.c:poll_idle()). Whoever ends the polling then reports it as [`IdleOutcome::poll_time_limit`].
pub fn poll_time_ns(governor: &dyn IdleGovernor, facts: &IdleFacts<'_>, limit: PollLimit, look_ns: u64) -> Option<u64> {
    let most_ns = facts.tick_ns / 16;
    let enabled = || (1..facts.states.len()).filter(|&index| !facts.is_disabled(index));
    let residency_ns = |index: usize| facts.states[index].target_residency_ns;
    let of_states_ns = || match limit {
        PollLimit::Unlimited => None,
        PollLimit::TickShare => Some(most_ns),
        PollLimit::FirstState | PollLimit::FirstStateAgain => {
            Some(enabled().next().map_or(facts.tick_ns, residency_ns))
        }
        PollLimit::DeepestState => Some(enabled().next_back().map_or(facts.tick_ns, residency_ns)),
        PollLimit::Bounded => {
            let worth_ns = enabled().map(residency_ns).find(|&ns| ns >= CPUIDLE_POLL_MIN_NS);
            Some(worth_ns.map_or(most_ns, |ns| ns.min(most_ns)))
        }
    };
    let look_ns = look_ns.max(1);
    governor.own_poll_limit_ns().or_else(of_states_ns).map(|limit_ns| (limit_ns / look_ns + 1) * look_ns)
}

/// What the states are like that a governor takes on a CPU after boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleStart {
    /// It predicts from earlier sleeps: there are none before the first.
    NoInterval,
    /// It goes a state deeper after some long sleeps in the one before.
    Rungs,
    /// As later: no sleep that it sees leads to a deeper state.
    AsLater,
}

impl IdleStart {
    /// Why CPUs are in a shallow state after boot, in words; `None` where they are not for that reason.
    pub fn words(self) -> Option<String> {
        match self {
            Self::NoInterval => Some(String::from(
                "in the idle state that CPUs took first, shallow because their governor knew no interval",
            )),
            Self::Rungs => Some(format!(
                "in idle states of the start, which their governor leaves after {} long sleeps each",
                ladder::PROMOTION_COUNT
            )),
            Self::AsLater => None,
        }
    }
}

/// An idle governor that can be named in a policy.
#[derive(Clone, Copy)]
pub struct IdleGovernorEntry {
    /// The name in `/sys/devices/system/cpu/cpuidle/available_governors`.
    pub name: &'static str,
    /// The kernel takes the registered governor with the highest rating.
    pub rating: u32,
    /// Whether it looks at the utilisation of its CPU in a kernel.
    pub looks_at_util: fn(&KernelProfile) -> bool,
    /// What its states are like after boot.
    pub start: IdleStart,
    /// Makes the state of one CPU as a kernel has it.
    pub new: fn(&KernelProfile) -> Box<dyn IdleGovernor>,
}

/// Every idle governor, highest rating first.
/// ladder's rating becomes 25 on a kernel whose tick never stops (`nohz=off`).
pub const IDLE_GOVERNORS: &[IdleGovernorEntry] = &[
    IdleGovernorEntry {
        name: "menu",
        rating: 20,
        looks_at_util: |_| false,
        start: IdleStart::NoInterval,
        new: |kernel| Box::new(Menu::new(kernel.into())),
    },
    IdleGovernorEntry {
        name: "teo",
        rating: 19,
        looks_at_util: |kernel| kernel.teo_util().looks(),
        start: IdleStart::NoInterval,
        new: teo,
    },
    IdleGovernorEntry {
        name: "ladder",
        rating: 10,
        looks_at_util: |_| false,
        start: IdleStart::Rungs,
        new: |_| Box::new(Ladder::default()),
    },
    IdleGovernorEntry {
        name: "haltpoll",
        rating: 9,
        looks_at_util: |_| false,
        start: IdleStart::AsLater,
        new: |_| Box::new(Haltpoll::default()),
    },
];

fn teo(kernel: &KernelProfile) -> Box<dyn IdleGovernor> {
    let (near_timer, util) = (kernel.teo_near_timer, kernel.teo_util());
    match kernel.teo {
        TeoForm::Recent => Box::new(TeoRecent::new(util)),
        TeoForm::RecentTickHits => Box::new(Teo::with_recent(near_timer, util)),
        TeoForm::TickHits => Box::new(Teo::new(near_timer, util)),
        TeoForm::ShortIdles => Box::new(TeoShort::new(TickRule::Artificial, near_timer, util)),
        TeoForm::TickWakeups => Box::new(TeoShort::new(TickRule::Counted, near_timer, util)),
    }
}

/// The governor called `name`, if there is one.
pub fn idle_governor(name: &str) -> Option<&'static IdleGovernorEntry> {
    IDLE_GOVERNORS.iter().find(|entry| entry.name == name)
}

/// `a <= b` as the kernel's signed 64-bit comparison means it, for a table value and a possibly negative time.
fn within(residency_ns: u64, duration_ns: i64) -> bool {
    i128::from(residency_ns) <= i128::from(duration_ns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::PROFILES;

    fn any_state() -> impl Strategy<Value = IdleState> {
        (prop_oneof![0..2_000_000u64, any::<u64>()], prop_oneof![0..20_000_000u64, any::<u64>()], any::<bool>())
            .prop_map(|(exit_latency_ns, target_residency_ns, polling)| IdleState {
                exit_latency_ns,
                target_residency_ns,
                polling,
            })
    }

    #[derive(Debug, Clone)]
    struct Step {
        disabled: u64,
        latency_req_ns: u64,
        sleep_length_ns: i64,
        delta_tick_ns: i64,
        tick_stopped: bool,
        nr_iowaiters: u32,
        now_ns: u64,
        outcome: Option<IdleOutcome>,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let outcome = (any::<usize>(), any::<u64>(), any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
            |(index, residency_ns, got_tick, poll_time_limit, now_ns)| IdleOutcome {
                index,
                residency_ns,
                got_tick,
                poll_time_limit,
                now_ns,
            },
        );
        (
            any::<u64>(),
            any::<u64>(),
            any::<i64>(),
            any::<i64>(),
            any::<bool>(),
            any::<u32>(),
            any::<u64>(),
            proptest::option::of(outcome),
        )
            .prop_map(
                |(
                    disabled,
                    latency_req_ns,
                    sleep_length_ns,
                    delta_tick_ns,
                    tick_stopped,
                    nr_iowaiters,
                    now_ns,
                    outcome,
                )| Step {
                    disabled,
                    latency_req_ns,
                    sleep_length_ns,
                    delta_tick_ns,
                    tick_stopped,
                    nr_iowaiters,
                    now_ns,
                    outcome,
                },
            )
    }

    proptest! {
        /// No governor panics or points outside its table, whatever its input.
        #[test]
        fn any_facts_give_a_state_of_the_table(
            states in proptest::collection::vec(any_state(), 0..12),
            steps in proptest::collection::vec(any_step(), 1..40),
            tick_ns in any::<u64>(),
        ) {
            let kernels = PROFILES.iter().flat_map(|kernel| IDLE_GOVERNORS.iter().map(move |entry| (entry, kernel)));
            for (entry, &(_, version, point)) in kernels {
                let mut governor = (entry.new)(&KernelProfile::of(version, point));
                for step in &steps {
                    let facts = IdleFacts {
                        states: &states,
                        disabled: step.disabled,
                        utilized: step.now_ns & 1 != 0,
                        latency_req_ns: step.latency_req_ns,
                        sleep_length_ns: step.sleep_length_ns,
                        delta_tick_ns: step.delta_tick_ns,
                        tick_stopped: step.tick_stopped,
                        nr_iowaiters: step.nr_iowaiters,
                        tick_ns,
                        now_ns: step.now_ns,
                    };
                    let choice = governor.select(&facts);
                    prop_assert!(choice.index < states.len().max(1), "{} chose {}", entry.name, choice.index);
                    match &step.outcome {
                        Some(outcome) => governor.reflect(outcome),
                        None => governor.reject(),
                    }
                }
            }
        }

        /// Without PM QoS latency and with a well-formed table only state 0 is left.
        #[test]
        fn no_latency_allowed_means_state_0(sleep_length_ns in 0..100_000_000i64) {
            let states = [
                IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
                IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
                IdleState { exit_latency_ns: 133_000, target_residency_ns: 600_000, polling: false },
            ];
            for entry in IDLE_GOVERNORS {
                let mut governor = (entry.new)(&KernelProfile::of((6, 12), 117));
                let facts = IdleFacts {
                    states: &states,
                    disabled: 0,
                    utilized: false,
                    latency_req_ns: 0,
                    sleep_length_ns,
                    delta_tick_ns: sleep_length_ns.min(1_000_000),
                    tick_stopped: false,
                    nr_iowaiters: 0,
                    tick_ns: 4_000_000,
                    now_ns: 1_000,
                };
                prop_assert_eq!(governor.select(&facts).index, 0, "{}", entry.name);
            }
        }
    }

    /// Goal: the limit of each release. Method: a table whose first real state is too short for a limit since v5.11.
    #[test]
    fn a_cpu_polls_no_longer_than_its_limit() {
        let state = |target_residency_ns, polling| IdleState { exit_latency_ns: 0, target_residency_ns, polling };
        let states = [state(0, true), state(2_000, false), state(20_000, false), state(600_000, false)];
        let limit_ns = |kernel: &str, name: &str, states: &[IdleState], disabled| {
            let profile = KernelProfile::named(kernel).expect("a kernel");
            let governor = (idle_governor(name).expect("a governor").new)(&profile);
            let facts = IdleFacts {
                states,
                disabled,
                latency_req_ns: KTIME_MAX,
                sleep_length_ns: 0,
                delta_tick_ns: 0,
                tick_stopped: false,
                nr_iowaiters: 0,
                tick_ns: 4_000_000,
                utilized: false,
                now_ns: 0,
            };
            poll_time_ns(&*governor, &facts, profile.poll_limit, 1_500)
        };
        for (kernel, ns) in [
            ("4.16", None),
            ("4.19", Some(250_500)),
            ("4.20", Some(3_000)),
            ("5.4", Some(601_500)),
            ("5.4.4", Some(3_000)),
            ("5.10", Some(3_000)),
            ("5.11", Some(21_000)),
            ("6.12.117", Some(21_000)),
        ] {
            assert_eq!(limit_ns(kernel, "menu", &states, 0), ns, "{kernel}");
        }
        // A disabled state does not count, a long one counts as a sixteenth of a tick, and a short one as one look.
        assert_eq!(limit_ns("6.12", "teo", &states, 0b100), Some(250_500));
        assert_eq!(limit_ns("6.12", "teo", &states[..1], 0), Some(250_500));
        assert_eq!(limit_ns("5.10", "teo", &[states[0], state(0, false)], 0), Some(1_500));
        // haltpoll has a limit of its own, once it has one.
        assert_eq!(limit_ns("6.12", "haltpoll", &states, 0), Some(21_000));
        let mut grown = Haltpoll::default();
        grown.poll_limit_ns = 50_000;
        assert_eq!(grown.own_poll_limit_ns(), Some(50_000));
    }

    #[test]
    fn governors_are_found_by_name() {
        for entry in IDLE_GOVERNORS {
            assert_eq!(
                idle_governor(entry.name).map(|found| (found.new)(&KernelProfile::of((6, 12), 117)).name()),
                Some(entry.name)
            );
        }
        assert!(idle_governor("menuu").is_none());
    }
}
