//! Families of vectors: the fixed-point division by a weight, and where a waking task goes.

use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::placement::{
    Clamps, CpuCapacity, SiblingFacts, SiblingQuery, WakeAffineFacts, select_idle_sibling, util_fits_cpu, wake_affine,
    wake_wide,
};
use opplab_kernel::sched::weight::{
    LoadWeight, SCHED_PRIO_TO_WEIGHT, SCHED_PRIO_TO_WMULT, calc_delta, calc_delta_fair,
};

use crate::json::Json;
use crate::{Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "cfs_calc_delta", run: run_calc_delta },
    Family { name: "util_fits_cpu", run: run_util_fits_cpu },
    Family { name: "util_fits_cpu_v61", run: run_util_fits_cpu_v61 },
    Family { name: "wake_affine", run: run_wake_affine },
    Family { name: "select_idle_sibling", run: run_select_idle_sibling },
];

fn run_calc_delta(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let mut lw = LoadWeight::new(row.num("lw_weight")?);
        let delta = row.num::<u64>("delta_or_index")?;
        match row.str("kind")? {
            "prio_table" => {
                let index = delta as usize;
                let weight = SCHED_PRIO_TO_WEIGHT.get(index).copied().map(u64::from);
                diff.eq("weight", Some(row.num("weight")?), weight);
                diff.eq("out", Some(row.num("out")?), SCHED_PRIO_TO_WMULT.get(index).copied());
            }
            "calc_delta_fair" => {
                diff.eq("out", row.num("out")?, calc_delta_fair(delta, &mut lw));
                diff.eq("inv_weight", row.num("inv_weight")?, lw.inv_weight);
            }
            _ => {
                diff.eq("out", row.num("out")?, calc_delta(delta, row.num("weight")?, &mut lw));
                diff.eq("inv_weight", row.num("inv_weight")?, lw.inv_weight);
            }
        }
        Ok(())
    })
}

/// v6.1 knows no pressure by a lowered maximum frequency, and calls that of the hardware thermal.
fn run_util_fits_cpu_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let capacity = CpuCapacity {
            orig: row.num("cap_orig")?,
            of: row.num("cpu_capacity")?,
            hw_pressure: row.num("thermal_pressure")?,
            cpufreq_pressure: 0,
        };
        let clamps = Clamps { min: row.num("uclamp_min")?, max: row.num("uclamp_max")?, ..Clamps::NONE };
        let clamps = row.flag("uclamp_used")?.then_some(clamps);
        diff.eq("fits", row.num("fits")?, util_fits_cpu(row.num("util")?, clamps, &capacity));
        Ok(())
    })
}

fn run_util_fits_cpu(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let capacity = CpuCapacity {
            orig: row.num("cap_orig")?,
            of: row.num("cpu_capacity")?,
            hw_pressure: row.num("hw_pressure")?,
            cpufreq_pressure: row.num("cpufreq_pressure")?,
        };
        let clamps = Clamps { min: row.num("uclamp_min")?, max: row.num("uclamp_max")?, ..Clamps::NONE };
        let clamps = row.flag("uclamp_used")?.then_some(clamps);
        diff.eq("fits", row.num("fits")?, util_fits_cpu(row.num("util")?, clamps, &capacity));
        Ok(())
    })
}

fn run_wake_affine(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let wide = wake_wide(row.num("waker_flips")?, row.num("wakee_flips")?, row.num("llc_size")?);
        let facts = WakeAffineFacts {
            this_idle: row.flag("this_idle")?,
            prev_idle: row.flag("prev_idle")?,
            share_cache: row.flag("share_cache")?,
            sync: row.flag("sync")?,
            nr_running_this: row.num("nr_running_this")?,
            nr_delayed_this: row.num("nr_delayed_this")?,
            this_load: row.num("this_load")?,
            prev_load: row.num("prev_load")?,
            task_load: row.num("task_load")?,
            current_load: row.num("current_load")?,
            this_capacity: row.num("this_capacity")?,
            prev_capacity: row.num("prev_capacity")?,
            imbalance_pct: row.num("imbalance_pct")?,
            stays_on_idle_prev: true,
        };
        let result = if wake_affine(&facts).0 { "this" } else { "prev" };
        diff.eq("wake_wide", row.flag("wake_wide")?, wide);
        diff.eq("wake_affine_result", row.str("wake_affine_result")?, result);
        Ok(())
    })
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
        let n: usize = line.num("n")?;
        let llc: Vec<usize> = line.nums("llc")?;
        let mut llc_spans = vec![[0]; 64];
        for (cpu, &id) in llc.iter().enumerate() {
            llc_spans[id % 64][0] |= 1 << (cpu % 64);
        }
        let idle: u64 = line.num("idle")?;
        let asym = line.flag("asym")?;
        let capacity = if asym {
            let (orig, of) = (line.nums::<u64>("cap_orig")?, line.nums::<u64>("capacity")?);
            let of_cpu = |(&orig, &of)| CpuCapacity { orig, of, hw_pressure: 0, cpufreq_pressure: 0 };
            orig.iter().zip(&of).map(of_cpu).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            idle: [idle],
            idle_or_sched_idle: [idle | line.num::<u64>("sched_idle")?],
            all: [u64::MAX >> (64 - n.clamp(1, 64))],
            llc,
            llc_spans,
            smt: line.nums::<u64>("smt_mask")?.into_iter().map(|mask| [mask]).collect(),
            smt_active: line.flag("smt_active")?,
            asym,
            has_idle_cores: line.nums::<u64>("has_idle_cores")?.into_iter().map(|flag| flag != 0).collect(),
            nr_idle_scan: line.nums("nr_idle_scan")?,
            capacity,
        })
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

fn run_select_idle_sibling(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |line, diff| {
        let mut machine = SiblingLine::read(line)?;
        let (util, clamps) = if machine.asym {
            let clamps = line.get("uclamp")?;
            let clamps = Clamps { min: clamps.nth(0)?, max: clamps.nth(1)?, ..Clamps::NONE };
            let util = line.num::<u64>("util_avg")?.max(line.num("util_est")?);
            (util, line.flag("uclamp_used")?.then_some(clamps))
        } else {
            (0, None)
        };
        let affinity = [line.num::<u64>("affinity")?];
        let query = SiblingQuery {
            prev: line.num("prev")?,
            target: line.num("target")?,
            recent_used_cpu: line.num("recent_used")?,
            allowed: CpuSet::new(&affinity),
            util,
            clamps,
            this_cpu: line.num("this_cpu")?,
            this_is_per_cpu_kthread: line.flag("this_is_per_cpu_kthread")?,
            this_nr_running: line.num("this_nr_running")?,
        };
        let choice = select_idle_sibling(&machine, &query);
        if choice.clear_idle_cores {
            machine.has_idle_cores[machine.llc[query.target]] = false;
        }
        let out = line.get("out")?;
        diff.eq("cpu", out.num("cpu")?, choice.cpu);
        diff.eq("recent_used", out.num("recent_used")?, choice.recent_used_cpu);
        let flags: Vec<bool> = out.nums::<u64>("has_idle_cores")?.into_iter().map(|flag| flag != 0).collect();
        diff.eq("has_idle_cores", &flags, &machine.has_idle_cores);
        Ok(())
    })
}
