//! Within which range an assumed number of a machine file may lie: its `[range]` table.
//!
//! ```toml
//! [range]
//! "driver.switch_ns" = [370000, 1400000]           # Between these, in the unit of the key.
//! "cluster.opp.uw" = { percent = [80, 125] }       # All of them together, in percent of the file's value.
//! "cluster.A55.opp.uw" = { percent = [50, 110] }   # Those of one cluster.
//! "cluster.A76.opp.uw" = { percent = [[60, 150], [90, 110]] }   # Those of one cluster, a pair for each operating point.
//! ```
//!
//! A run takes the file's own numbers; who draws others from the ranges is not here.

use crate::error::Fault;
use crate::tree::{Node, Value};

/// The numbers of a machine file that may have a range, by path and unit. Of keys with a choice of units (`_us`, `_mw`)
/// the smallest counts.
pub const RANGED: &[&str] = &[
    "floor_uw",
    "smt_yield",
    "smt_power",
    "pause_cycles",
    "costs.context_switch_ns",
    "costs.wakeup_ns",
    "costs.ipi_ns",
    "costs.tick_ns",
    "costs.sugov_work_ns",
    "driver.transition_latency_ns",
    "driver.switch_ns",
    "package_power.pl1_uw",
    "package_power.pl2_uw",
    "package_power.pl1_window_ns",
    "thermal.resistance_mk_per_w",
    "thermal.capacitance_mj_per_k",
    "thermal.ambient_mc",
    "cluster.capacity",
    "cluster.cluster_idle_uw",
    "cluster.opp.mv",
    "cluster.opp.uw",
    "cluster.opp.busy_uw",
    "cluster.opp.cluster_uw",
    "cluster.opp.idle_uw",
    "cluster.opp.cluster_idle_uw",
    "cluster.boost_opp.uw",
    "cluster.boost_opp.busy_uw",
    "cluster.boost_opp.cluster_uw",
    "cluster.idle.uw",
    "cluster.idle.entry_latency_ns",
    "cluster.idle.exit_latency_ns",
    "cluster.idle.wake_ns",
    "cluster.idle.target_residency_ns",
    "cluster.cluster_idle.uw",
    "cluster.cluster_idle.entry_latency_ns",
    "cluster.cluster_idle.exit_latency_ns",
    "cluster.cluster_idle.target_residency_ns",
    "program_class.cluster.capacity",
    "program_class.cluster.mem_share",
    "program_class.cluster.power",
];

/// How far a number may be off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bounds {
    /// From the first to the second, in the unit of the path.
    Between(i64, i64),
    /// From the first to the second, in percent of the file's number.
    Percent(u32, u32),
    /// The same by operating point of one cluster: what was measured at some clocks is surer there.
    PercentByOpp(Vec<(u32, u32)>),
}

/// The range of one number, or of all numbers of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Which: one of [`RANGED`].
    pub path: &'static str,
    /// Only those of this cluster, by name.
    pub cluster: Option<String>,
    /// How far.
    pub bounds: Bounds,
}

impl Range {
    /// The key in the file.
    pub fn key(&self) -> String {
        match (&self.cluster, self.path.strip_prefix("cluster.")) {
            (Some(name), Some(rest)) => format!("cluster.{name}.{rest}"),
            _ => self.path.to_owned(),
        }
    }
}

/// Reads the `[range]` table of a machine with these clusters.
///
/// # Errors
/// A key that names no number, bounds that are none.
pub fn ranges_from(node: Option<&Node>, clusters: &[String]) -> Result<Vec<Range>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let Value::Table(entries) = &node.value else { return Err(Fault::new(node.at, "`range` must be a table")) };
    let mut ranges: Vec<Range> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let own = clusters.iter().find_map(|name| {
            let rest = key.name.strip_prefix("cluster.")?.strip_prefix(name.as_str())?.strip_prefix('.')?;
            Some((name.clone(), format!("cluster.{rest}")))
        });
        let (cluster, wanted) = own.map_or((None, key.name.clone()), |(name, path)| (Some(name), path));
        let Some(path) = RANGED.iter().copied().find(|path| *path == wanted) else {
            return Err(Fault::unknown(key.at, "range", &wanted, RANGED.iter().copied()));
        };
        let bounds = bounds_from(value, &key.name, path == "thermal.ambient_mc")?;
        if matches!(bounds, Bounds::PercentByOpp(_)) && (cluster.is_none() || !path.starts_with("cluster.opp.")) {
            let message = "pairs by operating point are of one cluster's: `cluster.NAME.opp...`";
            return Err(Fault::new(value.at, message));
        }
        let range = Range { path, cluster, bounds };
        if ranges.iter().any(|earlier| earlier.path == range.path && earlier.cluster == range.cluster) {
            return Err(Fault::new(key.at, format!("range `{}` is repeated", key.name)));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

fn bounds_from(node: &Node, key: &str, signed: bool) -> Result<Bounds, Fault> {
    let pair = |node: &Node, what: &str, min: i128, max: i128| -> Result<(i64, i64), Fault> {
        let items = node.as_list(what)?;
        let [low, high] = items else {
            return Err(Fault::new(node.at, format!("`{what}` must be [lowest, highest]")));
        };
        let (low, high) = (low.as_int(what, min, max)?, high.as_int(what, min, max)?);
        if low > high { Err(Fault::new(node.at, format!("`{what}` runs backwards"))) } else { Ok((low, high)) }
    };
    if matches!(node.value, Value::Table(_)) {
        let table = node.as_table(key, &["percent"])?;
        let percent = table.need("percent")?;
        let shares = |node: &Node| {
            let (low, high) = pair(node, "percent", 0, 100_000)?;
            if (low..=high).contains(&100) {
                // Both fit: the bounds are checked.
                return Ok((low as u32, high as u32));
            }
            Err(Fault::new(node.at, format!("the file's own number, 100 percent, is outside of {low} to {high}")))
        };
        let items = percent.as_list("percent")?;
        if items.iter().any(|item| matches!(item.value, Value::List(_))) {
            return Ok(Bounds::PercentByOpp(items.iter().map(shares).collect::<Result<_, _>>()?));
        }
        let (low, high) = shares(percent)?;
        return Ok(Bounds::Percent(low, high));
    }
    let limit = i128::from(i64::MAX);
    let (low, high) = pair(node, key, if signed { -limit } else { 0 }, limit)?;
    Ok(Bounds::Between(low, high))
}

/// The `[range]` table; `None` if there are no ranges.
pub fn ranges_node(ranges: &[Range]) -> Option<Node> {
    let pair = |low: i64, high: i64| Node::list([Node::from(low), Node::from(high)]);
    let shares = |&(low, high): &(u32, u32)| pair(low.into(), high.into());
    let value = |bounds: &Bounds| match bounds {
        Bounds::Between(low, high) => pair(*low, *high),
        Bounds::Percent(low, high) => Node::table([("percent", Some(shares(&(*low, *high))))]),
        Bounds::PercentByOpp(of) => Node::table([("percent", Some(Node::list(of.iter().map(shares))))]),
    };
    (!ranges.is_empty()).then(|| Node::table(ranges.iter().map(|range| (range.key(), Some(value(&range.bounds))))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse_toml;

    fn read(text: &str) -> Result<Vec<Range>, String> {
        let root = parse_toml(text).map_err(|fault| fault.in_file("m.toml").to_string())?;
        let clusters = ["A55".to_owned(), "A76 prime".to_owned()];
        let node = root.as_table("machine", &["range"]).and_then(|table| table.need("range"));
        node.and_then(|node| ranges_from(Some(node), &clusters)).map_err(|fault| fault.in_file("m.toml").to_string())
    }

    #[test]
    fn ranges_of_all_and_of_one_cluster_round_trip() {
        let text = "[range]\n\"driver.switch_ns\" = [370000, 1400000]\n\"cluster.opp.uw\" = { percent = [80, 125] }\n\
                    \"cluster.A76 prime.opp.uw\" = { percent = [50, 110] }\n\
                    \"cluster.A55.opp.busy_uw\" = { percent = [[30, 350], [90, 110]] }\n";
        let ranges = read(text).expect("they are understood");
        assert_eq!(ranges[0].bounds, Bounds::Between(370_000, 1_400_000));
        assert_eq!((ranges[2].path, ranges[2].cluster.as_deref()), ("cluster.opp.uw", Some("A76 prime")));
        assert_eq!(ranges[3].bounds, Bounds::PercentByOpp(vec![(30, 350), (90, 110)]));
        let node = ranges_node(&ranges).expect("there are some");
        let clusters = ["A55".to_owned(), "A76 prime".to_owned()];
        assert_eq!(ranges_from(Some(&node), &clusters).expect("what was written is read"), ranges);
        assert_eq!(ranges_node(&[]), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let wrong = |text: &str, words: &str| {
            let error = read(&format!("[range]\n{text}\n")).expect_err("it is wrong");
            assert!(error.contains(words), "{error}");
        };
        wrong("\"driver.swich_ns\" = [1, 2]", "did you mean `driver.switch_ns`?");
        wrong("\"driver.switch_ns\" = [2, 1]", "runs backwards");
        wrong("\"driver.switch_ns\" = [2]", "must be [lowest, highest]");
        wrong("\"cluster.A77.opp.uw\" = [1, 2]", "unknown range");
        wrong("\"floor_uw\" = { percent = [80] }", "must be [lowest, highest]");
        wrong("\"floor_uw\" = 3", "must be a list");
        wrong("\"driver.switch_ns\" = [-5, 5]", "-5");
        wrong("\"cluster.opp.uw\" = { percent = [110, 150] }", "100 percent, is outside of 110 to 150");
        wrong("\"cluster.opp.uw\" = { percent = [[80, 125], [90, 110]] }", "are of one cluster's");
        wrong("\"cluster.A55.idle.uw\" = { percent = [[80, 125]] }", "are of one cluster's");
        wrong("\"cluster.A55.opp.uw\" = { percent = [[80, 125], 90] }", "must be a list");
        wrong("\"cluster.A55.opp.uw\" = { percent = [[80, 90]] }", "100 percent, is outside of 80 to 90");
        assert_eq!(read("[range]\n\"thermal.ambient_mc\" = [-5000, 30000]\n").map(|ranges| ranges.len()), Ok(1));
    }
}
