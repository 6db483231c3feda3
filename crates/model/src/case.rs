//! A case as a file: everything that a run depends on, as one line of canonical JSON, so that it can be sent to another
//! process, run there, and be named by its hash.
//!
//! Equal cases have equal bytes: keys stand in one order, numbers are whole, nothing is left to chance. A program is a
//! list of steps, each a list of a word and its numbers, e.g. `["run",800000,0]`.

use std::sync::Arc;

use crate::error::{Fault, ModelError};
use crate::file::{check_format, machine_from, machine_node};
use crate::file_table::{FileTable as _, file_table};
use crate::json::parse_json;
use crate::machine::Machine;
use crate::op::Op;
use crate::policy::Policy;
use crate::policy_keys::{policy_from, policy_node};
use crate::start::Start;
use crate::tree::{Node, TIME_NS_MAX, to_json};
use crate::workload::{TaskSpec, Workload};

file_table! {
    /// One run, and the labels that its results carry.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CaseFile(this) {
        /// Name of the experiment.
        experiment: String = text().or_empty(),
        /// Name of the benchmark: the label of the workload.
        benchmark: String = text().or_empty(),
        /// Its parameters, e.g. `tasks=10`.
        param: String = text().or_empty(),
        /// Iteration, from 0.
        iteration: u32 = int(0, u32::MAX.into()),
        /// Seed of all random draws.
        seed: u64 = int(0, u64::MAX.into()),
        /// Simulated time in ns.
        duration_ns: u64 = int(1, TIME_NS_MAX),
    }
    given {
        /// What it runs on; the cases of an experiment share it.
        machine: Arc<Machine>,
        /// Under which policy.
        policy: Policy,
        /// What runs; the policies of an experiment share it.
        workload: Arc<Workload>,
        /// From which state of the machine: that of a recording, of whose work it is.
        start: Start,
    }
}

/// The benchmark and the task of a machine that has nothing to do.
pub const IDLE: &str = "idle";

impl CaseFile {
    /// The same machine and time with nothing to do. A workload has a task: this one's begins after the end.
    #[must_use]
    pub fn without_work(&self) -> Self {
        let task = TaskSpec {
            name: IDLE.to_owned(),
            initial: true,
            delay_ns: self.duration_ns.saturating_mul(2),
            ops: vec![Op::Run { work_ns: 1, fixed: 0 }, Op::Exit],
            ..TaskSpec::default()
        };
        let mut workload =
            Workload { metric: None, warmup_ns: 0, tasks: vec![task], ..Workload::clone(&self.workload) };
        workload.groups.iter_mut().for_each(|group| group.tasks.clear());
        let named = Self { benchmark: IDLE.to_owned(), param: String::new(), ..self.clone() };
        Self { workload: Arc::new(workload), ..named }
    }

    /// The case as canonical JSON.
    pub fn to_json(&self) -> String {
        let format = [("format".to_owned(), Some(Node::from(1)))];
        let parts = [
            ("machine", Some(machine_node(&self.machine))),
            ("policy", Some(policy_node(&self.policy))),
            ("workload", Some(self.workload.node())),
            ("start", self.start.node()),
        ];
        let parts = parts.map(|(key, node)| (key.to_owned(), node));
        to_json(&Node::table(format.into_iter().chain(self.entries()).chain(parts)))
    }

    /// Reads a case. `file` is its name for messages.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn from_json(file: &str, text: &str) -> Result<Self, ModelError> {
        parse_json(text).and_then(|root| Self::from_root(&root)).map_err(|fault| fault.in_file(file))
    }

    fn from_root(root: &Node) -> Result<Self, Fault> {
        let mut case = Self::default();
        let table = case.read(root, "case", &["format", "machine", "policy", "workload", "start"])?;
        check_format(&table)?;
        let machine = machine_from(table.need("machine")?)?;
        let node = table.need("workload")?;
        let workload = Workload::from_node(node, "workload")?;
        workload.check(machine.nr_cpus()).map_err(|why| Fault::new(node.at, format!("workload: {why}")))?;
        case.policy = policy_from(table.need("policy")?, &Policy::default())?;
        case.start = table.get("start").map_or(Ok(Start::default()), Start::from_node)?;
        (case.machine, case.workload) = (Arc::new(machine), Arc::new(workload));
        Ok(case)
    }
}

/// The hash that names the results of the case whose canonical JSON `text` is: FNV-1a, 128 bits, over the version of
/// opplab and the text, so that another version does not take over its results.
pub fn hash_text(text: &str) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let version = env!("CARGO_PKG_VERSION").bytes().chain(*b"\0");
    let hash = version.chain(text.bytes()).fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}
