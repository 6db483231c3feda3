//! The report of an experiment: a line a metric, the change of each variant with its interval, and what is sure.

use opplab_model::tree::{Node, Value, to_json};
use opplab_stats::Mean;

use super::design::{Change, change};
use super::log::{Kind, Log};
use super::run::resolution;
use crate::json::table;

/// One metric of all variants.
struct Row {
    metric: String,
    unit: String,
    better: String,
    /// The baseline's mean over blocks, as `opplab compare` has it.
    base: f64,
    /// Of each other variant; `None` where a value is missing or 0.
    changes: Vec<Option<Change>>,
}

fn rows(log: &Log) -> Vec<Row> {
    let blocks = log.blocks();
    let Some(first) = blocks.first().and_then(|runs| runs.first()) else { return Vec::new() };
    let main = log.metric();
    let one = |quantity: &super::measure::Quantity| {
        let values: Vec<f64> = blocks.iter().filter_map(|runs| runs.first()?.value(&quantity.name)).collect();
        let base = Mean::of_metric(quantity.better == "higher", &quantity.unit).of(&values);
        let changes = (1..log.head.variants.len()).map(|variant| {
            let logs = log.logs(&quantity.name, variant).filter(|logs| !logs.is_empty())?;
            // The rule's interval is of the metric that ended the experiment; the others have the usual one.
            let pilot = if quantity.name == main { log.head.pilot as usize } else { logs.len() };
            Some(change(&logs, pilot))
        });
        let (unit, better) = (quantity.unit.clone(), quantity.better.clone());
        Row { metric: quantity.name.clone(), unit, better, base, changes: changes.collect() }
    };
    let mut rows: Vec<Row> = first.values.iter().map(one).collect();
    // What was 0 in each block is left out.
    rows.retain(|row| row.base != 0.0 || row.metric == main);
    rows.sort_by_key(|row| row.metric != main);
    rows
}

pub(crate) fn four(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    if change.is_finite() { format!("{change:+.1}") } else { "unknown".to_owned() }
}

fn words(change: &Change) -> String {
    let star = if change.is_clear() { "*" } else { "" };
    if change.n_blocks < 2 {
        return format!("{} %", percent(change.ratio));
    }
    let (low, high) = (percent(change.interval.low), percent(change.interval.high));
    format!("{} % [{low}, {high}]{star}", percent(change.ratio))
}

/// The report in words, at most 80 columns wide with two variants.
pub fn text(log: &Log) -> String {
    let head = &log.head;
    let blocks = log.blocks();
    let n_spoilt = blocks.iter().filter(|runs| runs.iter().any(|run| !run.spoilt.is_empty())).count();
    let repeats = log.runs.iter().filter(|run| run.kind == Kind::Block && run.repeat > 0).count() / head.variants.len();
    let mut out = format!(
        "{} on {} (Linux {}): {} blocks of {} variants\n",
        head.benchmark,
        head.machine,
        head.kernel,
        blocks.len(),
        head.variants.len()
    );
    let rows = rows(log);
    let Some(main) = rows.first() else {
        return out + "No block is finished: there is no result yet.\n";
    };
    for (name, change) in head.variants.iter().skip(1).zip(&main.changes) {
        let sentence = match change {
            None => format!("{name}: {} cannot be compared", main.metric),
            Some(change) if change.n_blocks < 2 => {
                format!("{name}: {} {}; one block has no interval", main.metric, words(change))
            }
            Some(change) => {
                let sure = if change.is_clear() { "clear" } else { "not clear" };
                format!("{name}: {} {}, {sure}", main.metric, words(change))
            }
        };
        out += &format!("{sentence}.\n");
    }
    let mut lines = vec![["metric".to_owned(), head.variants.first().cloned().unwrap_or_default()].to_vec()];
    if let Some(line) = lines.first_mut() {
        line.extend(head.variants.iter().skip(1).cloned());
    }
    for row in &rows {
        let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
        let mut line = vec![format!("{}{unit}", row.metric), four(row.base)];
        line.extend(row.changes.iter().map(|change| change.as_ref().map_or_else(|| "no ratio".to_owned(), words)));
        lines.push(line);
    }
    let n_columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..n_columns)
        .map(|at| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out += cells.join("  ").trim_end();
        out.push('\n');
    }
    out += &format!(
        "Intervals hold the truth in 95 of 100 experiments, each by itself; * leaves 0 out. Asked: {0} within {1} %.\n\
         The interval of {0} is by the spread of the first {2} blocks; `opplab compare` takes that of all.\n",
        main.metric,
        f64::from(head.within_ppm) / 1e4,
        head.pilot
    );
    out += "Values are means, of rates harmonic; changes are ratios of geometric means.\n";
    if rows.iter().any(|row| row.changes.contains(&None)) {
        out += "No ratio: a value is 0 or missing; `opplab compare` has the change of the means.\n";
    }
    if let Some(found) = resolution(log) {
        out += &format!(
            "A/A: runs of {} differ by {:.2} %.\n",
            head.variants.first().map_or("the baseline", String::as_str),
            100.0 * found.deviation.exp_m1()
        );
    }
    if repeats > 0 {
        out += &format!("{repeats} blocks were repeated, since something disturbed them.\n");
    }
    if n_spoilt > 0 {
        out +=
            &format!("Caution: {n_spoilt} of the blocks were disturbed (load of others, throttling, ...) and count.\n");
    }
    out
}

/// The report for programs.
pub fn json(log: &Log) -> String {
    let float = |value: f64| {
        let finite = value.is_finite();
        finite.then(|| Node { value: Value::Float(value), at: Default::default() })
    };
    let rows = rows(log);
    let of_row = |row: &Row| {
        let changes = log.head.variants.iter().skip(1).zip(&row.changes).map(|(name, change)| {
            table([
                ("variant", Node::str(name)),
                ("blocks", Node::from(change.map_or(0, |change| change.n_blocks as u64))),
                ("ratio", change.and_then(|change| float(change.ratio)).unwrap_or_else(|| crate::json::optional(None))),
                (
                    "low",
                    change.and_then(|change| float(change.interval.low)).unwrap_or_else(|| crate::json::optional(None)),
                ),
                (
                    "high",
                    change
                        .and_then(|change| float(change.interval.high))
                        .unwrap_or_else(|| crate::json::optional(None)),
                ),
                ("clear", Node::bool(change.is_some_and(|change| change.is_clear()))),
            ])
        });
        table([
            ("metric", Node::str(&row.metric)),
            ("unit", Node::str(&row.unit)),
            ("better", Node::str(&row.better)),
            ("baseline", float(row.base).unwrap_or_else(|| crate::json::optional(None))),
            ("changes", Node::list(changes.collect::<Vec<_>>())),
        ])
    };
    let whole = table([
        ("benchmark", Node::str(&log.head.benchmark)),
        ("machine", Node::str(&log.head.machine)),
        ("kernel", Node::str(&log.head.kernel)),
        ("baseline", Node::str(log.head.variants.first().map_or("", String::as_str))),
        ("blocks", Node::from(log.blocks().len() as u64)),
        ("metrics", Node::list(rows.iter().map(of_row).collect::<Vec<_>>())),
    ]);
    to_json(&whole) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::log::{Head, Run};
    use crate::compare::measure::Quantity;

    /// Goal: the baseline's column is the mean of all runs, also where some are 0, and there is no ratio then. Method: by hand.
    #[test]
    fn the_baseline_is_the_mean_of_all_runs() {
        let head = Head {
            seed: 1,
            variants: vec!["a".to_owned(), "b".to_owned()],
            command: String::new(),
            benchmark: "x".to_owned(),
            machine: "m".to_owned(),
            kernel: "6.12".to_owned(),
            metric: "wall".to_owned(),
            pilot: 4,
            within_ppm: 10_000,
        };
        let run = |block: u32, variant: usize| {
            let value = |name: &str, unit: &str, better: &str, value: f64| Quantity {
                name: name.to_owned(),
                unit: unit.to_owned(),
                better: better.to_owned(),
                value,
            };
            let system = if block == 0 { 0.04 } else { 0.0 };
            let values = vec![
                value("wall", "s", "lower", [1.0, 1.0, 1.0, 5.0][block as usize]),
                value("system", "s", "lower", system),
                value("rate", "1/s", "higher", [4.0, 12.0][block as usize % 2]),
            ];
            Run { kind: Kind::Block, block, repeat: 0, variant, start_s: 0.0, values, spoilt: Vec::new() }
        };
        let mut log = Log::of(head);
        log.runs = (0..4).flat_map(|block| [run(block, 0), run(block, 1)]).collect();
        let bases: Vec<_> =
            rows(&log).into_iter().map(|row| (row.metric, row.base, row.changes[0].is_some())).collect();
        let expected = [("wall", 2.0, true), ("system", 0.01, false), ("rate", 6.0, true)];
        assert_eq!(bases, expected.map(|(name, base, has)| (name.to_owned(), base, has)));
        let text = text(&log);
        assert!(text.contains("system, s  0.01000  no ratio\n"), "{text}");
        assert!(text.contains("No ratio: a value is 0 or missing"), "{text}");
    }
}
