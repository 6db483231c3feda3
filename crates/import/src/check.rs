//! Consistency and known traps of a machine: each finding has its cost and a remedy.
//!
//! Findings come from what is known; a check whose facts a source lacks is silent.

use opplab_kernel::cpufreq::cppc::{artificial_em, squeeze_efficiency_classes};
use opplab_kernel::cpufreq::intel_pstate::PstatePolicy;
use opplab_kernel::energy_model::inefficient_points;
use opplab_model::cpus::format_cpu_list;
use opplab_model::machine::{Cluster, Machine};
use opplab_model::node_table;
use opplab_model::tree::Node;

use crate::facts::{CoreType, Facts, PolicyFacts};
use crate::fmax::{FmaxReport, acpi_max_khz};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Costs performance or energy.
    Warning,
    /// A mechanism does not work at all, or the source contradicts itself.
    Error,
}

impl Severity {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, with its numbers.
    pub what: String,
    /// What that costs.
    pub cost: String,
    /// What to do.
    pub remedy: String,
}

/// Names of all checks with what each looks at.
pub const CHECKS: &[(&str, &str)] = &[
    ("cpuinfo-max-freq", "cpuinfo_max_freq against P0 and CPPC"),
    ("opp-order", "power that falls or stands still as the frequency rises"),
    ("opp-inefficient", "OPPs that kernels pass over, as a faster one costs no more or as costs are rounded"),
    ("em-rejected", "an energy model that the kernel would refuse"),
    ("power-missing", "clusters without power beside others that have it"),
    ("artificial-em", "an artificial energy model that makes the kernel's search spin, or that it would refuse"),
    ("hybrid-capacity", "cores of several kinds that the kernel takes for alike"),
    ("eas-smt", "energy-aware scheduling on a machine with SMT"),
    ("invariance", "missing frequency invariance and its cause"),
    ("fmax", "an f_max that does not mean what it seems to"),
    ("turbo-off", "turbo or boost switched off"),
    ("turbo-unknown", "turbo or boost that is there, without its clocks"),
    ("freq-capped", "policies capped below what the hardware can do"),
    ("epp-governor", "EPP or EPB against the governor"),
    ("rate-limit", "schedutil's rate limit against the transition latency"),
    ("hwp-boost", "HWP on a server without dynamic boost"),
    ("shared-clock", "policies of their own on one clock"),
    ("idle-states", "idle states that are disabled or out of order"),
];

/// Looks at a machine, and at the facts that it was made of if there are any.
pub fn check(facts: Option<&Facts>, machine: &Machine, fmax: &FmaxReport) -> Vec<Finding> {
    let mut found = Vec::new();
    for cluster in &machine.clusters {
        energy_model(cluster, &mut found);
    }
    power_missing(machine, &mut found);
    artificial(machine, &mut found);
    capacities(facts, machine, &mut found);
    invariance(fmax, &mut found);
    if let Some(facts) = facts {
        max_freq(facts, &mut found);
        turbo(facts, &mut found);
        epp(facts, &mut found);
        hwp_boost(facts, machine, &mut found);
        shared_clock(facts, &mut found);
        idle(facts, &mut found);
    }
    rate_limit(facts, machine, &mut found);
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    debug_assert!(found.iter().all(|finding| CHECKS.iter().any(|(name, _)| *name == finding.check)));
    found
}

fn add(found: &mut Vec<Finding>, check: &'static str, severity: Severity, what: String, cost: &str, remedy: &str) {
    found.push(Finding { check, severity, what, cost: cost.to_owned(), remedy: remedy.to_owned() });
}

fn energy_model(cluster: &Cluster, found: &mut Vec<Finding>) {
    if cluster.opps.iter().all(|opp| opp.power_uw == 0) {
        return;
    }
    let name = &cluster.name;
    for pair in cluster.opps.windows(2) {
        if pair[1].power_uw <= pair[0].power_uw {
            add(
                found,
                "opp-order",
                Severity::Warning,
                format!(
                    "{name}: {} kHz draws {} uW, no more than {} kHz with {} uW",
                    pair[1].khz, pair[1].power_uw, pair[0].khz, pair[0].power_uw
                ),
                "the slower OPP is never worth using: it takes longer for the same or more power",
                "check the measurement; if it is right, remove the slower OPP",
            );
        }
    }
    let points: Vec<(u64, u64)> = cluster.opps.iter().map(|opp| (u64::from(opp.khz), opp.power_uw)).collect();
    match inefficient_points(&points, u64::from(cluster.capacity)) {
        Ok(inefficient) => {
            for of in inefficient {
                let (cost, remedy) = match of.exact {
                    true => (
                        "none if the driver lets the kernel skip them (CPUFREQ_RELATION_E); otherwise energy for nothing",
                        "use a driver that registers its OPPs with the energy model before the policy starts (v5.16 and later)",
                    ),
                    false => (
                        "energy, if the driver lets the kernel skip them (CPUFREQ_RELATION_E): a faster, dearer OPP runs",
                        "none: keep these OPPs",
                    ),
                };
                add(found, "opp-inefficient", Severity::Note, format!("{name}: {of}"), cost, remedy);
            }
        }
        Err(error) => add(
            found,
            "em-rejected",
            Severity::Error,
            format!("{name}: the energy model is refused: {error}"),
            "no energy model, so energy-aware scheduling never starts",
            "give each OPP a power above 0 (and below 64 W a CPU), in ascending order of frequency",
        ),
    }
}

fn power_missing(machine: &Machine, found: &mut Vec<Finding>) {
    let bare = machine.unknown_power();
    if !bare.is_empty() && bare.len() < machine.clusters.len() {
        add(
            found,
            "power-missing",
            Severity::Warning,
            format!("{}: no OPP has a power, while other clusters have theirs", bare.join(", ")),
            "the machine's energy is unknown, and without an energy model of all CPUs energy-aware scheduling never starts",
            "give the power: `opplab fit power`, or dynamic-power-coefficient and voltages of the device tree",
        );
    }
}

fn artificial(machine: &Machine, found: &mut Vec<Finding>) {
    if machine.driver("cppc_cpufreq").is_none() {
        return;
    }
    let classes: Vec<u8> = machine.clusters.iter().map(|cluster| cluster.efficiency_class.min(255) as u8).collect();
    let Some(squeezed) = squeeze_efficiency_classes(&classes) else {
        if machine.clusters.len() > 1 {
            add(
                found,
                "artificial-em",
                Severity::Warning,
                "all CPUs are of one efficiency class (or the source lacks their classes)".to_owned(),
                "cppc_cpufreq registers no energy model, so energy-aware scheduling never starts",
                "give the firmware's classes (MADT GICC, processor power efficiency class) as `efficiency_class`",
            );
        }
        return;
    };
    for (cluster, class) in machine.clusters.iter().zip(squeezed) {
        let Some(caps) = cluster.cppc else { continue };
        let caps = caps.perf_caps(cluster.opps.last().map_or(0, |opp| opp.khz).into());
        let name = &cluster.name;
        match artificial_em(&caps, cluster.capacity, class) {
            Ok(em) if em.spun => add(
                found,
                "artificial-em",
                Severity::Warning,
                format!(
                    "{name}: 20 * highest_perf {} is no multiple of capacity {}, and the kernel's search for the states \
                     of the artificial energy model runs through the 32-bit range ({} conversions)",
                    caps.highest_perf, cluster.capacity, em.loop_calls
                ),
                "seconds of one CPU in the kernel at boot, and a state whose frequency came out of a wrap",
                "scale the firmware's performance levels so that 20 * highest_perf is a multiple of the capacity",
            ),
            Ok(_) => {}
            Err(error) => add(
                found,
                "artificial-em",
                Severity::Error,
                format!("{name}: no artificial energy model: {error}"),
                "energy-aware scheduling never starts",
                "correct the performance levels in the firmware's _CPC",
            ),
        }
    }
}

fn capacities(facts: Option<&Facts>, machine: &Machine, found: &mut Vec<Finding>) {
    let asymmetric = machine.clusters.iter().any(|cluster| cluster.capacity != machine.clusters[0].capacity);
    let threads =
        machine.cpus.iter().enumerate().any(|(cpu, place)| {
            machine.cpus.iter().enumerate().any(|(other, of)| other != cpu && of.core == place.core)
        });
    if let Some(facts) = facts {
        let kinds: Vec<Option<CoreType>> = facts.cpus.values().map(|cpu| cpu.core_type).collect();
        let hybrid = kinds.windows(2).any(|pair| pair[0] != pair[1]);
        let told: Vec<u32> = facts.cpus.values().filter_map(|cpu| cpu.capacity).collect();
        let alike = told.windows(2).all(|pair| pair[0] == pair[1]);
        if hybrid && alike {
            let list: Vec<String> =
                machine.clusters.iter().map(|cluster| format!("{} {}", cluster.name, cluster.capacity)).collect();
            add(
                found,
                "hybrid-capacity",
                Severity::Warning,
                format!(
                    "cores differ, but {}; {} {}",
                    if told.is_empty() {
                        "the source shows no cpu_capacity"
                    } else {
                        "cpu_capacity is the same for all"
                    },
                    match facts.cpus.values().all(|cpu| cpu.cppc.is_some()) {
                        true => "by CPPC their capacities are",
                        false => "without CPPC their capacities are taken as",
                    },
                    list.join(", ")
                ),
                "utilisation of a small core counts as much as that of a big one: misfit tasks stay where they are, and \
                 energy-aware scheduling cannot start",
                "v6.12 and later set capacities where SMT is off and the driver is intel_pstate; until then placement \
                 follows the ITMT priorities only",
            );
        }
        if asymmetric && !hybrid && told.is_empty() && machine.processor.is_none() {
            add(
                found,
                "hybrid-capacity",
                Severity::Note,
                "the source lacks capacities; they come from elsewhere".to_owned(),
                "the twin's placement is as good as the guess",
                "import a source with cpu_capacity or capacity-dmips-mhz",
            );
        }
    }
    if asymmetric && threads {
        add(
            found,
            "eas-smt",
            Severity::Warning,
            "the machine has cores of different capacity, and SMT".to_owned(),
            "sched_is_eas_possible() refuses: no energy-aware scheduling while SMT is on",
            "switch SMT off (nosmt) to try it",
        );
    }
}

fn invariance(fmax: &FmaxReport, found: &mut Vec<Finding>) {
    if !fmax.input.follows_changes()
        && let Some(latest) = fmax.kernels.last()
        && latest.ratio.is_none()
    {
        let by_counters = "make the register or the CPPC field readable (firmware, hypervisor), or drive the machine \
                           with a governor that needs no invariance";
        let (severity, remedy) = match fmax.input.processor {
            Some(_) => (Severity::Error, by_counters),
            None => (Severity::Note, "nothing; or drive the machine with a governor that needs no invariance"),
        };
        add(
            found,
            "invariance",
            severity,
            format!("no frequency invariance, even on kernel {}: {}", latest.kernel, latest.why),
            "utilisation rises as the clock falls; schedutil works on the current frequency with a headroom of its own, \
             and energy-aware scheduling refuses to start",
            remedy,
        );
    }
    for warning in fmax.warnings.iter().filter(|warning| !warning.starts_with("turbo is switched off")) {
        add(
            found,
            "fmax",
            Severity::Warning,
            warning.clone(),
            "utilisation is scaled by the wrong number: too high an f_max makes CPUs look idle and slow, too low a one \
             makes them look full below their limit",
            "see `opplab fmax` for what each choice does; kernels allow no override but turbo off",
        );
    }
}

fn max_freq(facts: &Facts, found: &mut Vec<Finding>) {
    let amd = facts.processor.as_ref().is_some_and(|processor| processor.vendor == "AuthenticAMD");
    if !amd {
        return;
    }
    let all: Vec<_> = facts.cpus.values().filter_map(|cpu| cpu.cppc.map(|cppc| cppc.caps)).collect();
    let mut wrong: Vec<(u32, u32, u32)> = Vec::new();
    for policy in facts.policies.values().filter(|policy| policy.driver.as_deref() == Some("acpi-cpufreq")) {
        let caps = policy.cpus.first().and_then(|cpu| facts.cpus.get(cpu)).and_then(|cpu| cpu.cppc);
        let (Some(caps), Some(max), Some(top)) = (caps, policy.max_khz, policy.opps.last()) else { continue };
        let caps = caps.caps;
        let may_be = acpi_max_khz(top.khz, facts.processor.as_ref(), &caps, &all);
        if let Some(&khz) = may_be.first()
            && !may_be.contains(&max)
        {
            wrong.push((policy.id, max, khz));
        }
    }
    if let Some(&(id, max, khz)) = wrong.first() {
        add(
            found,
            "cpuinfo-max-freq",
            Severity::Warning,
            format!(
                "policy{id} (and {} more): cpuinfo_max_freq is {max} kHz, P0 and CPPC give {khz} kHz",
                wrong.len() - 1
            ),
            "schedutil's reference frequency is not the one behind the frequency scale, so requests are off by their ratio",
            "update the kernel (v5.11 to v5.13 and v6.7 to v6.9 changed it) or the firmware; check that boost is on",
        );
    }
}

fn turbo(facts: &Facts, found: &mut Vec<Finding>) {
    let off = match (facts.no_turbo, facts.boost) {
        (Some(true), _) => Some("intel_pstate/no_turbo is 1"),
        (_, Some(false)) => Some("cpufreq/boost is 0"),
        _ if facts.intel_msrs().turbo_disabled() => Some("the firmware switched turbo off (IA32_MISC_ENABLE bit 38)"),
        _ => None,
    };
    if let Some(why) = off {
        add(
            found,
            "turbo-off",
            Severity::Warning,
            why.to_owned(),
            "nothing above the base frequency; the frequency scale is then relative to the base on Intel",
            "switch it on unless a power limit or a measurement asks for it",
        );
    }
    let capped: Vec<&PolicyFacts> = facts
        .policies
        .values()
        .filter(|policy| matches!((policy.scaling_max_khz, policy.max_khz), (Some(limit), Some(max)) if limit < max))
        .collect();
    if let Some(first) = capped.first() {
        let (limit, max) = (first.scaling_max_khz.unwrap_or(0), first.max_khz.unwrap_or(0));
        // acpi-cpufreq's table ends at P0: asking for that is asking for boost.
        let p0 = first.opps.last().is_some_and(|top| top.khz == limit) && first.boost != Some(false);
        let cpus: Vec<u32> = capped.iter().map(|policy| policy.id).collect();
        if p0 {
            add(
                found,
                "freq-capped",
                Severity::Note,
                format!(
                    "scaling_max_freq is {limit} kHz (P0) where cpuinfo_max_freq is {max} kHz, on policies {}",
                    format_cpu_list(&cpus)
                ),
                "none: the hardware boosts above P0 by itself; but schedutil's requests end at P0",
                "nothing",
            );
        } else {
            add(
                found,
                "freq-capped",
                Severity::Warning,
                format!("scaling_max_freq is {limit} kHz of {max} kHz on policies {}", format_cpu_list(&cpus)),
                "the policies never run faster; the kernel counts the difference as cpufreq pressure from v6.10",
                "raise scaling_max_freq unless the cap is meant",
            );
        }
    }
}

/// `energy_perf_bias` and `energy_performance_preference` against the governor.
fn epp(facts: &Facts, found: &mut Vec<Finding>) {
    let mut seen: Vec<(String, String)> = Vec::new();
    for policy in facts.policies.values() {
        let (Some(governor), Some(epp)) = (&policy.governor, &policy.epp) else { continue };
        let pair = (governor.clone(), epp.clone());
        if seen.contains(&pair) {
            continue;
        }
        seen.push(pair);
        let active = facts.pstate_status.as_deref() == Some("active");
        let (own, is_speed) = (PstatePolicy::named(governor), epp == "performance" || epp == "0");
        if own == Some(PstatePolicy::Performance) && !is_speed {
            add(
                found,
                "epp-governor",
                Severity::Warning,
                format!("policy{}: governor performance with EPP {epp}", policy.id),
                "the firmware weighs energy although the governor asks for speed: slow rise of the clock after idle",
                "write performance to energy_performance_preference (intel_pstate does it by itself in active mode)",
            );
        } else if own == Some(PstatePolicy::Powersave) && active && is_speed {
            add(
                found,
                "epp-governor",
                Severity::Warning,
                format!("policy{}: governor powersave with EPP performance", policy.id),
                "the firmware runs as under the governor performance; powersave saves nothing",
                "write balance_performance, or choose the governor that is meant",
            );
        }
    }
    let performance = facts.policies.values().any(|policy| policy.governor.as_deref() == Some("performance"));
    if let Some((cpu, epb)) = facts.cpus.iter().find_map(|(&cpu, of_cpu)| of_cpu.epb.map(|epb| (cpu, epb)))
        && performance
        && epb > 6
    {
        add(
            found,
            "epp-governor",
            Severity::Warning,
            format!("CPU {cpu}: governor performance with energy_perf_bias {epb} (0 performance, 15 power)"),
            "firmware without EPP, uncore and turbo follow EPB: less turbo than the governor asks for",
            "write 0 to energy_perf_bias",
        );
    }
}

fn rate_limit(facts: Option<&Facts>, machine: &Machine, found: &mut Vec<Finding>) {
    let latency_us = machine.cpufreq.transition_latency_ns / 1000;
    if let Some(limit_us) = facts.and_then(|facts| facts.rate_limit_us) {
        if limit_us < latency_us {
            add(
                found,
                "rate-limit",
                Severity::Warning,
                format!(
                    "schedutil's rate_limit_us is {limit_us}, shorter than the transition latency of {latency_us} us"
                ),
                "requests come before the last one took effect: the governor decides on a clock that is still moving",
                "set rate_limit_us to at least one and a half latencies (the default from v6.12 on)",
            );
        }
        if limit_us > 10_000 {
            add(
                found,
                "rate-limit",
                Severity::Warning,
                format!("schedutil's rate_limit_us is {limit_us}"),
                "a task waits up to that long for a higher clock; short bursts never get it",
                "set rate_limit_us to 500..2000",
            );
        }
    }
    if latency_us == 0 && machine.cpufreq.driver.zero_is_unknown && machine.cpufreq.transition_delay_us == 0 {
        add(
            found,
            "rate-limit",
            Severity::Warning,
            format!("driver {}: the transition latency is not known", machine.cpufreq.driver),
            "schedutil's rate limit is 6.4 s in v6.12 to v6.12.53 and v6.13 to v6.17.3; later 1.5 ms, before at most 10 ms",
            "set rate_limit_us, or clock-latency-ns of the operating points",
        );
    }
    if !machine.cpufreq.fast_switch && latency_us >= 1000 {
        add(
            found,
            "rate-limit",
            Severity::Note,
            format!("driver {}: slow switch with a latency of {latency_us} us", machine.cpufreq.driver),
            "each change wakes a kernel thread (sugov) that blocks for the latency and takes its CPU out of deep idle",
            "allow the thread on a CPU that is awake anyway (v6.14, text 004), or a driver with fast switch",
        );
    }
}

fn hwp_boost(facts: &Facts, machine: &Machine, found: &mut Vec<Finding>) {
    let hwp = machine.clusters.iter().any(|cluster| cluster.hwp.is_some());
    let server = machine.processor.as_ref().is_some_and(|p| p.model_name.to_ascii_lowercase().contains("xeon"));
    let governor_leaves_it = facts.policies.values().any(|policy| policy.governor.as_deref() == Some("powersave"));
    if hwp && server && governor_leaves_it && facts.hwp_dynamic_boost == Some(false) {
        add(
            found,
            "hwp-boost",
            Severity::Warning,
            "a Xeon with HWP in active mode, governor powersave, and hwp_dynamic_boost 0".to_owned(),
            "tasks that sleep for I/O and migrate start at a low clock on each CPU (text 001)",
            "write 1 to intel_pstate/hwp_dynamic_boost; kernels set it where the ACPI profile is a server, before 6.4 on \
             Skylakes only",
        );
    }
}

fn shared_clock(facts: &Facts, found: &mut Vec<Finding>) {
    let pairs: Vec<&PolicyFacts> = facts
        .policies
        .values()
        .filter(|policy| policy.freqdomain.as_ref().is_some_and(|domain| domain.len() > policy.cpus.len()))
        .collect();
    if let Some(first) = pairs.first() {
        let domain = first.freqdomain.as_deref().unwrap_or(&[]);
        add(
            found,
            "shared-clock",
            Severity::Note,
            format!(
                "{} policies share a clock with others (CPUs {}, ...) but decide alone",
                pairs.len(),
                format_cpu_list(domain)
            ),
            "the clock follows the highest request: a busy thread lifts its sibling, whose governor does not know",
            "nothing; but read the frequency from APERF/MPERF, not from the request",
        );
    }
}

fn idle(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(of_cpu) = facts.cpus.values().find(|cpu| !cpu.idle.is_empty()) else { return };
    let disabled: Vec<&str> =
        of_cpu.idle.iter().filter(|state| state.disabled).map(|state| state.name.as_str()).collect();
    if !disabled.is_empty() {
        add(
            found,
            "idle-states",
            Severity::Note,
            format!("disabled: {}", disabled.join(", ")),
            "the CPU stays shallower than it could: more power when idle, less budget for turbo on other cores",
            "write 0 to cpuidle/stateN/disable unless wake-up latency forbids it",
        );
    }
    if of_cpu.idle.windows(2).any(|pair| pair[1].residency_ns < pair[0].residency_ns) {
        add(
            found,
            "idle-states",
            Severity::Warning,
            "target residencies do not ascend from state to state".to_owned(),
            "the governor stops at the first state that does not fit, so that a state behind it is never entered",
            "correct the table of the firmware or the driver",
        );
    }
}

/// The findings as a tree, for JSON.
pub fn node(found: &[Finding]) -> Node {
    Node::list(found.iter().map(|Finding { check, severity, what, cost, remedy }| {
        node_table! { check, severity: severity.name(), what, cost, remedy }
    }))
}
