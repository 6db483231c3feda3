//! Families of vectors: the fixed-point division by a weight, and where a waking task goes.

use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::placement::{
    Clamps, CpuCapacity, SiblingFacts, SiblingQuery, WakeAffineFacts, select_idle_sibling, util_fits_cpu, wake_affine,
    wake_wide,
};
use opplab_kernel::sched::weight::{
    LoadWeight, SCHED_PRIO_TO_WEIGHT, SCHED_PRIO_TO_WMULT, calc_delta, calc_delta_fair,
};

use crate::fields::{Fields, families, read, same, take};
use crate::json::Json;
use crate::{Compared, Diff, Row, VerifyError};

families! {
    Rows cfs_calc_delta: run_calc_delta, Rows util_fits_cpu: util_fits_cpu_v612, Rows util_fits_cpu_v61,
    Rows wake_affine: run_wake_affine, Lines select_idle_sibling: run_select_idle_sibling,
}

fn run_calc_delta(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let mut lw = LoadWeight::new(row.field("lw_weight")?);
    let delta = row.field::<u64>("delta_or_index")?;
    match row.str("kind")? {
        "prio_table" => {
            let index = delta as usize;
            let weight = SCHED_PRIO_TO_WEIGHT.get(index).copied().map(u64::from);
            diff.eq("weight", Some(row.field("weight")?), weight);
            diff.eq("out", Some(row.field("out")?), SCHED_PRIO_TO_WMULT.get(index).copied());
        }
        "calc_delta_fair" => {
            same!(diff, row => { out: calc_delta_fair(delta, &mut lw), inv_weight: lw.inv_weight });
        }
        _ => {
            same!(diff, row => {
                out: calc_delta(delta, row.field("weight")?, &mut lw), inv_weight: lw.inv_weight,
            });
        }
    }
    Ok(())
}

/// v6.1 knows no pressure by a lowered maximum frequency, and calls that of the hardware thermal.
fn util_fits_cpu_v61(row: &Row<'_>, diff: &mut Diff) -> Compared {
    fits(row, diff, row.field("thermal_pressure")?, 0)
}

fn util_fits_cpu_v612(row: &Row<'_>, diff: &mut Diff) -> Compared {
    fits(row, diff, row.field("hw_pressure")?, row.field("cpufreq_pressure")?)
}

fn fits(row: &Row<'_>, diff: &mut Diff, hw_pressure: u64, cpufreq_pressure: u64) -> Compared {
    take!(row => orig: "cap_orig", of: "cpu_capacity");
    let capacity = CpuCapacity { orig, of, hw_pressure, cpufreq_pressure };
    let clamps = read!(row => Clamps { min: "uclamp_min", max: "uclamp_max", ..Clamps::NONE });
    let clamps = row.field::<bool>("uclamp_used")?.then_some(clamps);
    same!(diff, row => { fits: util_fits_cpu(row.field("util")?, clamps, &capacity) });
    Ok(())
}

fn run_wake_affine(row: &Row<'_>, diff: &mut Diff) -> Compared {
    take!(row => waker_flips, wakee_flips, llc_size);
    let facts = read!(row => WakeAffineFacts {
        this_idle, prev_idle, share_cache, sync, nr_running_this, nr_delayed_this, this_load, prev_load,
        task_load, current_load, this_capacity, prev_capacity, imbalance_pct, stays_on_idle_prev = true,
    });
    let result = if wake_affine(&facts).0 { "this" } else { "prev" };
    same!(diff, row => { wake_wide: wake_wide(waker_flips, wakee_flips, llc_size) });
    diff.eq("wake_affine_result", row.str("wake_affine_result")?, result);
    Ok(())
}

/// The machine of one line of `select_idle_sibling`: bitmasks of at most 64 CPUs.
struct SiblingLine {
    idle: [u64; 1],
    idle_or_sched_idle: [u64; 1],
    all: [u64; 1],
    llc: Vec<usize>,
    llc_spans: Vec<[u64; 1]>,
    smt: Vec<[u64; 1]>,
    smt_active: bool,
    asym: bool,
    has_idle_cores: Vec<bool>,
    nr_idle_scan: Vec<u32>,
    capacity: Vec<CpuCapacity>,
}

impl SiblingLine {
    fn read(line: Json<'_>) -> Result<Self, VerifyError> {
        let n: usize = line.field("n")?;
        let llc: Vec<usize> = line.field("llc")?;
        let mut llc_spans = vec![[0]; 64];
        for (cpu, &id) in llc.iter().enumerate() {
            llc_spans[id % 64][0] |= 1 << (cpu % 64);
        }
        let idle: u64 = line.field("idle")?;
        let asym = line.field("asym")?;
        let capacity = if asym {
            let (orig, of): (Vec<u64>, Vec<u64>) = (line.field("cap_orig")?, line.field("capacity")?);
            let of_cpu = |(&orig, &of)| CpuCapacity { orig, of, hw_pressure: 0, cpufreq_pressure: 0 };
            orig.iter().zip(&of).map(of_cpu).collect()
        } else {
            Vec::new()
        };
        Ok(read!(line => Self {
            idle = [idle], idle_or_sched_idle = [idle | line.field::<u64>("sched_idle")?],
            all = [u64::MAX >> (64 - n.clamp(1, 64))], llc = llc, llc_spans = llc_spans,
            smt = line.field::<Vec<u64>>("smt_mask")?.into_iter().map(|mask| [mask]).collect(), smt_active,
            asym = asym,
            has_idle_cores, nr_idle_scan, capacity = capacity,
        }))
    }
}

impl SiblingFacts for SiblingLine {
    fn idle(&self) -> CpuSet<'_> {
        CpuSet::new(&self.idle)
    }
    fn idle_or_sched_idle(&self) -> CpuSet<'_> {
        CpuSet::new(&self.idle_or_sched_idle)
    }
    fn llc_span(&self, cpu: usize) -> Option<CpuSet<'_>> {
        Some(CpuSet::new(&self.llc_spans[self.llc[cpu]]))
    }
    fn share_cache(&self, one: usize, other: usize) -> bool {
        self.llc[one] == self.llc[other]
    }
    fn smt_mask(&self, cpu: usize) -> CpuSet<'_> {
        CpuSet::new(&self.smt[cpu])
    }
    fn smt_active(&self) -> bool {
        self.smt_active
    }
    fn has_idle_cores(&self, cpu: usize) -> bool {
        self.has_idle_cores[self.llc[cpu]]
    }
    fn nr_idle_scan(&self, cpu: usize) -> Option<u32> {
        Some(self.nr_idle_scan[self.llc[cpu]])
    }
    fn asym_span(&self, _cpu: usize) -> Option<CpuSet<'_>> {
        Some(CpuSet::new(&self.all))
    }
    fn asym_active(&self) -> bool {
        self.asym
    }
    fn capacity(&self, cpu: usize) -> CpuCapacity {
        self.capacity[cpu]
    }
}

fn run_select_idle_sibling(line: Json<'_>, diff: &mut Diff) -> Compared {
    let mut machine = SiblingLine::read(line)?;
    let (util, clamps) = if machine.asym {
        let clamps = line.get("uclamp")?;
        let clamps = read!(clamps => Clamps { min: 0, max: 1, ..Clamps::NONE });
        let util = line.field::<u64>("util_avg")?.max(line.field("util_est")?);
        (util, line.field::<bool>("uclamp_used")?.then_some(clamps))
    } else {
        (0, None)
    };
    let affinity = [line.field::<u64>("affinity")?];
    let query = read!(line => SiblingQuery {
        prev, target, recent_used_cpu: "recent_used", allowed = CpuSet::new(&affinity), util = util,
        clamps = clamps, this_cpu, this_is_per_cpu_kthread, this_nr_running,
    });
    let choice = select_idle_sibling(&machine, &query);
    if choice.clear_idle_cores {
        machine.has_idle_cores[machine.llc[query.target]] = false;
    }
    let out = line.get("out")?;
    same!(diff, out => {
        cpu: choice.cpu, recent_used: choice.recent_used_cpu, has_idle_cores: machine.has_idle_cores,
    });
    Ok(())
}
