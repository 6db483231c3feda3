//! Families of vectors: how load tracking follows tasks that are born, move, sleep and belong to a group.

use opplab_kernel::pelt::{HalfLife32, SchedAvg, SeFacts, se_runnable};
use opplab_kernel::sched::attach::{
    CfsAvg, CfsFacts, GroupQueue, LagFacts, Move, init_entity_runnable_average, migrate_se_pelt_lag,
    post_init_entity_util_avg, skip_blocked_update, update_load_avg,
};

use crate::json::Json;
use crate::{Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "pelt_init_task", run: run_init_task },
    Family { name: "pelt_migrate_lag", run: run_migrate_lag },
    Family { name: "pelt_group_seq", run: run_group_seq },
];

fn run_init_task(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let weight = row.num("weight")?;
        let cfs =
            SchedAvg { util_avg: row.num("cfs_util_avg")?, load_avg: row.num("cfs_load_avg")?, ..SchedAvg::default() };
        let mut se = init_entity_runnable_average(weight, true);
        if row.flag("fair_class")? {
            post_init_entity_util_avg(&mut se, weight, &cfs, row.num("cpu_capacity")?);
        }
        diff.eq("load_avg", row.num("load_avg")?, se.load_avg);
        diff.eq("util_avg", row.num("util_avg")?, se.util_avg);
        diff.eq("runnable_avg", row.num("runnable_avg")?, se.runnable_avg);
        diff.eq("load_sum", row.num("load_sum")?, se.load_sum);
        diff.eq("util_sum", row.num("util_sum")?, se.util_sum);
        diff.eq("runnable_sum", row.num("runnable_sum")?, se.runnable_sum);
        Ok(())
    })
}

/// The entity before the step: its averages follow from its sums.
fn lag_entity(row: &Row<'_>) -> Result<SchedAvg, VerifyError> {
    let mut se = SchedAvg {
        last_update_time: row.num("se_lut")?,
        load_sum: row.num("se_load_sum")?,
        runnable_sum: row.num("se_runnable_sum")?,
        util_sum: row.num("se_util_sum")?,
        period_contrib: row.num("se_contrib")?,
        ..SchedAvg::default()
    };
    let divider = opplab_kernel::pelt::get_pelt_divider::<HalfLife32>(&se);
    let weight = opplab_kernel::pelt::scale_load_down(row.num("weight")?);
    se.load_avg = weight * se.load_sum / u64::from(divider);
    se.runnable_avg = se.runnable_sum / u64::from(divider);
    se.util_avg = u64::from(se.util_sum / divider);
    Ok(se)
}

fn run_migrate_lag(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let mut se = lag_entity(row)?;
        let facts = LagFacts {
            is_idle: row.flag("rq_idle")?,
            throttled_pelt_idle: row.num("throttled_pelt_idle")?,
            clock_pelt_idle: row.num("clock_pelt_idle")?,
            clock_idle: row.num("clock_idle")?,
            sched_clock: row.num("sched_clock")?,
            cfs_last_update_time: row.num("cfs_last_update_time")?,
        };
        migrate_se_pelt_lag::<HalfLife32>(&mut se, row.num("weight")?, &facts);
        diff.eq("out_lut", row.num("out_lut")?, se.last_update_time);
        diff.eq("out_load_sum", row.num("out_load_sum")?, se.load_sum);
        diff.eq("out_runnable_sum", row.num("out_runnable_sum")?, se.runnable_sum);
        diff.eq("out_util_sum", row.num("out_util_sum")?, se.util_sum);
        diff.eq("out_contrib", row.num("out_contrib")?, se.period_contrib);
        diff.eq("out_load_avg", row.num("out_load_avg")?, se.load_avg);
        diff.eq("out_runnable_avg", row.num("out_runnable_avg")?, se.runnable_avg);
        diff.eq("out_util_avg", row.num("out_util_avg")?, se.util_avg);
        Ok(())
    })
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
        let has_group = header.flag("has_group")?;
        let in_group: Vec<bool> =
            header.nums::<u64>("in_group")?.into_iter().map(|flag| flag != 0 && has_group).collect();
        Ok(Self {
            root: Queue::default(),
            group: Queue::default(),
            group_se: Entity::default(),
            tasks: vec![Entity::default(); in_group.len()],
            in_group,
            shares: header.num("shares")?,
            tg_load_avg: 0,
            curr: None,
            cpu_capacity: header.num("cpu_capacity")?,
            clock_pelt: 0,
            sched_clock: 0,
        })
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

    fn step(&mut self, input: Json<'_>, has_group: bool) -> Result<(), VerifyError> {
        self.clock_pelt = input.num("clock_pelt")?;
        self.sched_clock = input.num("now")?;
        let task = usize::try_from(input.num::<i64>("t")?).unwrap_or(0);
        match input.get("op")?.text()? {
            "S" => {
                // The initial state is what the line shows; other CPUs may contribute to the group already.
                self.tg_load_avg = input.num("tg_load_avg")?;
                let state = input.get("st")?;
                for (name, queue) in [("root", &mut self.root), ("grp", &mut self.group)] {
                    if let Some(fields) = state.find(name) {
                        queue.cfs.avg = read_avg(fields)?;
                    }
                }
                if let Some(fields) = state.find("gse") {
                    self.group_se.avg = read_avg(fields)?;
                    self.group_se.weight = fields.nth(8)?;
                }
                for (id, entity) in self.tasks.iter_mut().enumerate() {
                    let fields = state.get(&id.to_string())?;
                    entity.avg = read_avg(fields)?;
                    entity.weight = fields.nth(8)?;
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
                let facts = LagFacts {
                    is_idle: self.curr.is_none(),
                    throttled_pelt_idle: 0,
                    clock_pelt_idle: input.num("clock_pelt_idle")?,
                    clock_idle: input.num("clock_idle")?,
                    sched_clock: self.sched_clock,
                    cfs_last_update_time: cfs.avg.last_update_time,
                };
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
        for next in input.nums::<i64>("switch")? {
            self.switch(usize::try_from(next).ok());
        }
        Ok(())
    }

    fn state(&self, name: &str) -> Vec<i128> {
        let avg_of = |avg: &SchedAvg| {
            vec![
                avg.last_update_time.into(),
                avg.load_sum.into(),
                avg.runnable_sum.into(),
                avg.util_sum.into(),
                avg.period_contrib.into(),
                avg.load_avg.into(),
                avg.runnable_avg.into(),
                avg.util_avg.into(),
            ]
        };
        match name {
            "root" | "grp" => {
                let queue = if name == "root" { &self.root } else { &self.group };
                let cfs = &queue.cfs;
                let mut state = avg_of(&cfs.avg);
                state.extend([
                    i128::from(queue.load_weight),
                    queue.h_nr.into(),
                    cfs.removed.nr.into(),
                    cfs.removed.load_avg.into(),
                    cfs.removed.util_avg.into(),
                    cfs.removed.runnable_avg.into(),
                    cfs.propagate.into(),
                    cfs.prop_runnable_sum.into(),
                    cfs.tg_load_avg_contrib.into(),
                    cfs.last_update_tg_load_avg.into(),
                ]);
                state
            }
            "gse" => {
                let mut state = avg_of(&self.group_se.avg);
                state.extend([
                    i128::from(self.group_se.weight),
                    self.group_se.on_rq.into(),
                    self.group_se.runnable_weight.into(),
                ]);
                state
            }
            task => {
                let entity =
                    task.parse::<usize>().ok().and_then(|task| self.tasks.get(task)).copied().unwrap_or_default();
                let mut state = avg_of(&entity.avg);
                state.extend([i128::from(entity.weight), entity.on_rq.into()]);
                state
            }
        }
    }
}

fn read_avg(fields: Json<'_>) -> Result<SchedAvg, VerifyError> {
    Ok(SchedAvg {
        last_update_time: fields.nth(0)?,
        load_sum: fields.nth(1)?,
        runnable_sum: fields.nth(2)?,
        util_sum: fields.nth(3)?,
        period_contrib: fields.nth(4)?,
        load_avg: fields.nth(5)?,
        runnable_avg: fields.nth(6)?,
        util_avg: fields.nth(7)?,
        util_est: 0,
    })
}

fn run_group_seq(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|header| {
        let has_group = header.flag("has_group")?;
        let mut machine = GroupMachine::read(header)?;
        let mut shown = std::collections::BTreeMap::new();
        header.each("steps", tally, |input, diff| {
            machine.step(input, has_group)?;
            for (name, fields) in input.get("st")?.entries()? {
                shown.insert(name, fields.ints::<i128>()?);
            }
            for (name, expected) in &shown {
                diff.eq(name, expected, &machine.state(name));
            }
            diff.eq("tg_load_avg", input.num("tg_load_avg")?, machine.tg_load_avg);
            diff.eq("cur", input.num("cur")?, machine.curr.map_or(-1, |curr| curr as i64));
            Ok(())
        })
    })
}
