//! Replays the updates of load tracking that a kernel recorded: probes at the entry of its update functions, with the state
//! before (`upd_se`, `upd_cfs`, `upd_blk`), and the state after in its own tracepoints (`pelt_se`, `pelt_cfs`).
//!
//! The kernel's tracepoints fire when a period was crossed; so a crossing without one, or one without a crossing, is an error too.
//! Updates whose entry was not recorded (attach, detach, propagate) are counted as such.

use std::ops::ControlFlow;

use opplab_kernel::pelt::{
    HalfLife32, SchedAvg, SeFacts, se_runnable, update_load_avg_blocked_se, update_load_avg_cfs_rq, update_load_avg_se,
};

use crate::Places;
use opplab_trace::{BySchema, Event, Schema, Sink};

/// Names of the fields, in the order of [`field`].
const FIELDS: [&str; 22] = [
    "now",
    "se",
    "cfs",
    "lut",
    "load_sum",
    "runnable_sum",
    "util_sum",
    "pc",
    "w",
    "on_rq",
    "sd",
    "rw",
    "myq",
    "cur",
    "hq",
    "hd",
    "load_avg",
    "runnable_avg",
    "util_avg",
    "util_est",
    "cpu",
    "hr",
];

/// Places in [`FIELDS`].
mod field {
    pub(super) const NOW: usize = 0;
    pub(super) const SE: usize = 1;
    pub(super) const CFS: usize = 2;
    pub(super) const LUT: usize = 3;
    pub(super) const LOAD_SUM: usize = 4;
    pub(super) const RUNNABLE_SUM: usize = 5;
    pub(super) const UTIL_SUM: usize = 6;
    pub(super) const PC: usize = 7;
    pub(super) const W: usize = 8;
    pub(super) const ON_RQ: usize = 9;
    pub(super) const SD: usize = 10;
    pub(super) const RW: usize = 11;
    pub(super) const MYQ: usize = 12;
    pub(super) const CUR: usize = 13;
    pub(super) const HQ: usize = 14;
    pub(super) const HD: usize = 15;
    pub(super) const LOAD_AVG: usize = 16;
    pub(super) const RUNNABLE_AVG: usize = 17;
    pub(super) const UTIL_AVG: usize = 18;
    pub(super) const HR: usize = 21;
}

/// What an event is to the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Other,
    Entity,
    Queue,
    Blocked,
    EntityAfter,
    QueueAfter,
}

/// Exact and all updates of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Updates that came out as the kernel recorded.
    pub exact: u64,
    /// Updates that the kernel recorded with entry and result.
    pub total: u64,
}

/// How the kernel's own records compare; a [`Sink`] for a trace's events.
#[derive(Debug, Default)]
pub struct KernelSamples {
    /// `upd_se` to `pelt_se`: running, runnable and queued entities.
    pub entity: Count,
    /// `upd_cfs` to `pelt_cfs`: run queues.
    pub queue: Count,
    /// `upd_blk` to `pelt_se`: sleeping entities (their averages are not compared: the weight is not recorded).
    pub blocked: Count,
    /// We crossed a period, the kernel's tracepoint did not fire.
    pub crossing_without_event: u64,
    /// The tracepoint fired without a recorded entry on that CPU.
    pub event_without_entry: u64,
    /// The first difference, in words.
    pub first_difference: Option<String>,
    roles: BySchema<(Role, Places<22>)>,
    pending: Vec<Option<Pending>>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    role: Role,
    key: u64,
    expected: SchedAvg,
}

impl KernelSamples {
    /// Entities, queues and sleeping entities together.
    pub fn all(&self) -> Count {
        Count {
            exact: self.entity.exact + self.queue.exact + self.blocked.exact,
            total: self.entity.total + self.queue.total + self.blocked.total,
        }
    }

    fn entry(&mut self, role: Role, places: &Places<22>, event: &Event<'_>) {
        let get = |nth: usize| places.get(event, nth) as u64;
        let mut sa = state(places, event);
        let now = get(field::NOW);
        let (key, crossed) = match role {
            Role::Queue => {
                // Since v6.14 the kernel counts those that run or wait, before those whose dequeue is delayed.
                let runnable = match places.find(event, field::HR) {
                    Some(runnable) => runnable as u64,
                    None => get(field::HQ).wrapping_sub(get(field::HD)),
                };
                let crossed =
                    update_load_avg_cfs_rq::<HalfLife32>(now, &mut sa, get(field::W), runnable, get(field::CUR) != 0);
                (get(field::CFS), crossed)
            }
            Role::Blocked => (get(field::SE), update_load_avg_blocked_se::<HalfLife32>(now, &mut sa, 0)),
            _ => {
                let on_rq = get(field::ON_RQ) != 0;
                let facts = SeFacts {
                    weight: get(field::W),
                    on_rq,
                    runnable: se_runnable(get(field::MYQ) == 0, on_rq, get(field::SD) != 0, get(field::RW)),
                    running: get(field::CUR) == get(field::SE),
                };
                (get(field::SE), update_load_avg_se::<HalfLife32>(now, &mut sa, facts))
            }
        };
        let slot = self.slot(event.cpu);
        let before = std::mem::replace(slot, crossed.then_some(Pending { role, key, expected: sa }));
        self.crossing_without_event += u64::from(before.is_some());
    }

    fn slot(&mut self, cpu: u32) -> &mut Option<Pending> {
        let cpu = cpu as usize;
        if self.pending.len() <= cpu {
            self.pending.resize(cpu + 1, None);
        }
        &mut self.pending[cpu]
    }

    fn result(&mut self, role: Role, places: &Places<22>, event: &Event<'_>) {
        let key = places.get(event, if role == Role::QueueAfter { field::CFS } else { field::SE }) as u64;
        let slot = self.slot(event.cpu);
        let Some(pending) = slot.take_if(|p| p.key == key && (p.role == Role::Queue) == (role == Role::QueueAfter))
        else {
            self.event_without_entry += 1;
            return;
        };
        let got = state(places, event);
        let averages = |sa: &SchedAvg| (sa.load_avg, sa.runnable_avg, sa.util_avg);
        let sums = |sa: &SchedAvg| (sa.last_update_time, sa.load_sum, sa.runnable_sum, sa.util_sum, sa.period_contrib);
        let exact = sums(&got) == sums(&pending.expected)
            && (pending.role == Role::Blocked || averages(&got) == averages(&pending.expected));
        let count = match pending.role {
            Role::Queue => &mut self.queue,
            Role::Blocked => &mut self.blocked,
            _ => &mut self.entity,
        };
        count.total += 1;
        count.exact += u64::from(exact);
        if !exact && self.first_difference.is_none() {
            self.first_difference = Some(format!(
                "{:?} at {} ns on CPU {}: kernel {got:?}, replay {:?}",
                pending.role, event.time_ns, event.cpu, pending.expected
            ));
        }
    }
}

fn state(places: &Places<22>, event: &Event<'_>) -> SchedAvg {
    let get = |nth: usize| places.get(event, nth) as u64;
    SchedAvg {
        last_update_time: get(field::LUT),
        load_sum: get(field::LOAD_SUM),
        runnable_sum: get(field::RUNNABLE_SUM),
        util_sum: get(field::UTIL_SUM) as u32,
        period_contrib: get(field::PC) as u32,
        load_avg: get(field::LOAD_AVG),
        runnable_avg: get(field::RUNNABLE_AVG),
        util_avg: get(field::UTIL_AVG),
        util_est: 0,
    }
}

impl Sink for KernelSamples {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        // Taken while they are used, then put back: the places are not copied.
        let mut roles = std::mem::take(&mut self.roles);
        match roles.get(event.schema, role_of) {
            (Role::Other, _) => {}
            (role @ (Role::EntityAfter | Role::QueueAfter), places) => self.result(*role, places, event),
            (role, places) => self.entry(*role, places, event),
        }
        self.roles = roles;
        ControlFlow::Continue(())
    }
}

#[cold]
fn role_of(schema: &Schema) -> (Role, Places<22>) {
    let has_state = schema.field_index("lut").is_some() && schema.field_index("load_sum").is_some();
    let role = match schema.name.as_str() {
        _ if !has_state => Role::Other,
        "upd_se" => Role::Entity,
        "upd_cfs" => Role::Queue,
        "upd_blk" => Role::Blocked,
        "pelt_se" => Role::EntityAfter,
        "pelt_cfs" => Role::QueueAfter,
        _ => Role::Other,
    };
    (role, Places::new(schema, &FIELDS))
}
