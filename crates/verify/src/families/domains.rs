//! Families of vectors: where deadline tasks wake, and the scheduling domains of a topology.

use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};
use opplab_kernel::sched::deadline::{
    DeadlineFacts, DlClaim, DlCurr, DlTask, cpudl_find, dl_time_before, find_later_rq, select_task_rq_dl,
};
use opplab_kernel::sched::domains::SD_WAKE_AFFINE;

use super::fields::Fields;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[Family { name: "dl_select", run: run_dl_select }];

struct DlCpu {
    capacity: u64,
    earliest_deadline: Option<u64>,
    curr: Option<DlCurr>,
}

struct DlLine {
    cpus: Vec<DlCpu>,
    free: [u64; 1],
    asym: bool,
    low_spans: Vec<[u64; 1]>,
    all: [u64; 1],
    top_wake_affine: bool,
}

impl DlLine {
    fn read(line: &Fields<'_>) -> Result<Self, VerifyError> {
        let mut cpus = Vec::new();
        for cpu in line.get("cpus")?.items()? {
            let claim = DlClaim { deadline: cpu.nth(4)?, is_sugov: cpu.nth::<u64>(6)? != 0 };
            let curr = DlCurr { claim, nr_cpus_allowed: cpu.nth(5)? };
            cpus.push(DlCpu {
                capacity: cpu.nth(0)?,
                earliest_deadline: (cpu.nth::<u64>(1)? != 0).then_some(cpu.nth(2)?),
                curr: (cpu.nth::<u64>(3)? != 0).then_some(curr),
            });
        }
        let free = cpus.iter().enumerate().filter(|(_, cpu)| cpu.earliest_deadline.is_none());
        Ok(Self {
            free: [free.fold(0, |mask, (cpu, _)| mask | 1 << cpu)],
            asym: line.flag("asym")?,
            low_spans: line.nums::<u64>("low_span")?.into_iter().map(|span| [span]).collect(),
            all: [u64::MAX >> (64 - line.num::<u32>("n")?.clamp(1, 64))],
            top_wake_affine: line.flag("top_wake_affine")?,
            cpus,
        })
    }
}

impl DeadlineFacts for DlLine {
    fn free(&self) -> CpuSet<'_> {
        CpuSet::new(&self.free)
    }
    fn latest(&self) -> Option<(usize, u64)> {
        let mut latest = None;
        for (cpu, deadline) in self.cpus.iter().enumerate().filter_map(|(cpu, at)| Some((cpu, at.earliest_deadline?))) {
            if latest.is_none_or(|(_, other)| dl_time_before(other, deadline)) {
                latest = Some((cpu, deadline));
            }
        }
        latest
    }
    fn earliest_deadline(&self, cpu: usize) -> Option<u64> {
        self.cpus[cpu].earliest_deadline
    }
    fn curr(&self, cpu: usize) -> Option<DlCurr> {
        self.cpus[cpu].curr
    }
    fn capacity_orig(&self, cpu: usize) -> u64 {
        self.cpus[cpu].capacity
    }
    fn asym_active(&self) -> bool {
        self.asym
    }
    fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)> {
        let low = self.low_spans.iter().find(|span| CpuSet::new(*span).contains(cpu));
        match (level, low) {
            (0, Some(span)) => Some((CpuSet::new(span), SD_WAKE_AFFINE)),
            (0, None) | (1, Some(_)) => {
                Some((CpuSet::new(&self.all), if self.top_wake_affine { SD_WAKE_AFFINE } else { 0 }))
            }
            _ => None,
        }
    }
}

fn run_dl_select(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (number, value) in source.json_lines()? {
        let line = Fields::new(source, number, &value);
        let machine = DlLine::read(&line)?;
        let fields = line.get("task")?;
        let mask = [fields.num::<u64>("mask")?];
        let task = DlTask {
            cpu: fields.num("cpu")?,
            allowed: CpuSet::new(&mask),
            nr_cpus_allowed: mask[0].count_ones(),
            claim: DlClaim { deadline: fields.num("deadline")?, is_sugov: fields.flag("sugov")? },
            density: fields.num("density")?,
        };
        let this_cpu = line.num("this_cpu")?;
        let mut later_mask = CpuMask::default();
        let mut diff = Diff::default();

        diff.eq("cpudl_find", line.flag("cpudl_find")?, cpudl_find(&machine, &task, &mut later_mask));
        diff.eq("later_mask", line.num("later_mask")?, later_mask.as_set().word(0));
        let mut distribute = line.num("distribute_prev")?;
        let later = find_later_rq(&machine, &task, this_cpu, &mut distribute, &mut later_mask);
        diff.eq("find_later_rq", line.num("find_later_rq")?, later.map_or(-1, |cpu| cpu as i64));
        diff.eq("distribute_after_flr", line.num("distribute_after_flr")?, distribute);
        let preempts = machine.cpus[task.cpu].curr.is_some_and(|curr| task.claim.preempts(&curr.claim));
        diff.eq("preempt_curr", line.flag("preempt_curr")?, preempts);
        let mut distribute = line.num("distribute_prev")?;
        let select = if line.flag("ttwu")? {
            select_task_rq_dl(&machine, &task, this_cpu, &mut distribute, &mut later_mask)
        } else {
            task.cpu
        };
        diff.eq("select", line.num("select")?, select);
        diff.eq("distribute_after", line.num("distribute_after")?, distribute);
        tally.case(|| line.place(), diff.finish());
    }
    Ok(())
}
