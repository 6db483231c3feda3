//! Families of vectors: the order of tasks on one run queue, with EEVDF (6.12) and CFS (5.10).

use opplab_kernel::sched::cfs::{self, CfsRq, CfsTunables};
use opplab_kernel::sched::eevdf::{Dequeue, EevdfRq, Enqueue};
use opplab_kernel::sched::entity::{FairPolicy, SchedEntity};
use opplab_kernel::sched::weight::LoadWeight;

use crate::fields::{Fields, families, numbers, read, same};
use crate::json::Json;
use crate::{Compared, Diff, Row, Source, Tally, VerifyError};

families! { File eevdf_seq, File v510_cfs_seq, Rows v510_wakeup_preempt }

fn policy_of(number: u64) -> FairPolicy {
    match number {
        5 => FairPolicy::Idle,
        3 => FairPolicy::Batch,
        _ => FairPolicy::Normal,
    }
}

fn number_of(policy: FairPolicy) -> i128 {
    match policy {
        FairPolicy::Normal => 0,
        FairPolicy::Batch => 3,
        FairPolicy::Idle => 5,
    }
}

fn number_or_none(id: Option<u32>) -> i128 {
    id.map_or(-1, i128::from)
}

/// The weight of a nice level by its index; below 0 that of the policy `SCHED_IDLE`.
fn load_of(prio_index: i64) -> LoadWeight {
    usize::try_from(prio_index).map_or(LoadWeight::IDLE, LoadWeight::of_prio)
}

/// `task_struct::on_rq`: blocked, queued or migrating.
#[derive(Clone, Copy, PartialEq)]
enum OnRq {
    Blocked = 0,
    Queued = 1,
    Migrating = 2,
}

/// One CPU with a handful of tasks, as the sequences use it.
struct EevdfMachine {
    rq: EevdfRq,
    se: Vec<SchedEntity>,
    on_rq: Vec<OnRq>,
}

/// What a step returns beside the state.
#[derive(Default)]
struct EevdfStep {
    ret: i128,
    picked: i128,
    blocked: Vec<u32>,
}

impl EevdfMachine {
    fn read(header: Json<'_>) -> Result<Self, VerifyError> {
        let mut rq = EevdfRq::new(header.field("base_slice")?, header.field("tick_ns")?);
        rq.zero_vruntime = header.field("zero_vruntime")?;
        let mut se = Vec::new();
        for task in header.get("init")?.items()? {
            let load = read!(task => LoadWeight { weight: 0, inv_weight: 1 });
            let mut entity = SchedEntity::new(load, policy_of(task.field(2)?));
            entity.custom_slice = task.field::<bool>(3)?;
            entity.slice = task.field(4)?;
            se.push(entity);
        }
        let on_rq = vec![OnRq::Blocked; se.len()];
        Ok(Self { rq, se, on_rq })
    }

    fn schedule(&mut self, now: u64, step: &mut EevdfStep) {
        let picked = self.rq.pick_task(&mut self.se, now, |_, id| step.blocked.push(id));
        for &id in &step.blocked {
            self.on_rq[id as usize] = OnRq::Blocked;
        }
        self.rq.switch_to(&mut self.se, now, picked);
        self.rq.need_resched = false;
        step.picked = number_or_none(picked);
    }

    fn enqueue(&mut self, now: u64, id: u32, flags: Enqueue) {
        self.rq.enqueue(&mut self.se, now, id, flags);
        self.on_rq[id as usize] = OnRq::Queued;
        self.check_preempt(now, id);
    }

    fn check_preempt(&mut self, now: u64, id: u32) {
        if self.rq.curr.is_none() {
            self.rq.need_resched = true;
        }
        self.rq.check_preempt_wakeup(&mut self.se, now, id);
    }

    fn step(&mut self, input: Json<'_>) -> Result<EevdfStep, VerifyError> {
        let (now, a) = (input.field::<u64>("now")?, input.field::<i64>("a")?);
        let id = input.field::<i64>("t")?.max(0) as u32;
        let nr_running = self.rq.nr_queued;
        let mut step = EevdfStep::default();
        match input.get("op")?.text()? {
            "T" => {
                self.rq.update_curr(&mut self.se, now);
            }
            "N" => self.enqueue(now, id, Enqueue { initial: true, ..Enqueue::default() }),
            "W" if a == 1 => {
                self.rq.requeue_delayed_entity(&mut self.se, id);
                self.check_preempt(now, id);
            }
            "W" => self.enqueue(now, id, Enqueue { wakeup: true, ..Enqueue::default() }),
            "B" => {
                let flags = Dequeue { sleep: true, special: a == 1, delayed: false };
                let left = self.rq.dequeue(&mut self.se, now, id, flags);
                if left {
                    self.on_rq[id as usize] = OnRq::Blocked;
                }
                step.ret = i128::from(left);
                self.schedule(now, &mut step);
            }
            "P" => self.schedule(now, &mut step),
            "Y" => {
                self.rq.yield_task(&mut self.se, now, nr_running);
                self.schedule(now, &mut step);
            }
            "Z" => {
                step.ret = i128::from(self.rq.yield_to(&mut self.se, now, id, nr_running));
                self.schedule(now, &mut step);
            }
            "M" => {
                self.rq.dequeue(&mut self.se, now, id, Dequeue::default());
                self.on_rq[id as usize] = OnRq::Migrating;
            }
            "X" => self.enqueue(now, id, Enqueue { migrated: true, ..Enqueue::default() }),
            "R" => {
                self.rq.change_task(&mut self.se, now, id, |rq, se| rq.reweight(se, now, id, load_of(a)));
            }
            "L" => self.rq.change_task(&mut self.se, now, id, |rq, se| {
                rq.set_slice(&mut se[id as usize], (a != 0).then_some(a as u64));
            }),
            _ => self.rq.reweight(&mut self.se, now, id, LoadWeight::new(a as u64)),
        }
        Ok(step)
    }

    fn task(&self, id: usize) -> [i128; 13] {
        let entity = &self.se[id];
        numbers!(i128:
            self.on_rq[id], entity.on_rq, entity.sched_delayed, entity.load.weight, number_of(entity.policy),
            entity.custom_slice, entity.slice, entity.vruntime, entity.deadline, entity.vlag, entity.exec_start,
            entity.sum_exec_runtime, entity.rel_deadline,
        )
    }

    fn rq(&self) -> [i128; 9] {
        let rq = &self.rq;
        numbers!(i128:
            number_or_none(rq.curr), rq.nr_queued, rq.nr_queued, rq.h_nr_delayed, rq.load.weight, rq.avg_vruntime,
            rq.avg_load, rq.zero_vruntime, number_or_none(rq.next),
        )
    }

    fn eligible(&self) -> u64 {
        let queued = (0..self.se.len()).filter(|&id| self.se[id].on_rq);
        queued.filter(|&id| self.rq.is_eligible(&self.se, id as u32)).fold(0, |mask, id| mask | 1 << id)
    }
}

const EEVDF_TASK_FIELDS: &str = "on_rq se.on_rq sched_delayed weight policy custom_slice slice vruntime deadline vlag exec_start sum_exec_runtime rel_deadline";
const EEVDF_RQ_FIELDS: &str =
    "curr nr_running h_nr_queued h_nr_delayed load.weight avg_vruntime avg_load zero_vruntime next";

/// Keeps what each task showed last, since the sequences only hold what changed, and compares.
struct Shown<const N: usize>(Vec<[i128; N]>);

impl<const N: usize> Shown<N> {
    fn compare(&mut self, out: Json<'_>, names: &str, task: impl Fn(usize) -> [i128; N], diff: &mut Diff) -> Compared {
        for (id, fields) in out.get("tasks")?.entries()? {
            let id: usize = id.parse().unwrap_or(usize::MAX);
            if let Some(shown) = self.0.get_mut(id) {
                *shown = fields.value()?;
            }
        }
        for (id, shown) in self.0.iter().enumerate() {
            for ((name, shown), got) in names.split(' ').zip(shown).zip(&task(id)) {
                diff.eq(&format!("task {id} {name}"), shown, got);
            }
        }
        Ok(())
    }
}

fn compare_rq<const N: usize>(input: Json<'_>, names: &str, got: [i128; N], diff: &mut Diff) -> Compared {
    for ((name, expected), got) in names.split(' ').zip(input.field::<[_; N]>("rq")?).zip(got) {
        diff.eq(name, expected, got);
    }
    Ok(())
}

fn eevdf_seq(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|header| {
        let mut machine = EevdfMachine::read(header)?;
        let mut shown = Shown(vec![[0; 13]; machine.se.len()]);
        header.each("steps", tally, |input, diff| {
            let step = machine.step(input)?;
            shown.compare(input, EEVDF_TASK_FIELDS, |id| machine.task(id), diff)?;
            compare_rq(input, EEVDF_RQ_FIELDS, machine.rq(), diff)?;
            same!(diff, input => { ret: step.ret });
            if matches!(input.get("op")?.text()?, "B" | "P" | "Y" | "Z") {
                same!(diff, input => { b: step.picked });
            }
            same!(diff, input => {
                blocked: step.blocked, resched: machine.rq.need_resched, elig: machine.eligible(),
            });
            Ok(())
        })
    })
}

const CFS_TASK_FIELDS: &str = "on_rq weight policy vruntime exec_start sum_exec_runtime prev_sum_exec_runtime";
const CFS_RQ_FIELDS: &str = "curr nr_running load.weight min_vruntime next last skip";

/// One CPU of a 5.10 kernel.
struct CfsMachine {
    rq: CfsRq,
    se: Vec<SchedEntity>,
}

impl CfsMachine {
    fn read(header: Json<'_>) -> Result<Self, VerifyError> {
        let mut rq = CfsRq::new(read!(header => CfsTunables {
            latency_ns: "latency", min_granularity_ns: "min_granularity", wakeup_granularity_ns: "wakeup_granularity",
            nr_latency, child_runs_first,
        }));
        rq.min_vruntime = header.field("min_vruntime")?;
        let mut se = Vec::new();
        for task in header.get("init")?.items()? {
            let load = read!(task => LoadWeight { weight: 0, inv_weight: 1 });
            se.push(SchedEntity::new(load, policy_of(task.field(2)?)));
        }
        Ok(Self { rq, se })
    }

    fn schedule(&mut self, now: u64) -> i128 {
        let picked = self.rq.pick_task(&mut self.se, now);
        self.rq.switch_to(&mut self.se, now, picked);
        self.rq.need_resched = false;
        number_or_none(picked)
    }

    fn enqueue(&mut self, now: u64, id: u32, flags: cfs::Enqueue) {
        self.rq.enqueue(&mut self.se, now, id, flags);
        if self.rq.curr.is_none() {
            self.rq.need_resched = true;
        }
        self.rq.check_preempt_wakeup(&mut self.se, now, id);
    }

    fn step(&mut self, input: Json<'_>) -> Result<i128, VerifyError> {
        let (now, a) = (input.field::<u64>("now")?, input.field::<i128>("a")?);
        let id = input.field::<i64>("t")?.max(0) as u32;
        let mut picked = 0;
        match input.get("op")?.text()? {
            "T" => self.rq.tick(&mut self.se, now),
            "N" => {
                if self.rq.curr.is_none() {
                    self.se[id as usize].vruntime = a as u64;
                }
                self.rq.task_fork_fair(&mut self.se, now, id);
                self.enqueue(now, id, cfs::Enqueue::default());
            }
            "W" => {
                if a != 0 {
                    let entity = &mut self.se[id as usize];
                    entity.vruntime = entity.vruntime.wrapping_sub(a as u64);
                    entity.exec_start = 0;
                }
                self.enqueue(now, id, cfs::Enqueue { wakeup: true, migrated: a != 0 });
            }
            "B" => {
                self.rq.dequeue(&mut self.se, now, id, cfs::Dequeue { sleep: true, save: false });
                picked = self.schedule(now);
            }
            "P" => picked = self.schedule(now),
            "Y" => {
                self.rq.yield_task(&mut self.se, now, self.rq.nr_queued);
                picked = self.schedule(now);
            }
            "M" => {
                self.rq.dequeue(&mut self.se, now, id, cfs::Dequeue::default());
                self.se[id as usize].exec_start = 0;
            }
            "X" => self.enqueue(now, id, cfs::Enqueue::default()),
            _ => self.rq.change_task(&mut self.se, now, id, |entity| entity.load = load_of(a as i64)),
        }
        Ok(picked)
    }

    fn task(&self, id: usize) -> [i128; 7] {
        let entity = &self.se[id];
        numbers!(i128:
            entity.on_rq, entity.load.weight, number_of(entity.policy), entity.vruntime, entity.exec_start,
            entity.sum_exec_runtime, entity.prev_sum_exec_runtime,
        )
    }

    fn rq(&self) -> [i128; 7] {
        let rq = &self.rq;
        numbers!(i128:
            number_or_none(rq.curr), rq.nr_queued, rq.load.weight, rq.min_vruntime, number_or_none(rq.next),
            number_or_none(rq.last), number_or_none(rq.skip),
        )
    }
}

fn v510_cfs_seq(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|header| {
        let mut machine = CfsMachine::read(header)?;
        let mut shown = Shown(vec![[0; 7]; machine.se.len()]);
        header.each("steps", tally, |input, diff| {
            let picked = machine.step(input)?;
            shown.compare(input, CFS_TASK_FIELDS, |id| machine.task(id), diff)?;
            compare_rq(input, CFS_RQ_FIELDS, machine.rq(), diff)?;
            if matches!(input.get("op")?.text()?, "B" | "P" | "Y") {
                same!(diff, input => { ret: picked });
            }
            same!(diff, input => { resched: machine.rq.need_resched });
            if let Some(slice) = input.find("slice") {
                let curr = machine.rq.curr.map(|curr| machine.se[curr as usize]);
                diff.eq("slice", Some(slice.value()?), curr.map(|curr| machine.rq.sched_slice(&curr)));
            }
            Ok(())
        })
    })
}

fn v510_wakeup_preempt(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let tunables =
        CfsTunables { wakeup_granularity_ns: row.field("wakeup_granularity")?, ..CfsTunables::of_machine(1) };
    let mut entity = SchedEntity::new(LoadWeight::new(row.field("se_weight")?), FairPolicy::Normal);
    entity.vruntime = row.field("se_vruntime")?;
    let result = tunables.wakeup_preempt_entity(row.field("curr_vruntime")?, &mut entity);
    same!(diff, row => { gran: tunables.wakeup_gran(&mut entity), result });
    Ok(())
}
