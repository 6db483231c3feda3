//! The kernel's energy model in debugfs: `energy_model/<device>/{cpus,flags,ps:<kHz>/{frequency,power,cost,...}}`
//! (kernel/power/energy_model.c, v5.0 and later). Before v5.9 a device is called `pd0`, before v5.8 a state `cs:<kHz>`.

use opplab_model::cpus::format_cpu_list;

use crate::error::ImportError;
use crate::facts::{CpuFacts, Facts, OppFacts, PolicyFacts, SourceKind};
use crate::tree::SysTree;

/// Where the folder is put in a tree.
pub(crate) const FOLDER: &str = "/energy_model";

/// The powers are watts: microwatts from v6.0 on (EM_PERF_DOMAIN_MICROWATTS), milliwatts before (EM_PERF_DOMAIN_MILLIWATTS,
/// v5.16). Without it, or without the file, milliwatts or nothing real.
const WATTS: u32 = 1 << 0;
/// The costs are made up (EM_PERF_DOMAIN_ARTIFICIAL).
const ARTIFICIAL: u32 = 1 << 2;
/// What a class adds to cost and power of an artificial model (cppc_cpufreq.c: CPPC_EM_COST_GAP).
const CLASS_GAP: u64 = opplab_kernel::cpufreq::cppc::CPPC_EM_COST_GAP;

/// Whether `text` is what `grep -r ^ energy_model` prints in debugfs: `.../energy_model/DEVICE/FILE:LINE`.
pub(crate) fn sniff(text: &str) -> bool {
    text.lines().next().and_then(of_grep).is_some()
}

/// The path below the folder, and the line of the file.
fn of_grep(line: &str) -> Option<(&str, &str)> {
    // A path may hold a colon (`ps:450000`), a line of these files does not.
    let (path, value) = line.rsplit_once(':')?;
    match path.split_once("energy_model/") {
        Some((before, below)) => {
            ((before.is_empty() || before.ends_with('/')) && below.contains('/')).then_some((below, value))
        }
        None => {
            // Within the folder.
            let below = path.strip_prefix("./").unwrap_or(path);
            let (_, file) = below.split_once('/')?;
            (matches!(file, "cpus" | "flags" | "units") || is_state(file)).then_some((below, value))
        }
    }
}

/// Whether the name is that of a performance state.
fn is_state(name: &str) -> bool {
    name.starts_with("ps:") || name.starts_with("cs:")
}

/// Whether the powers of a model that has watts are milliwatts. Only the kernels with these (v5.16 to v5.19) count the cost
/// of the fastest state in thousandths of its power (include/linux/energy_model.h:em_scale_power(), v5.17); later it is
/// the power or less.
fn is_milliwatts(states: &[OppFacts]) -> bool {
    let fastest = states.iter().max_by_key(|state| state.khz);
    fastest.is_some_and(|state| state.power_uw != 0 && state.cost == state.power_uw.saturating_mul(1000))
}

/// Imports such a text.
pub(crate) fn import_grep(name: &str, file: &str, text: &str) -> Result<Facts, ImportError> {
    let mut tree = SysTree::default();
    let number = tree.add_file(file);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let (below, value) = of_grep(line)
            .ok_or_else(|| ImportError::line(file, index + 1, "it is not `.../energy_model/DEVICE/FILE:LINE`"))?;
        tree.add(&format!("{FOLDER}/{below}"), value, number, index as u32 + 1);
    }
    import(name, file, &tree)
}

/// Reads what is below `folder` of the tree into `facts`. CPUs that it names and `facts` does not know are added only
/// if `facts` knows no CPU at all.
pub(crate) fn read(tree: &SysTree, folder: &str, facts: &mut Facts) -> Result<(), ImportError> {
    let alone = facts.cpus.is_empty();
    for device in tree.children(folder) {
        let path = format!("{folder}/{device}");
        let Some(cpus) = tree.cpus(&format!("{path}/cpus"))? else { continue };
        let told_flags = tree.number32(&format!("{path}/flags"))?;
        let flags = told_flags.unwrap_or(0);
        // `units` is v5.11's to v5.15's.
        let abstract_scale = told_flags.is_some_and(|flags| flags & (WATTS | ARTIFICIAL) == 0)
            || tree.text(&format!("{path}/units")) == Some("bogoWatts");
        if abstract_scale {
            let list = format_cpu_list(&cpus);
            let note = format!(
                "the energy model of CPUs {list} has an abstract scale, no watts; taken as milliwatts, so that energy is \
                 relative only"
            );
            facts.notes.push(note);
        }
        let mut states: Vec<OppFacts> = Vec::new();
        let mut performance = 0;
        for name in tree.children(&path) {
            if !is_state(&name) {
                continue;
            }
            let read = |file: &str| tree.number(&format!("{path}/{name}/{file}"));
            let khz = tree.number32(&format!("{path}/{name}/frequency"))?;
            let Some(khz) = khz else { return Err(tree.error(&format!("{path}/{name}/frequency"), "it is missing")) };
            performance = performance.max(read("performance")?.unwrap_or(0));
            states.push(OppFacts {
                khz,
                uv: 0,
                power_uw: read("power")?.unwrap_or(0),
                cost: read("cost")?.unwrap_or(0),
                inefficient: read("inefficient")?.is_some_and(|flag| flag != 0),
            });
        }
        states.sort_by_key(|state| state.khz);
        let factor = match flags {
            flags if flags & ARTIFICIAL != 0 => 0,
            flags if flags & WATTS != 0 && !is_milliwatts(&states) => 1,
            _ => 1000,
        };
        for state in &mut states {
            state.power_uw = state.power_uw.saturating_mul(factor);
        }
        facts.tell("energy_model", path.clone());
        let Some(&first) = cpus.first() else { continue };
        if alone {
            for &cpu in &cpus {
                let capacity = u32::try_from(performance).ok().filter(|&capacity| capacity != 0);
                if facts.cpus.insert(cpu, CpuFacts { capacity, ..CpuFacts::default() }).is_some() {
                    return Err(tree.error(&format!("{path}/cpus"), format!("CPU {cpu} is in two performance domains")));
                }
            }
            facts.tell("cpus", format!("{path}/cpus"));
        }
        if flags & ARTIFICIAL != 0 {
            // power = 204 * class + step, and a step is at most 1024 / 20.
            let lowest = states.first().map_or(0, |state| state.cost);
            let class = u32::try_from(lowest / CLASS_GAP).ok();
            for cpu in &cpus {
                if let Some(of_cpu) = facts.cpus.get_mut(cpu) {
                    of_cpu.efficiency_class = class;
                }
            }
            facts.tell("efficiency_class", format!("{path}: cost of the lowest state / {CLASS_GAP}"));
        }
        if let Some(policy) = facts.policies.values_mut().find(|policy| policy.cpus.contains(&first)) {
            policy.em_flags = Some(flags);
            if flags & ARTIFICIAL != 0 && policy.opps.is_empty() {
                // The driver has no table: the model's states are the frequencies that anyone named.
                policy.opps = states;
                facts.tell("opps", format!("{path}/ps:*"));
            } else if flags & ARTIFICIAL == 0 {
                merge(policy, states);
                facts.tell("opp power", format!("{path}/ps:*/power"));
            }
        } else if alone {
            let policy = PolicyFacts {
                id: first,
                min_khz: states.first().map(|state| state.khz),
                max_khz: states.last().map(|state| state.khz),
                cpus,
                opps: states,
                em_flags: Some(flags),
                ..PolicyFacts::default()
            };
            facts.policies.insert(first, policy);
            facts.tell("opps", format!("{path}/ps:*"));
        }
    }
    Ok(())
}

/// Gives the policy's OPPs their powers; without a table of its own the policy takes the model's.
fn merge(policy: &mut PolicyFacts, states: Vec<OppFacts>) {
    if policy.opps.is_empty() {
        policy.opps = states;
        return;
    }
    for opp in &mut policy.opps {
        if let Some(state) = states.iter().find(|state| state.khz == opp.khz) {
            *opp = OppFacts { uv: opp.uv, ..*state };
        }
    }
}

/// Imports a folder that was read into a tree at [`FOLDER`].
pub(crate) fn import(name: &str, source: &str, tree: &SysTree) -> Result<Facts, ImportError> {
    let mut facts = Facts::new(name, SourceKind::EnergyModel, source);
    read(tree, FOLDER, &mut facts)?;
    if facts.cpus.is_empty() {
        return Err(ImportError::whole(source, "no performance domain of CPUs is in it"));
    }
    Ok(facts)
}
