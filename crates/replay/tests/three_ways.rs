//! Every governor, driven three ways with the same facts: by the engine, by an open loop over the engine's events, and
//! by `opplab host govern` in the engine's place. What they ask for is the same.
//!
//! The machine has what has driven them apart before: acpi-cpufreq's table, which descends, so that a frequency half way
//! between two entries is the higher one, and a maximum above it that CPPC tells.

use std::collections::BTreeMap;
use std::path::Path;

use opplab_host::govern::decide::{Governor, Input, Setup as GovernSetup};
use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::cpufreq::facts::{CpuFacts, RqFacts};
use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpufreq::governor::Worker;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::cpufreq::schedutil::BW_SHIFT;
use opplab_kernel::unit::tick_nsec;
use opplab_model::file::parse_machine;
use opplab_model::governor::governor_setup;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::policy_values::EnergyModelSource;
use opplab_model::rtapp::{CompileOptions, ParseOptions, load};
use opplab_model::workload::Workload;
use opplab_replay::events::{Simulated, What};
use opplab_replay::{Events, Replay, Setup};
use opplab_sim::hooks::{GovernorFacts, Hooks};
use opplab_sim::{Case, Start, Wakes, run_from, run_with};

const MS: u64 = 1_000_000;
const DURATION_NS: u64 = 2_000 * MS;
/// Until then governors find their way from the start, which each may know another way.
const SETTLED_NS: u64 = 500 * MS;

/// Two CPUs with a clock each; P0 is 3 GHz, and CPPC tells 4 GHz.
const ACPI: &str = r#"
format = 1
name = "acpi"
provenance = "made up for this test"
invariance = "counters-at-tick"
pm_profile = "enterprise-server"
floor_uw = 0

[topology]
core = ["0", "1"]
llc = ["0-1"]
package = ["0-1"]

[[driver]]
name = "acpi-cpufreq"
transition_latency_ns = 0
fast_switch = true
switch_ns = 0
dvfs_possible_from_any_cpu = false
freq_table = true

[costs]
context_switch_us = 1
wakeup_ns = 500
ipi_ns = 500
tick_us = 1
sugov_work_us = 0

[processor]
vendor = "GenuineIntel"
family = 6
model = 85
stepping = 0
model_name = "none"

[[cluster]]
name = "all"
cpus = "0-1"
capacity = 1024
policy = "cpu"
opp = [
  { khz = 1000000, uw = 0, busy_uw = 1000000, cluster_uw = 0 },
  { khz = 2000000, uw = 0, busy_uw = 2000000, cluster_uw = 0 },
  { khz = 3000000, uw = 0, busy_uw = 4000000, cluster_uw = 0 },
]
idle = [
  { name = "C1", entry_latency_ns = 0, exit_latency_us = 1, target_residency_us = 2, uw = 100000 },
]
cppc = { highest_perf = 200, nominal_perf = 150, lowest_nonlinear_perf = 50, lowest_perf = 50, lowest_freq_mhz = 0, nominal_freq_mhz = 0 }
base_khz = 3000000
"#;

/// On CPU 0 half the time at 3 GHz, which ondemand takes for 2.5 GHz, half way between two entries; on CPU 1 a fifth.
/// Steady loads: a sample that begins at another time finds the same.
const WORKLOAD: &str = r#"{"tasks": {
    "half": {"loop": -1, "cpus": [0], "phases": {"p": {"run": 5050, "timer": {"ref": "unique", "period": 10000}}}},
    "fifth": {"loop": -1, "cpus": [1], "phases": {"p": {"run": 2020, "timer": {"ref": "unique", "period": 10000}}}}},
    "global": {"duration": 2, "calibration": 1}}"#;

fn machine(name: &str) -> Machine {
    if name == "acpi" {
        return parse_machine("acpi.toml", ACPI).unwrap_or_else(|error| panic!("{error}"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/opplab/data/machines").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_machine(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn workload(machine: &Machine) -> Workload {
    let capacities: Vec<u32> = (0..machine.nr_cpus() as u32).map(|cpu| machine.cluster_of(cpu).capacity).collect();
    let options = CompileOptions { name: "two", machine: "", capacities: &capacities };
    load("two.json", WORKLOAD, ParseOptions::default(), &options).unwrap_or_else(|error| panic!("{error}"))
}

fn policy(governor: &str, kernel: &str, tunables: &[(&str, &str)]) -> Policy {
    Policy {
        governor: governor.into(),
        kernel: kernel.into(),
        tunables: tunables.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        energy_model: EnergyModelSource::None,
        ..Policy::default()
    }
}

/// What was asked for of each CPU after governors have found their way: times and kHz.
type Requests = BTreeMap<u32, Vec<(u64, u32)>>;

/// Of each policy's first CPU: what holds when governors have settled, and what follows.
fn requests(events: &Events, machine: &Machine) -> Requests {
    let mut asked = Requests::new();
    for (_, cpus) in machine.policies() {
        let mut held = (SETTLED_NS, 0);
        let mut list: Vec<(u64, u32)> = Vec::new();
        for ev in &events.list {
            match ev.what {
                What::Frequency { cpu, freq_khz } if cpu == cpus[0] && ev.time_ns < SETTLED_NS => held.1 = freq_khz,
                What::Frequency { cpu, freq_khz } if cpu == cpus[0] => list.push((ev.time_ns, freq_khz)),
                _ => {}
            }
        }
        list.insert(0, held);
        list.dedup_by_key(|&mut (_, khz)| khz);
        asked.insert(cpus[0], list);
    }
    asked
}

/// How long each frequency was asked for, ns by kHz.
fn held_ns(requests: &[(u64, u32)]) -> BTreeMap<u32, u64> {
    let mut held = BTreeMap::new();
    for (index, &(since_ns, khz)) in requests.iter().enumerate() {
        let until_ns = requests.get(index + 1).map_or(DURATION_NS, |&(next_ns, _)| next_ns);
        *held.entry(khz).or_default() += until_ns.saturating_sub(since_ns);
    }
    held
}

/// `govern` in the engine's place.
struct Govern<'a> {
    machine: &'a Machine,
    policy: &'a Policy,
    governors: BTreeMap<u32, Governor>,
}

impl Govern<'_> {
    /// As sysfs of such a machine tells it.
    fn start(&self, facts: &GovernorFacts) -> Governor {
        let driver = &self.machine.cpufreq;
        let first = facts.cpus[0].cpu;
        let cluster = self.machine.cpus[first as usize].cluster;
        let told = governor_setup(self.machine, driver, self.policy, cluster, facts.cpus.len()).expect("a setup");
        let mut table_khz = facts.table_khz.clone();
        if driver.driver.kind == DriverKind::Acpi {
            // scaling_available_frequencies has the table's order.
            table_khz.reverse();
        }
        let rate_limit_us = told.rate_limit_us();
        let setup = GovernSetup {
            governor: self.policy.governor_id().expect("a governor"),
            tunables: self.policy.tunables.clone(),
            policy: first,
            cpus: facts.cpus.iter().map(|cpu| cpu.cpu).collect(),
            cpuinfo: FreqLimits { max_khz: cpuinfo_max_khz(self.machine, self.policy), min_khz: facts.min_khz },
            limits: FreqLimits { min_khz: facts.min_khz, max_khz: facts.max_khz },
            table_khz,
            rate_limit_us,
            sampling_rate_us: rate_limit_us.max((2 * tick_nsec(self.policy.hz.into()) / 1000) as u32),
            tick_ns: tick_nsec(self.policy.hz.into()),
            kernel: self.policy.kernel.clone(),
            freq_ref_khz: if self.machine.name == "acpi" { 0 } else { facts.freq_ref_khz },
            freq_invariant: facts.freq_invariant,
            source: String::new(),
            via: String::new(),
            cur_khz: facts.cur_khz,
            times: facts.cpus.iter().map(|cpu| cpu.times).collect(),
        };
        Governor::new(&setup).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// What `cpuinfo_max_freq` shows: with CPPC's boost, 200/150 of P0, from v5.12 on.
fn cpuinfo_max_khz(machine: &Machine, policy: &Policy) -> u32 {
    let p0_khz = machine.clusters[0].opps.last().map_or(0, |opp| opp.khz);
    match machine.name.as_str() {
        "acpi" if policy.kernel != "5.9" => 3_999_023,
        _ => p0_khz,
    }
}

impl Hooks for Govern<'_> {
    fn governs(&self) -> bool {
        true
    }

    fn freq_khz(&mut self, facts: &GovernorFacts) -> Result<Option<u32>, String> {
        let first = facts.cpus[0].cpu;
        let samples = ["ondemand", "conservative"].contains(&self.policy.governor.as_str());
        if !self.governors.contains_key(&first) {
            self.governors.insert(first, self.start(facts));
            // The engine's samplers begin to watch with the first report.
            if samples {
                return Ok(None);
            }
        }
        let governor = self.governors.get_mut(&first).expect("was started");
        let of_cpu = |cpu: &opplab_sim::hooks::GovernorCpu| CpuFacts {
            rq: RqFacts {
                capacity: cpu.capacity,
                util_rt: cpu.util_rt,
                util_dl: cpu.util_dl,
                util_irq: cpu.util_irq,
                dl_running_bw: cpu.bw_dl << (BW_SHIFT - 10),
                uclamp_min: cpu.uclamp_min,
                uclamp_max: cpu.uclamp_max,
                uclamp_used: cpu.uclamp_used,
                rt_runnable: cpu.rt_runnable,
            },
            util_cfs: cpu.util_cfs,
            util_cfs_boost: cpu.util_cfs_boost,
            idle_calls: cpu.idle_calls,
        };
        let output = governor.decide(&Input {
            time_ns: facts.time_ns,
            cpu: facts.cpus.iter().position(|cpu| cpu.cpu == facts.cpu).unwrap_or(0),
            cur_khz: facts.cur_khz,
            limits: FreqLimits { min_khz: facts.min_khz, max_khz: facts.max_khz },
            facts: facts.cpus.iter().map(of_cpu).collect(),
            times: facts.cpus.iter().map(|cpu| cpu.times).collect(),
        });
        Ok(Some(output.next_khz).filter(|&khz| khz > 0))
    }
}

/// The three ways.
struct Ways {
    engine: Requests,
    govern: Requests,
    open: Requests,
}

fn ways(machine: &Machine, policy: &Policy) -> Ways {
    let case = Case {
        machine: machine.clone(),
        workload: workload(machine),
        policy: policy.clone(),
        seed: 1,
        duration_ns: DURATION_NS,
    };
    let sink = || Simulated::new(machine.nr_cpus(), !machine.cpufreq.freq_table);
    let mut by_engine = sink();
    let outcome = run_from(&case, &Start::default(), &mut by_engine).unwrap_or_else(|error| panic!("{error:?}"));
    let events = by_engine.finish(&outcome.task_names, DURATION_NS);
    let mut by_govern = sink();
    let mut hooks = Govern { machine, policy, governors: BTreeMap::new() };
    let outcome =
        run_with(&case, &Start::default(), &mut by_govern, &mut hooks).unwrap_or_else(|error| panic!("{error:?}"));
    let governed = by_govern.finish(&outcome.task_names, DURATION_NS);
    let start_khz = machine.policies().iter().map(|(c, _)| machine.clusters[*c as usize].opps[0].khz).collect();
    let setup = Setup {
        machine: machine.clone(),
        policy: policy.clone(),
        start_khz,
        known_from_ns: machine.policies().iter().map(|_| Some(0)).collect(),
        run_per_100k: 100_000,
        switch_ns: machine.costs.context_switch_ns,
        governor_known: true,
        wakes: Wakes::default(),
        notes: Vec::new(),
    };
    let engine = requests(&events, machine);
    let replay = Replay::of(events, setup).unwrap_or_else(|error| panic!("{error}"));
    let replayed = replay.open_events(policy).unwrap_or_else(|error| panic!("{error}"));
    Ways { engine, govern: requests(&governed, machine), open: requests(&replayed, machine) }
}

#[test]
fn every_governor_asks_for_the_same_three_ways() {
    // Android's 4.14 has a rate limit of its own for each direction, which is what it is here for.
    for (name, kernel) in
        [("acpi", "6.12.117"), ("acpi", "5.9"), ("acpi", "4.14-android"), ("juno-r2.toml", "6.12.117")]
    {
        let machine = machine(name);
        let all = kernel != "4.14-android";
        for governor in GovernorId::all().filter(|governor| all || governor.worker == Worker::Kthread) {
            let long = [("sampling_rate", "40000")];
            let directions = [("up_rate_limit_us", "40000"), ("down_rate_limit_us", "500")];
            // In one step: of several, a sample that comes some us later than the other's ends the climb one lower, for good.
            let steep = [long[0], ("freq_step", "100")];
            let tunables: &[(&str, &str)] = match (governor.worker, kernel) {
                (Worker::Kworker, _) if governor.name == "conservative" => &steep,
                (Worker::Kworker, _) => &long,
                (Worker::Kthread, "4.14-android") => &directions,
                _ => &[],
            };
            let found = ways(&machine, &policy(governor.name, kernel, tunables));
            let what = format!("{governor} on {name} under {kernel}");
            // The engine asks an outside governor at other times than its kworker samples, so that ondemand's load is another:
            // there the open loop is compared only.
            if governor.worker != Worker::Kworker {
                assert_eq!(found.engine, found.govern, "{what}: govern");
            }
            // The open loop rebuilds utilisation and the times of reports, so that some requests come later or earlier; another
            // table, limit or rate changes most of them.
            for (cpu, requests) in &found.engine {
                let recorded = held_ns(requests);
                let replayed = held_ns(&found.open[cpu]);
                let other_ns: u64 =
                    recorded.iter().map(|(khz, ns)| ns.abs_diff(*replayed.get(khz).unwrap_or(&0))).sum();
                let permille = other_ns * 1000 / (DURATION_NS - SETTLED_NS);
                println!("{what}: CPU {cpu}: {permille} of 1000 at another frequency");
                assert!(permille <= 100, "{what}: CPU {cpu}: engine {recorded:?}, open loop {replayed:?}");
            }
        }
    }
}
