//! Families of vectors: how load tracking follows tasks that are born, move, sleep and belong to a group.

use opplab_kernel::pelt::{HalfLife32, SchedAvg, SeFacts, se_runnable};
use opplab_kernel::sched::attach::{
    CfsAvg, CfsFacts, GroupQueue, LagFacts, Move, init_entity_runnable_average, migrate_se_pelt_lag,
    post_init_entity_util_avg, skip_blocked_update, update_load_avg,
};

use crate::fields::{Fields, families, numbers, read, same};
use crate::json::Json;
use crate::{Compared, Diff, Row, Source, Tally, VerifyError};

families! { Rows pelt_init_task, Rows pelt_migrate_lag, File pelt_group_seq }

fn pelt_init_task(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let weight = row.field("weight")?;
    let cfs = read!(row => SchedAvg { util_avg: "cfs_util_avg", load_avg: "cfs_load_avg", ..SchedAvg::default() });
    let mut se = init_entity_runnable_average(weight, true);
    if row.field("fair_class")? {
        post_init_entity_util_avg(&mut se, weight, &cfs, row.field("cpu_capacity")?);
    }
    same!(diff, row => { load_avg, util_avg, runnable_avg, load_sum, util_sum, runnable_sum } of se);
    Ok(())
}

/// The entity before the step: its averages follow from its sums.
fn lag_entity(row: &Row<'_>) -> Result<SchedAvg, VerifyError> {
    let mut se = read!(row => SchedAvg {
        last_update_time: "se_lut", load_sum: "se_load_sum", runnable_sum: "se_runnable_sum", util_sum: "se_util_sum",
        period_contrib: "se_contrib", ..SchedAvg::default()
    });
    let divider = opplab_kernel::pelt::get_pelt_divider::<HalfLife32>(&se);
    let weight = opplab_kernel::pelt::scale_load_down(row.field("weight")?);
    se.load_avg = weight * se.load_sum / u64::from(divider);
    se.runnable_avg = se.runnable_sum / u64::from(divider);
    se.util_avg = u64::from(se.util_sum / divider);
    Ok(se)
}

fn pelt_migrate_lag(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let mut se = lag_entity(row)?;
    let facts = read!(row => LagFacts {
        is_idle: "rq_idle", throttled_pelt_idle, clock_pelt_idle, clock_idle, sched_clock, cfs_last_update_time,
    });
    migrate_se_pelt_lag::<HalfLife32>(&mut se, row.field("weight")?, &facts);
    same!(diff, row => {
        out_lut: se.last_update_time, out_load_sum: se.load_sum, out_runnable_sum: se.runnable_sum,
        out_util_sum: se.util_sum, out_contrib: se.period_contrib, out_load_avg: se.load_avg,
        out_runnable_avg: se.runnable_avg, out_util_avg: se.util_avg,
    });
    Ok(())
}

/// A queue with what its load tracking needs to know; `curr` is the running task, which for the root queue may be in the group.
#[derive(Default)]
struct Queue {
    cfs: CfsAvg,
    load_weight: u64,
    h_nr: u64,
    has_curr: bool,
}

impl Queue {
    fn facts(&self) -> CfsFacts {
        CfsFacts { load_weight: self.load_weight, nr_runnable: self.h_nr, has_curr: self.has_curr }
    }
}

#[derive(Clone, Copy, Default)]
struct Entity {
    avg: SchedAvg,
    weight: u64,
    on_rq: bool,
    runnable_weight: u64,
}

/// One CPU with a root queue and perhaps a group.
struct GroupMachine {
    root: Queue,
    group: Queue,
    group_se: Entity,
    tasks: Vec<Entity>,
    in_group: Vec<bool>,
    shares: u64,
    tg_load_avg: i64,
    curr: Option<usize>,
    cpu_capacity: u64,
    clock_pelt: u64,
    sched_clock: u64,
}

impl GroupMachine {
    fn read(header: Json<'_>) -> Result<Self, VerifyError> {
        let has_group = header.field("has_group")?;
        let in_group: Vec<bool> =
            header.field::<Vec<u64>>("in_group")?.into_iter().map(|flag| flag != 0 && has_group).collect();
        Ok(read!(header => Self {
            root = Queue::default(), group = Queue::default(), group_se = Entity::default(),
            tasks = vec![Entity::default(); in_group.len()], in_group = in_group, shares, tg_load_avg = 0,
            curr = None, cpu_capacity, clock_pelt = 0, sched_clock = 0,
        }))
    }

    /// `update_load_avg()` of a task in its queue, with `UPDATE_TG` or not.
    fn update_task(&mut self, task: usize, action: Move, update_tg: bool) {
        let in_group = self.in_group[task];
        let queue = if in_group { &mut self.group } else { &mut self.root };
        let entity = &mut self.tasks[task];
        let facts = SeFacts::task(entity.weight, entity.on_rq, self.curr == Some(task) && queue.has_curr);
        let queue_facts = queue.facts();
        let change = update_load_avg::<HalfLife32>(
            self.clock_pelt,
            &mut queue.cfs,
            queue_facts,
            &mut entity.avg,
            facts,
            None,
            action,
        );
        if in_group && (change.moved || (change.util && update_tg)) {
            queue.cfs.update_tg_load_avg(&mut self.tg_load_avg, self.sched_clock);
        }
    }

    /// `update_load_avg()` of the group's entity in the root queue.
    fn update_group(&mut self, action: Move) {
        let entity = &mut self.group_se;
        let facts = SeFacts {
            weight: entity.weight,
            on_rq: entity.on_rq,
            runnable: se_runnable(false, entity.on_rq, false, entity.runnable_weight),
            running: self.curr.is_some_and(|curr| self.in_group[curr]) && self.root.has_curr,
        };
        let queue_facts = self.root.facts();
        let group = GroupQueue { cfs: &mut self.group.cfs, load_weight: self.group.load_weight };
        update_load_avg::<HalfLife32>(
            self.clock_pelt,
            &mut self.root.cfs,
            queue_facts,
            &mut entity.avg,
            facts,
            Some(group),
            action,
        );
    }

    /// `update_cfs_group()` of the group's entity.
    fn update_shares(&mut self) {
        if self.group.load_weight == 0 {
            return;
        }
        let shares = self.group.cfs.calc_group_shares(self.shares, self.tg_load_avg, self.group.load_weight);
        let entity = &mut self.group_se;
        if shares == entity.weight {
            return;
        }
        if entity.on_rq {
            self.root.load_weight = self.root.load_weight - entity.weight + shares;
        }
        self.root.cfs.reweight::<HalfLife32>(&mut entity.avg, entity.weight, shares);
        entity.weight = shares;
    }

    fn enqueue(&mut self, task: usize) {
        self.update_task(task, Move::Attach, true);
        let weight = self.tasks[task].weight;
        let queue = if self.in_group[task] { &mut self.group } else { &mut self.root };
        queue.load_weight += weight;
        queue.h_nr += 1;
        self.tasks[task].on_rq = true;
        if self.in_group[task] {
            self.update_group(if self.group_se.on_rq { Move::No } else { Move::Attach });
            self.group_se.runnable_weight = self.group.h_nr;
            self.update_shares();
            if !self.group_se.on_rq {
                self.root.load_weight += self.group_se.weight;
                self.group_se.on_rq = true;
            }
            self.root.h_nr += 1;
        }
    }

    fn dequeue(&mut self, task: usize, action: Move) {
        self.update_task(task, action, true);
        let weight = self.tasks[task].weight;
        self.tasks[task].on_rq = false;
        let queue = if self.in_group[task] { &mut self.group } else { &mut self.root };
        queue.load_weight -= weight;
        queue.h_nr -= 1;
        if self.in_group[task] {
            self.update_group(Move::No);
            self.group_se.runnable_weight = self.group.h_nr;
            if self.group.load_weight == 0 {
                self.group_se.on_rq = false;
                self.root.load_weight -= self.group_se.weight;
            }
            self.update_shares();
            self.root.h_nr -= 1;
        }
    }

    /// `put_prev_entity()` of the running task and its group, then `set_next_entity()`.
    fn switch(&mut self, next: Option<usize>) {
        if let Some(prev) = self.curr {
            if self.tasks[prev].on_rq {
                self.update_task(prev, Move::No, false);
            }
            if self.in_group[prev] {
                self.group.has_curr = false;
                if self.group_se.on_rq {
                    self.update_group(Move::No);
                }
            }
            self.root.has_curr = false;
            self.curr = None;
        }
        if let Some(next) = next {
            if self.tasks[next].on_rq {
                self.update_task(next, Move::No, true);
            }
            if self.in_group[next] {
                self.group.has_curr = true;
                if self.group_se.on_rq {
                    self.update_group(Move::No);
                }
            }
            self.root.has_curr = true;
            self.curr = Some(next);
        }
    }

    fn blocked(&mut self, has_group: bool) {
        if has_group {
            let facts = self.group.facts();
            if self.group.cfs.update::<HalfLife32>(self.clock_pelt, facts) {
                self.group.cfs.update_tg_load_avg(&mut self.tg_load_avg, self.sched_clock);
            }
            if !skip_blocked_update(&self.group_se.avg, &self.group.cfs) {
                self.update_group(Move::No);
            }
        }
        let facts = self.root.facts();
        self.root.cfs.update::<HalfLife32>(self.clock_pelt, facts);
    }

    fn step(&mut self, input: Json<'_>, has_group: bool) -> Compared {
        self.clock_pelt = input.field("clock_pelt")?;
        self.sched_clock = input.field("now")?;
        let task = usize::try_from(input.field::<i64>("t")?).unwrap_or(0);
        match input.get("op")?.text()? {
            "S" => {
                // The initial state is what the line shows; other CPUs may contribute to the group already.
                self.tg_load_avg = input.field("tg_load_avg")?;
                let state = input.get("st")?;
                for (name, queue) in [("root", &mut self.root), ("grp", &mut self.group)] {
                    if let Some(fields) = state.find(name) {
                        queue.cfs.avg = read_avg(fields)?;
                    }
                }
                if let Some(fields) = state.find("gse") {
                    self.group_se.avg = read_avg(fields)?;
                    self.group_se.weight = fields.field(8)?;
                }
                for (id, entity) in self.tasks.iter_mut().enumerate() {
                    let fields = state.get(&id.to_string())?;
                    entity.avg = read_avg(fields)?;
                    entity.weight = fields.field(8)?;
                }
            }
            "new" => {
                let weight = self.tasks[task].weight;
                let mut avg = init_entity_runnable_average(weight, true);
                let cfs = if self.in_group[task] { &self.group.cfs.avg } else { &self.root.cfs.avg };
                post_init_entity_util_avg(&mut avg, weight, cfs, self.cpu_capacity);
                self.tasks[task].avg = avg;
                self.enqueue(task);
            }
            "wake" | "in" => self.enqueue(task),
            "sleep" => self.dequeue(task, Move::No),
            "out_queued" => {
                self.dequeue(task, Move::Detach);
                self.tasks[task].avg.last_update_time = 0;
            }
            "out_sleeping" => {
                let weight = self.tasks[task].weight;
                let cfs = if self.in_group[task] { &mut self.group.cfs } else { &mut self.root.cfs };
                let avg = &mut self.tasks[task].avg;
                cfs.remove::<HalfLife32>(avg, weight);
                let facts = read!(input => LagFacts {
                    is_idle = self.curr.is_none(), throttled_pelt_idle = 0, clock_pelt_idle, clock_idle,
                    sched_clock = self.sched_clock, cfs_last_update_time = cfs.avg.last_update_time,
                });
                migrate_se_pelt_lag::<HalfLife32>(avg, weight, &facts);
                avg.last_update_time = 0;
            }
            "tick" => {
                if let Some(curr) = self.curr {
                    self.update_task(curr, Move::No, true);
                    if self.in_group[curr] {
                        self.update_group(Move::No);
                        self.update_shares();
                    }
                }
            }
            _ => self.blocked(has_group),
        }
        for next in input.field::<Vec<i64>>("switch")? {
            self.switch(usize::try_from(next).ok());
        }
        Ok(())
    }

    fn state(&self, name: &str) -> Vec<i128> {
        let avg_of = |avg: &SchedAvg| {
            numbers!(i128:
                avg.last_update_time, avg.load_sum, avg.runnable_sum, avg.util_sum, avg.period_contrib, avg.load_avg,
                avg.runnable_avg, avg.util_avg,
            )
        };
        let entity_of = |entity: &Entity| numbers!(i128: entity.weight, entity.on_rq, entity.runnable_weight);
        match name {
            "root" | "grp" => {
                let queue = if name == "root" { &self.root } else { &self.group };
                let cfs = &queue.cfs;
                let own = numbers!(i128:
                    queue.load_weight, queue.h_nr, cfs.removed.nr, cfs.removed.load_avg, cfs.removed.util_avg,
                    cfs.removed.runnable_avg, cfs.propagate, cfs.prop_runnable_sum, cfs.tg_load_avg_contrib,
                    cfs.last_update_tg_load_avg,
                );
                [&avg_of(&cfs.avg)[..], &own].concat()
            }
            "gse" => [avg_of(&self.group_se.avg).as_slice(), &entity_of(&self.group_se)].concat(),
            task => {
                let task = task.parse::<usize>().ok().and_then(|task| self.tasks.get(task));
                let entity = task.copied().unwrap_or_default();
                [avg_of(&entity.avg).as_slice(), &entity_of(&entity)[..2]].concat()
            }
        }
    }
}

fn read_avg(fields: Json<'_>) -> Result<SchedAvg, VerifyError> {
    Ok(read!(fields => SchedAvg {
        last_update_time: 0, load_sum: 1, runnable_sum: 2, util_sum: 3, period_contrib: 4, load_avg: 5,
        runnable_avg: 6, util_avg: 7, util_est = 0,
    }))
}

fn pelt_group_seq(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|header| {
        let has_group = header.field("has_group")?;
        let mut machine = GroupMachine::read(header)?;
        let mut shown = std::collections::BTreeMap::new();
        header.each("steps", tally, |input, diff| {
            machine.step(input, has_group)?;
            for (name, fields) in input.get("st")?.entries()? {
                shown.insert(name, fields.value::<Vec<i128>>()?);
            }
            for (name, expected) in &shown {
                diff.eq(name, expected, &machine.state(name));
            }
            same!(diff, input => {
                tg_load_avg: machine.tg_load_avg, cur: machine.curr,
            });
            Ok(())
        })
    })
}
