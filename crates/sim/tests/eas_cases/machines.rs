//! The machines that the cases run on: two boards of the catalogue, one phone-like and one symmetric machine.
//!
//! All have WFI only ("all idle states disabled" leaves a real machine that one). The energy model is the registered
//! one, `power_uw`. A change of the clock takes its mean time.

use opplab_model::file::parse_machine;
use opplab_model::machine::{Cluster, Machine};

/// The four machines.
pub(crate) fn machines() -> Vec<Machine> {
    let juno_r0 = include_str!("../../../../python/opplab/data/machines/juno-r0.toml");
    let juno_r2 = include_str!("../../../../python/opplab/data/machines/juno-r2.toml");
    vec![board("juno-r0.toml", juno_r0), board("juno-r2.toml", juno_r2), phone(), symmetric()]
}

fn board(file: &str, text: &str) -> Machine {
    let mut machine = parse_machine(file, text).unwrap_or_else(|error| panic!("{error}"));
    // The cases judge decisions: no activation may miss its clock because one change took longest.
    machine.cpufreq.switch_quantiles.clear();
    for cluster in &mut machine.clusters {
        cluster.idle.truncate(1);
        cluster.cluster_idle.clear();
    }
    machine
}

/// The text of a cluster whose CPUs draw `coefficient` uW/MHz/V^2 between 600 mV at the lowest and `mv` at the highest
/// frequency.
fn cluster(name: &str, cpus: &str, capacity: u32, coefficient: u64, mv: u64, khz: &[u32]) -> String {
    let (low, high) = (khz[0], khz[khz.len() - 1]);
    let opp = |khz: &u32| {
        let mv = 600 + (mv - 600) * u64::from(khz - low) / u64::from(high - low);
        format!("{{ khz = {khz}, mv = {mv}, uw = {} }}", coefficient * u64::from(*khz) * mv * mv / 1_000_000_000)
    };
    let opps: Vec<String> = khz.iter().map(opp).collect();
    format!(
        "[[cluster]]\nname = \"{name}\"\ncpus = \"{cpus}\"\ncapacity = {capacity}\npolicy = \"shared\"\nopp = [{}]\n\
         idle = [{{ name = \"WFI\", entry_latency_us = 0, exit_latency_us = 1, target_residency_us = 1, uw = 1000 }}]\n",
        opps.join(", ")
    )
}

/// A machine with one last-level cache and fast frequency switches.
fn machine(name: &str, cpus: &str, clusters: &[String]) -> Machine {
    let text = format!(
        "format = 1\nname = \"{name}\"\ninvariance = \"freq-change\"\n\
         [[driver]]\nname = \"qcom-cpufreq-hw\"\ntransition_latency_us = 500\nfast_switch = true\nswitch_us = 20\n\
         dvfs_possible_from_any_cpu = true\n\
         [costs]\ncontext_switch_ns = 1500\nwakeup_ns = 800\nipi_ns = 800\ntick_ns = 1500\nsugov_work_us = 10\n\
         [topology]\nllc = [\"{cpus}\"]\n{}",
        clusters.concat()
    );
    board(name, &text)
}

/// Three classes of capacity 261, 861 and 1024: 4 + 3 + 1 CPUs behind one last-level cache, as the Pixel 4's
/// (frequencies: Linux 6.12 sm8150.dtsi, every second OPP or so; power is assumed, such that the smaller of two CPUs is
/// the cheaper one where both fit).
fn phone() -> Machine {
    let silver = [300_000, 499_200, 672_000, 844_800, 1_036_800, 1_209_600, 1_382_400, 1_555_200, 1_785_600];
    let gold = [710_400, 940_800, 1_171_200, 1_401_600, 1_612_800, 1_804_800, 2_016_000, 2_227_200, 2_419_200];
    let prime = [825_600, 1_056_000, 1_286_400, 1_497_600, 1_708_800, 1_920_000, 2_227_200, 2_534_400, 2_841_600];
    let clusters = [
        cluster("silver", "0-3", 261, 80, 850, &silver),
        cluster("gold", "4-6", 861, 369, 900, &gold),
        cluster("prime", "7", 1024, 421, 950, &prime),
    ];
    machine("pixel4-like", "0-7", &clusters)
}

/// Four equal CPUs: no energy-aware scheduling, by the kernel's rules.
fn symmetric() -> Machine {
    let khz = [600_000, 900_000, 1_200_000, 1_500_000, 1_800_000];
    machine("smp4", "0-3", &[cluster("cores", "0-3", 1024, 400, 950, &khz)])
}

/// Distinct capacities, ascending.
pub(crate) fn classes(machine: &Machine) -> Vec<u32> {
    let mut classes: Vec<u32> = machine.clusters.iter().map(|cluster| cluster.capacity).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The first cluster of a capacity.
pub(crate) fn cluster_of_class(machine: &Machine, capacity: u32) -> &Cluster {
    let position = machine.clusters.iter().position(|cluster| cluster.capacity == capacity);
    &machine.clusters[position.unwrap_or(0)]
}

/// CPUs of a capacity.
pub(crate) fn cpus_of_class(machine: &Machine, capacity: u32) -> Vec<u32> {
    (0..machine.nr_cpus() as u32).filter(|&cpu| machine.cluster_of(cpu).capacity == capacity).collect()
}

/// Index of the first task of the workload among the tasks of events: kthreads of slow frequency switches come first.
pub(crate) fn first_task(machine: &Machine, governor: &str) -> u32 {
    if governor == "schedutil" && !machine.cpufreq.fast_switch { machine.clusters.len() as u32 } else { 0 }
}
