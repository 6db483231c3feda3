//! The figures that programs print about themselves: readers of known programs, or a pattern.

use regex_lite::Regex;

use super::measure::Quantity;
use crate::error::HostError;

/// A pattern whose first group is a number.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Name of the metric.
    pub name: String,
    unit: String,
    better: String,
    pattern: Regex,
    /// Whether the numbers of a run add up, as those of a program's directions and jobs do; else their mean counts.
    adds_up: bool,
}

/// Programs that print a rate for each direction and job.
const ADDED_UP: &[&str] = &["fio"];

/// Program, metric, unit, what is better, and pattern of what known programs print.
const READERS: &[(&str, &str, &str, &str, &str)] = &[
    ("hackbench", "time", "s", "lower", r"(?m)^\s*(?:Total time|Time):\s*([0-9.]+)(?:\s|$)"),
    ("pgbench", "tps", "tx/s", "higher", r"(?m)^tps = ([0-9.]+)"),
    ("tbench", "throughput", "MB/s", "higher", r"(?m)^Throughput ([0-9.]+) MB/sec"),
    ("dbench", "throughput", "MB/s", "higher", r"(?m)^Throughput ([0-9.]+) MB/sec"),
    (
        "sysbench",
        "events",
        "events/s",
        "higher",
        r"(?m)^\s*(?:total number of events/s|events per second|events/s \(eps\)):\s*([0-9.]+)",
    ),
    // Each block counts from the start of the run, so that the last one is the result.
    ("schbench", "latency p99", "us", "lower", r"(?ms).*^(?:Wakeup|Latency).*?99\.0th:\s*([0-9.]+)"),
    ("fio", "iops", "1/s", "higher", r#"(?m)(?:"iops" : |IOPS=)([0-9.]+)([kMG]?)"#),
    (
        "stress-ng",
        "bogo ops",
        "1/s",
        "higher",
        r"(?m)^stress-ng:.*?\]\s+\S+\s+[0-9]+\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+\s+([0-9.]+)\s",
    ),
    ("perf bench", "time", "s", "lower", r"(?m)^\s*Total time: ([0-9.]+) \[sec\]"),
];

/// The readers of the program that a command runs.
pub fn known(command: &str) -> Vec<Figure> {
    let words = |name: &str| name.split(' ').all(|word| command.split([' ', '/', '\'', '"']).any(|part| part == word));
    READERS
        .iter()
        .filter(|(program, ..)| words(program))
        .filter_map(|(program, name, unit, better, pattern)| {
            Some(Figure {
                name: (*name).to_owned(),
                unit: (*unit).to_owned(),
                better: (*better).to_owned(),
                pattern: Regex::new(pattern).ok()?,
                adds_up: ADDED_UP.contains(program),
            })
        })
        .collect()
}

/// `NAME=/PATTERN/`, or `NAME[UNIT]=/PATTERN/`, with `-` before the name where less is better: `requests/s=/([0-9.]+) req/`.
///
/// # Errors
/// If it is none, or the pattern has no group.
pub fn parse(text: &str) -> Result<Figure, HostError> {
    let wrong = |what: &str| HostError::Usage(format!("--metric: `{text}` {what}; as 'requests/s=/([0-9.]+) req/'"));
    let (name, pattern) = text.split_once("=/").ok_or_else(|| wrong("is not NAME=/PATTERN/"))?;
    let pattern = pattern.strip_suffix('/').ok_or_else(|| wrong("lacks the last /"))?;
    let pattern = Regex::new(pattern).map_err(|error| wrong(&format!("has no pattern that can be read: {error}")))?;
    if pattern.captures_len() < 2 {
        return Err(wrong("has no group ( ) around the number"));
    }
    let (name, better) = match name.strip_prefix('-') {
        Some(name) => (name, "lower"),
        None => (name, "higher"),
    };
    let (name, unit) = match name.split_once('[') {
        Some((name, unit)) => (name, unit.trim_end_matches(']')),
        None => (name, name.split_once('/').map_or("", |_| "1/s")),
    };
    if name.trim().is_empty() {
        return Err(wrong("has no name"));
    }
    let (name, unit, better) = (name.trim().to_owned(), unit.to_owned(), better.to_owned());
    Ok(Figure { name, unit, better, pattern, adds_up: false })
}

impl Figure {
    /// The figure in what a program printed: the mean where it is there several times, or the sum where these add up.
    pub fn read(&self, output: &str) -> Option<Quantity> {
        let values: Vec<f64> = self
            .pattern
            .captures_iter(output)
            .filter_map(|found| {
                let value = found.get(1)?.as_str().parse::<f64>().ok()?;
                // What fio shortens: `61.1k`.
                let scale = match found.get(2).filter(|_| self.adds_up).map_or("", |one| one.as_str()) {
                    "k" => 1e3,
                    "M" => 1e6,
                    "G" => 1e9,
                    _ => 1.0,
                };
                Some(value * scale).filter(|value| value.is_finite())
            })
            .collect();
        let sum = values.iter().sum::<f64>();
        let value = if self.adds_up { sum } else { sum / values.len() as f64 };
        (!values.is_empty()).then(|| Quantity::new(self.name.as_str(), &self.unit, &self.better, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_their_figures() {
        let check = |command: &str, output: &str, expected: &[(&str, f64)]| {
            let found: Vec<_> = known(command).iter().filter_map(|figure| figure.read(output)).collect();
            let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value)).collect();
            assert_eq!(found, expected, "{command}");
        };
        check("/usr/bin/hackbench -g 4", "Running in process mode\nTime: 0.512\n", &[("time", 0.512)]);
        check("perf bench sched pipe", "  Total time: 4.5 [sec]\n", &[("time", 4.5)]);
        check("pgbench -c 4", "latency average = 1 ms\ntps = 1234.5 (without)\n", &[("tps", 1234.5)]);
        check("sysbench cpu run", "    events per second:  6021.11\n", &[("events", 6021.11)]);
        check("tbench 4", "Throughput 812.4 MB/sec  4 clients\n", &[("throughput", 812.4)]);
        check("fio job", "  read: IOPS=2000, BW=8\n", &[("iops", 2000.0)]);
        // Shortened numbers, and directions that add up.
        check("fio job", "  read: IOPS=61.1k, BW=8\n  write: IOPS=26.2k, BW=3\n", &[("iops", 87_300.0)]);
        check("fio job", "\"iops\" : 700.5,\n\"iops\" : 299.5,\n\"iops\" : 0.0,\n", &[("iops", 1000.0)]);
        // Decimals of another language are not cut off.
        check("hackbench", "Time: 0,512\n", &[]);
        check(
            "schbench",
            "Wakeup Latencies percentiles (usec) runtime 1 (s)\n   50.0th: 5\n * 99.0th: 12\n",
            &[("latency p99", 12.0)],
        );
        let block = |seconds, p99| {
            format!(
                "Wakeup Latencies percentiles (usec) runtime {seconds} (s)\n  * 99.0th: {p99}\n\
                 Request Latencies percentiles (usec) runtime {seconds} (s)\n  * 99.0th: 9000\n"
            )
        };
        let (first, second, whole) = (block(10, 500), block(20, 300), block(30, 200));
        let printed = format!("{first}current rps: 9.1\n{second}current rps: 9.2\n{whole}average rps: 9.15\n");
        check("schbench -r 30", &printed, &[("latency p99", 200.0)]);
        check(
            "stress-ng --cpu 1",
            "stress-ng: metrc: [12] cpu   3000   10.00   9.99   0.01   300.00   301.0\n",
            &[("bogo ops", 300.0)],
        );
        check("true", "tps = 3\n", &[]);
    }

    #[test]
    fn patterns_of_ones_own() {
        let figure = parse("requests/s=/([0-9.]+) req/").expect("fine");
        assert_eq!(figure.read("4 req\n6 req\n").expect("there").value, 5.0);
        assert_eq!(figure.read("none"), None);
        let figure = parse("-p99[ms]=/p99 ([0-9.]+)/").expect("fine");
        let found = figure.read("p99 3").expect("there");
        assert_eq!((found.name.as_str(), found.unit.as_str(), found.better.as_str()), ("p99", "ms", "lower"));
        for wrong in ["x", "x=/y", "x=/y/", "x=/(/", "=/(1)/"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
