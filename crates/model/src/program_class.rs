//! Classes of programs: what a kind of program makes of a machine's cores.
//!
//! Without a class work is in proportion to the clock and a core's capacity, and a busy CPU draws its `busy_uw`. Real
//! programs wait for memory, whose time does not follow the clock, gain more or less from a bigger core, and draw more
//! or less than what a machine's power was measured with. A `[[program_class]]` gives by how much, by cluster:
//!
//! ```toml
//! [[program_class]]
//! name = "memory"
//! cluster = [
//!   { name = "A55", capacity = 555, mem_share = 300, power = 900 },  # What is left out is as without a class.
//!   { name = "A76", mem_share = 600 },
//! ]
//! ```
//!
//! The time of a ns of work (on the biggest CPU at its reference clock, running this class) on a CPU of the cluster is
//! `1024 / capacity x ((1 - mem_share) x reference / clock + mem_share)`, shares in 1/1024.

use crate::error::Fault;
use crate::node_table;
use crate::tree::Node;

/// What a class of programs is on the CPUs of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassOn {
    /// Its speed at the cluster's reference clock, in 1/1024 of that on the biggest CPU at its own.
    pub capacity: u32,
    /// The part of its time at the reference clock that does not scale with the clock, in 1/1024.
    pub mem_share: u32,
    /// What a busy CPU draws, in 1/1024 of its `busy_uw`.
    pub power: u32,
}

/// A class of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramClass {
    /// Its name, e.g. `memory`.
    pub name: String,
    /// Of each cluster of the machine.
    pub on: Vec<ClassOn>,
}

/// What runs without a class on a cluster.
fn without_class(&(_, capacity): &(&str, u32)) -> ClassOn {
    ClassOn { capacity, mem_share: 0, power: 1024 }
}

/// Reads the `[[program_class]]` tables of a machine with these clusters (name, capacity).
///
/// # Errors
/// What is wrong, with its place and the nearest valid name.
pub fn classes_from(node: Option<&Node>, clusters: &[(&str, u32)]) -> Result<Vec<ProgramClass>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut classes: Vec<ProgramClass> = Vec::new();
    for item in node.as_list("program_class")? {
        let table = item.as_table("program_class", &["name", "cluster"])?;
        let name = table.need_str("name")?.to_owned();
        if name.is_empty() || classes.iter().any(|earlier| earlier.name == name) {
            return Err(Fault::new(item.at, format!("two program classes are called `{name}`, or one has no name")));
        }
        let mut on: Vec<ClassOn> = clusters.iter().map(without_class).collect();
        let mut told = vec![false; clusters.len()];
        for part in table.need("cluster")?.as_list("cluster")? {
            let table = part.as_table("cluster", &["name", "capacity", "mem_share", "power"])?;
            let cluster = table.need_str("name")?;
            let Some(index) = clusters.iter().position(|known| known.0 == cluster) else {
                let names = clusters.iter().map(|known| known.0);
                return Err(Fault::unknown(table.need("name")?.at, "cluster", cluster, names));
            };
            if std::mem::replace(&mut told[index], true) {
                return Err(Fault::new(part.at, format!("cluster `{cluster}` is repeated")));
            }
            on[index] = ClassOn {
                capacity: table.int_or("capacity", on[index].capacity, 1, 4096)?,
                mem_share: table.int_or("mem_share", 0, 0, 1024)?,
                power: table.int_or("power", 1024, 1, 16_384)?,
            };
        }
        classes.push(ProgramClass { name, on });
    }
    Ok(classes)
}

/// The `[[program_class]]` tables; `None` if there are no classes.
pub fn classes_node(classes: &[ProgramClass], clusters: &[(&str, u32)]) -> Option<Node> {
    let part = |(&ClassOn { capacity, mem_share, power }, (name, _)): (&ClassOn, &(&str, u32))| {
        node_table! { name, capacity, mem_share, power }
    };
    let class = |ProgramClass { name, on }: &ProgramClass| {
        node_table! { name, cluster: on.iter().zip(clusters).map(part).collect::<Vec<_>>() }
    };
    (!classes.is_empty()).then(|| Node::list(classes.iter().map(class)))
}

#[cfg(test)]
mod tests {
    use crate::file::{machine_to_toml, parse_machine};

    const MACHINE: &str = r#"format = 1
        name = "two"
        [[driver]]
        name = "scmi"
        transition_latency_us = 100
        fast_switch = true
        [[cluster]]
        name = "little"
        cpus = "0"
        capacity = 400
        opp = [{ khz = 1000000 }]
        [[cluster]]
        name = "big"
        cpus = "1"
        capacity = 1024
        opp = [{ khz = 2000000 }]
        [[program_class]]
        name = "memory"
    "#;

    fn read(parts: &str) -> Result<crate::machine::Machine, String> {
        parse_machine("two.toml", &format!("{MACHINE}\ncluster = [{parts}]")).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_is_as_without_a_class_and_all_is_written_back() {
        let machine = read("{ name = \"little\", capacity = 700, mem_share = 512, power = 800 }").expect("it is right");
        let class = &machine.program_classes[0];
        assert_eq!((class.on[0].capacity, class.on[0].mem_share, class.on[0].power), (700, 512, 800));
        assert_eq!((class.on[1].capacity, class.on[1].mem_share, class.on[1].power), (1024, 0, 1024));
        let again = parse_machine("again.toml", &machine_to_toml(&machine)).expect("what was written is read");
        assert_eq!(again, machine);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_nearest_name() {
        let wrong = |parts: &str, words: &str| {
            let error = read(parts).expect_err("it is wrong");
            assert!(error.contains(words), "{error}");
        };
        wrong("{ name = \"litle\" }", "did you mean `little`?");
        wrong("{ name = \"big\", memshare = 3 }", "did you mean `mem_share`?");
        wrong("{ name = \"big\", mem_share = 1025 }", "mem_share");
        wrong("{ name = \"big\" }, { name = \"big\" }", "repeated");
    }
}
