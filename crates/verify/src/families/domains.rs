//! Families of vectors: where deadline tasks wake, and the scheduling domains of a topology.

use opplab_kernel::profile::BalanceThresholds;
use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};
use opplab_kernel::sched::deadline::{
    DeadlineFacts, DlClaim, DlCurr, DlTask, cpudl_find, dl_time_before, find_later_rq, select_task_rq_dl,
};
use opplab_kernel::sched::domains::{RECLAIM_DISTANCE, SD_WAKE_AFFINE, SchedDomains, Topology};

use crate::json::Json;
use crate::{Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] =
    &[Family { name: "dl_select", run: run_dl_select }, Family { name: "sched_domains", run: run_sched_domains }];

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
    source.each_line(tally, |line, diff| {
        let machine = DlLine::read(line)?;
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
        Ok(())
    })
}

/// The topology of a row: threads, cores, clusters, caches, nodes and packages nest, and are counted in this order. The CPUs of
/// the second half are bigger on an asymmetric machine.
fn topology_of(row: &Row<'_>) -> Result<Topology, VerifyError> {
    let size = |column: &str| Ok::<u32, VerifyError>(row.num::<u32>(column)?.max(1));
    let (smt, cores, clusters) = (size("smt")?, size("cores_per_cluster")?, size("clusters_per_llc")?);
    let (llcs, packages, nodes) = (size("llcs_per_pkg")?, size("packages")?, size("numa_nodes_per_pkg")?);
    let per_cluster = smt * cores;
    let per_llc = per_cluster * clusters;
    let per_package = per_llc * llcs;
    let per_node = (per_package / nodes).max(1);
    let n_cpus = per_package * packages;
    let n_nodes = packages * nodes;
    let outer = row.num("numa_distance")?;
    let by = |divisor: u32| (0..n_cpus).map(|cpu| cpu / divisor).collect::<Vec<u32>>();
    let distance = |from: u32, to: u32| match (from == to, from / nodes == to / nodes) {
        (true, _) => 10,
        // Nodes of one package are near each other, whatever the exact number.
        (false, true) => 11,
        (false, false) => outer,
    };
    let pairs = (0..n_nodes).flat_map(|from| (0..n_nodes).map(move |to| (from, to)));
    let asym = row.flag("asym")?;
    Ok(Topology {
        excluded: Vec::new(),
        core: by(smt),
        cluster: by(per_cluster),
        llc: by(per_llc),
        node: by(per_node),
        node_distance: pairs.map(|(from, to)| distance(from, to)).collect(),
        numa_in_package: nodes > 1,
        capacity: (0..n_cpus).map(|cpu| if asym && cpu < n_cpus / 2 { 512 } else { 1024 }).collect(),
        asym_priority: row.flag("itmt")?.then(|| (0..n_cpus as i32).collect()),
        node_reclaim_distance: RECLAIM_DISTANCE,
    })
}

fn run_sched_domains(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let domains = SchedDomains::build(&topology_of(row)?);
        let (cpu, level) = (row.num("cpu")?, row.num("level_index")?);
        let view = domains.view(cpu, level);
        diff.eq("level exists", true, view.is_some());
        if let (Some(domain), Some(view)) = (domains.domain(cpu, level), view) {
            let hex = |flags: u32| format!("{flags:x}");
            diff.eq("name", row.str("name")?, domain.name);
            diff.eq("span_weight", row.num("span_weight")?, domain.span_weight);
            diff.eq("groups", row.num("groups")?, domain.groups.len());
            diff.eq("flags_hex", row.str("flags_hex")?, &hex(domain.flags));
            let group_flags = view.ring().next().map_or(0, |group| group.flags);
            diff.eq("group_flags_hex", row.str("group_flags_hex")?, &hex(group_flags));
            diff.eq("imbalance_pct", row.num("imbalance_pct")?, domain.imbalance_pct);
            diff.eq("cache_nice_tries", row.num("cache_nice_tries")?, domain.cache_nice_tries);
            diff.eq("imb_numa_nr", row.num("imb_numa_nr")?, domain.imb_numa_nr);
            let balance = SchedDomains::initial_balance(domain, 0, BalanceThresholds::Narrow);
            diff.eq("busy_factor", row.num("busy_factor")?, balance.busy_factor);
            diff.eq("min_interval_ms", row.num("min_interval_ms")?, balance.pass.min_interval);
            diff.eq("max_interval_ms", row.num("max_interval_ms")?, balance.pass.max_interval);
            diff.eq("balance_interval_ms", row.num("balance_interval_ms")?, balance.pass.balance_interval);
            diff.eq("newidle_call", row.num("newidle_call")?, balance.newidle_call);
            diff.eq("newidle_success", row.num("newidle_success")?, balance.newidle_success);
            diff.eq("newidle_ratio", row.num("newidle_ratio")?, balance.newidle_ratio);
        }
        Ok(())
    })
}
