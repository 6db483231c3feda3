//! Families of vectors: where deadline tasks wake, and the scheduling domains of a topology.

use opplab_kernel::profile::BalanceThresholds;
use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};
use opplab_kernel::sched::deadline::{
    DeadlineFacts, DlClaim, DlCurr, DlTask, cpudl_find, dl_time_before, find_later_rq, select_task_rq_dl,
};
use opplab_kernel::sched::domains::{RECLAIM_DISTANCE, SD_WAKE_AFFINE, SchedDomains, Topology};

use crate::fields::{Fields, families, read, same};
use crate::json::Json;
use crate::{Compared, Diff, Row, VerifyError};

families! { Lines dl_select, Rows sched_domains }

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
    fn read(line: Json<'_>) -> Result<Self, VerifyError> {
        let mut cpus = Vec::new();
        for cpu in line.get("cpus")?.items()? {
            let claim = read!(cpu => DlClaim { deadline: 4, is_sugov: 6 });
            let curr = DlCurr { claim, nr_cpus_allowed: cpu.field(5)? };
            cpus.push(DlCpu {
                capacity: cpu.field(0)?,
                earliest_deadline: (cpu.field::<bool>(1)?).then_some(cpu.field(2)?),
                curr: (cpu.field::<bool>(3)?).then_some(curr),
            });
        }
        let free = cpus.iter().enumerate().filter(|(_, cpu)| cpu.earliest_deadline.is_none());
        Ok(read!(line => Self {
            free = [free.fold(0, |mask, (cpu, _)| mask | 1 << cpu)], asym,
            low_spans = line.field::<Vec<u64>>("low_span")?.into_iter().map(|span| [span]).collect(),
            all = [u64::MAX >> (64 - line.field::<u32>("n")?.clamp(1, 64))], top_wake_affine, cpus = cpus,
        }))
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

fn dl_select(line: Json<'_>, diff: &mut Diff) -> Compared {
    let machine = DlLine::read(line)?;
    let fields = line.get("task")?;
    let mask = [fields.field::<u64>("mask")?];
    let task = read!(fields => DlTask {
        cpu, allowed = CpuSet::new(&mask), nr_cpus_allowed = mask[0].count_ones(),
        claim = read!(fields => DlClaim { deadline, is_sugov: "sugov" }), density,
    });
    let this_cpu = line.field("this_cpu")?;
    let mut later_mask = CpuMask::default();

    same!(diff, line => {
        cpudl_find: cpudl_find(&machine, &task, &mut later_mask), later_mask: later_mask.as_set().word(0),
    });
    let mut distribute = line.field("distribute_prev")?;
    let later = find_later_rq(&machine, &task, this_cpu, &mut distribute, &mut later_mask);
    same!(diff, line => { find_later_rq: later, distribute_after_flr: distribute });
    let preempts = machine.cpus[task.cpu].curr.is_some_and(|curr| task.claim.preempts(&curr.claim));
    same!(diff, line => { preempt_curr: preempts });
    let mut distribute = line.field("distribute_prev")?;
    let select = if line.field("ttwu")? {
        select_task_rq_dl(&machine, &task, this_cpu, &mut distribute, &mut later_mask)
    } else {
        task.cpu
    };
    same!(diff, line => { select, distribute_after: distribute });
    Ok(())
}

/// The topology of a row: threads, cores, clusters, caches, nodes and packages nest, and are counted in this order. The CPUs of
/// the second half are bigger on an asymmetric machine.
fn topology_of(row: &Row<'_>) -> Result<Topology, VerifyError> {
    let size = |column: &str| Ok::<u32, VerifyError>(row.field::<u32>(column)?.max(1));
    let (smt, cores, clusters) = (size("smt")?, size("cores_per_cluster")?, size("clusters_per_llc")?);
    let (llcs, packages, nodes) = (size("llcs_per_pkg")?, size("packages")?, size("numa_nodes_per_pkg")?);
    let per_cluster = smt * cores;
    let per_llc = per_cluster * clusters;
    let per_package = per_llc * llcs;
    let per_node = (per_package / nodes).max(1);
    let n_cpus = per_package * packages;
    let n_nodes = packages * nodes;
    let outer = row.field("numa_distance")?;
    let by = |divisor: u32| (0..n_cpus).map(|cpu| cpu / divisor).collect::<Vec<u32>>();
    let distance = |from: u32, to: u32| match (from == to, from / nodes == to / nodes) {
        (true, _) => 10,
        // Nodes of one package are near each other, whatever the exact number.
        (false, true) => 11,
        (false, false) => outer,
    };
    let pairs = (0..n_nodes).flat_map(|from| (0..n_nodes).map(move |to| (from, to)));
    let asym = row.field("asym")?;
    Ok(Topology {
        excluded: Vec::new(),
        core: by(smt),
        cluster: by(per_cluster),
        llc: by(per_llc),
        node: by(per_node),
        node_distance: pairs.map(|(from, to)| distance(from, to)).collect(),
        numa_in_package: nodes > 1,
        capacity: (0..n_cpus).map(|cpu| if asym && cpu < n_cpus / 2 { 512 } else { 1024 }).collect(),
        asym_priority: row.field::<bool>("itmt")?.then(|| (0..n_cpus as i32).collect()),
        node_reclaim_distance: RECLAIM_DISTANCE,
    })
}

fn sched_domains(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let domains = SchedDomains::build(&topology_of(row)?);
    let (cpu, level) = (row.field("cpu")?, row.field("level_index")?);
    let view = domains.view(cpu, level);
    diff.eq("level exists", true, view.is_some());
    if let (Some(domain), Some(view)) = (domains.domain(cpu, level), view) {
        let hex = |flags: u32| format!("{flags:x}");
        diff.eq("name", row.str("name")?, domain.name);
        same!(diff, row => { span_weight: domain.span_weight, groups: domain.groups.len() });
        diff.eq("flags_hex", row.str("flags_hex")?, &hex(domain.flags));
        let group_flags = view.ring().next().map_or(0, |group| group.flags);
        diff.eq("group_flags_hex", row.str("group_flags_hex")?, &hex(group_flags));
        same!(diff, row => {
            imbalance_pct: domain.imbalance_pct, cache_nice_tries: domain.cache_nice_tries,
            imb_numa_nr: domain.imb_numa_nr,
        });
        let balance = SchedDomains::initial_balance(domain, 0, BalanceThresholds::Narrow);
        same!(diff, row => {
            busy_factor: balance.busy_factor, min_interval_ms: balance.pass.min_interval,
            max_interval_ms: balance.pass.max_interval, balance_interval_ms: balance.pass.balance_interval,
            newidle_call: balance.newidle_call, newidle_success: balance.newidle_success,
            newidle_ratio: balance.newidle_ratio,
        });
    }
    Ok(())
}
