//! What all proposals have in common: a name, parameters, what they set.

use core::fmt;

use super::PROPOSALS;
use crate::cpufreq::perf_margin::PerfMargin;

/// How tasks are boosted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskBoost {
    /// Levels of boost; the highest is the whole capacity.
    pub levels: u32,
    /// How long requests are counted at a level.
    pub interval_us: u64,
}

/// What the chosen proposals change; [`Proposals::NONE`] is the kernel as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposals {
    /// What schedutil and the energy model add to a utilisation.
    pub margin: PerfMargin,
    /// schedutil raises the clock for tasks that wait for I/O.
    pub sugov_iowait_boost: bool,
    /// intel_pstate does so in its active mode, with and without HWP.
    pub intel_iowait_boost: bool,
    /// Each task has a boost for I/O of its own instead.
    pub task_iowait_boost: Option<TaskBoost>,
    /// A CPU of the highest capacity with one task is never overutilised.
    pub lone_task: bool,
    /// Ticks for which the root domain stays overutilised after the last CPU that was.
    pub overutilized_linger_ticks: u32,
    /// A CPU is overutilised if a task that runs until the next tick would fill it.
    pub overutilized_by_next_tick: bool,
    /// Tasks that are stuck on a CPU are pushed by energy.
    pub push_eas: bool,
    /// The estimate of a task leaves out the time that it waited.
    pub util_burst: bool,
    /// How much faster than time the estimate of a running task grows; `None`: not while it runs.
    pub rampup_multiplier: Option<u32>,
    /// Utilisation clamps add up over the tasks of a queue.
    pub uclamp_sum: bool,
    /// teo prefers shallow states on CPUs that are in use.
    pub teo_util: bool,
    /// How often the half-life of load tracking is divided by two or four.
    pub pelt_multiplier: u32,
}

impl Proposals {
    /// No proposal.
    pub const NONE: Self = Self {
        margin: PerfMargin::QUARTER,
        sugov_iowait_boost: true,
        intel_iowait_boost: true,
        task_iowait_boost: None,
        lone_task: false,
        overutilized_linger_ticks: 0,
        overutilized_by_next_tick: false,
        push_eas: false,
        util_burst: false,
        rampup_multiplier: None,
        uclamp_sum: false,
        teo_util: false,
        pelt_multiplier: 1,
    };

    /// What the proposals of `list` set together, each `NAME` or `NAME:key=value,...`.
    ///
    /// # Errors
    /// [`ProposalError`] of the first that is not understood, is there twice, or does not go with an earlier one.
    pub fn of<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<Self, ProposalError> {
        let mut proposals = Self::NONE;
        let mut chosen: Vec<&'static ProposalEntry> = Vec::new();
        for text in list {
            let (entry, values) = parse(text)?;
            for earlier in &chosen {
                if earlier.name == entry.name {
                    return Err(ProposalError::Twice(entry.name));
                }
                if earlier.excludes.contains(&entry.name) || entry.excludes.contains(&earlier.name) {
                    return Err(ProposalError::Excluded(earlier.name, entry.name));
                }
            }
            (entry.apply)(&mut proposals, &values);
            chosen.push(entry);
        }
        Ok(proposals)
    }
}

impl Default for Proposals {
    fn default() -> Self {
        Self::NONE
    }
}

/// A parameter of a proposal: a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProposalParam {
    /// Its name, with the unit last.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The least.
    pub min: u32,
    /// The most.
    pub max: u32,
    /// Its default.
    pub default: u32,
}

/// The values of a proposal's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    params: &'static [ProposalParam],
    given: Vec<(&'static str, u32)>,
}

impl Values {
    /// The value of the parameter called `name`.
    ///
    /// # Panics
    /// If the proposal has no such parameter.
    pub fn get(&self, name: &str) -> u32 {
        let given = self.given.iter().find(|(known, _)| *known == name);
        given.map_or_else(|| self.default_of(name), |(_, value)| *value)
    }

    fn default_of(&self, name: &str) -> u32 {
        let param = self.params.iter().find(|param| param.name == name);
        param.map(|param| param.default).expect("a parameter of this proposal")
    }
}

/// A proposal that can be named in a policy.
#[derive(Debug)]
pub struct ProposalEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub what: &'static str,
    /// Who proposed it, when, and where that can be read.
    pub thread: &'static str,
    /// What its thread leaves open, or what is different here.
    pub differs: &'static str,
    /// Its parameters.
    pub params: &'static [ProposalParam],
    /// Proposals that change the same thing.
    pub excludes: &'static [&'static str],
    /// What the kernel must have, if not all have it.
    pub needs: Option<Need>,
    /// The part of the kernel that it changes, if a policy may be without it.
    pub within: Option<Within>,
    /// Sets what it changes.
    pub apply: fn(&mut Proposals, &Values),
}

/// What a proposal changes, and some kernels do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Utilisation clamps.
    Clamps,
    /// One estimate of a task's utilisation.
    OneEstimate,
}

/// A part of the kernel that a policy chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// Energy-aware scheduling.
    EnergyAware,
    /// A governor.
    Governor(&'static str),
    /// An idle governor.
    IdleGovernor(&'static str),
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EnergyAware => f.write_str("energy-aware scheduling"),
            Self::Governor(name) => write!(f, "governor {name}"),
            Self::IdleGovernor(name) => write!(f, "idle governor {name}"),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clamps => "utilisation clamps (Linux 5.3)",
            Self::OneEstimate => "one estimate per task (Linux 6.8)",
        })
    }
}

/// The proposal and the values that `text` names.
///
/// # Errors
/// [`ProposalError`].
pub fn parse(text: &str) -> Result<(&'static ProposalEntry, Values), ProposalError> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let Some(entry) = PROPOSALS.iter().copied().find(|entry| entry.name == name) else {
        return Err(ProposalError::UnknownProposal(name.to_owned()));
    };
    let mut given: Vec<(&'static str, u32)> = Vec::new();
    for pair in rest.into_iter().flat_map(|rest| rest.split(',')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(param) = entry.params.iter().find(|param| param.name == key) else {
            let known = entry.params.iter().map(|param| param.name).collect();
            return Err(ProposalError::UnknownParam { proposal: entry.name, name: key.to_owned(), known });
        };
        let number = value.bytes().all(|digit| digit.is_ascii_digit()).then(|| value.parse::<u32>().ok()).flatten();
        let Some(number) = number.filter(|number| (param.min..=param.max).contains(number)) else {
            return Err(ProposalError::BadValue { proposal: entry.name, param, value: value.to_owned() });
        };
        if given.iter().any(|(known, _)| *known == param.name) {
            return Err(ProposalError::BadValue { proposal: entry.name, param, value: format!("{value} and another") });
        }
        given.push((param.name, number));
    }
    Ok((entry, Values { params: entry.params, given }))
}

/// `text` in the form that all writings of the same proposal have: parameters in order, without those at their default.
///
/// # Errors
/// [`ProposalError`].
pub fn canonical(text: &str) -> Result<String, ProposalError> {
    let (entry, values) = parse(text)?;
    let said = entry.params.iter().filter(|param| values.get(param.name) != param.default);
    let said: Vec<String> = said.map(|param| format!("{}={}", param.name, values.get(param.name))).collect();
    Ok(if said.is_empty() { entry.name.to_owned() } else { format!("{}:{}", entry.name, said.join(",")) })
}

/// Why a proposal was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalError {
    /// No proposal has this name.
    UnknownProposal(String),
    /// The proposal has no such parameter.
    UnknownParam {
        /// The proposal.
        proposal: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A parameter does not take this value.
    BadValue {
        /// The proposal.
        proposal: &'static str,
        /// The parameter.
        param: &'static ProposalParam,
        /// What was asked for.
        value: String,
    },
    /// It is there twice.
    Twice(&'static str),
    /// Two change the same thing.
    Excluded(&'static str, &'static str),
    /// The kernel does not have what it changes.
    Needs(&'static str, Need),
}

impl ProposalError {
    /// The name that is wrong and those that would not be, if it is a name.
    pub fn wrong_name(&self) -> Option<(&str, Vec<&'static str>)> {
        match self {
            Self::UnknownProposal(name) => Some((name, PROPOSALS.iter().map(|entry| entry.name).collect())),
            Self::UnknownParam { name, known, .. } => Some((name, known.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for ProposalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProposal(name) => {
                let known: Vec<&str> = PROPOSALS.iter().map(|entry| entry.name).collect();
                write!(f, "unknown proposal {name:?} (there are {})", known.join(", "))
            }
            Self::UnknownParam { proposal, name, known } if known.is_empty() => {
                write!(f, "proposal {proposal} has no parameter {name:?} (it has none)")
            }
            Self::UnknownParam { proposal, name, known } => {
                write!(f, "proposal {proposal} has no parameter {name:?} (it has {})", known.join(", "))
            }
            Self::BadValue { proposal, param, value } => {
                let ProposalParam { name, min, max, .. } = param;
                write!(
                    f,
                    "parameter {name} of proposal {proposal} is {value:?}; it takes a whole number from {min} to {max}"
                )
            }
            Self::Twice(name) => write!(f, "proposal {name} is named twice"),
            Self::Excluded(one, other) => {
                write!(f, "proposals {one} and {other} change the same thing; name one of them")
            }
            Self::Needs(name, what) => write!(f, "proposal {name} needs {what}, which this kernel does not have"),
        }
    }
}

impl core::error::Error for ProposalError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &[&str]) -> String {
        Proposals::of(list.iter().copied()).err().map_or_else(String::new, |error| error.to_string())
    }

    /// Goal: each proposal changes something by itself, also at its defaults, and names where it is from.
    #[test]
    fn every_proposal_changes_something() {
        assert_eq!(Proposals::of([]), Ok(Proposals::NONE));
        for entry in PROPOSALS {
            let set = Proposals::of([entry.name]).unwrap_or_else(|error| panic!("{error}"));
            assert_ne!(set, Proposals::NONE, "{}", entry.name);
            assert!(entry.what.ends_with('.') && entry.thread.contains("http"), "{}", entry.name);
            for param in entry.params {
                assert!((param.min..=param.max).contains(&param.default), "{} of {}", param.name, entry.name);
                for value in [param.min, param.max] {
                    assert_eq!(refused(&[&format!("{}:{}={value}", entry.name, param.name)]), "");
                }
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let unknown = Proposals::of(["lone-tasks"]).expect_err("is none");
        assert_eq!(
            unknown.wrong_name().map(|(name, known)| (name, known.len())),
            Some(("lone-tasks", PROPOSALS.len()))
        );
        assert_eq!(refused(&["lone-task:x=1"]), "proposal lone-task has no parameter \"x\" (it has none)");
        assert_eq!(refused(&["headroom:pct=1"]), "proposal headroom has no parameter \"pct\" (it has percent)");
        for value in ["", "x", "-1", "1e2", "99999999999", "99"] {
            let text = format!("headroom:percent={value}");
            let why =
                format!("parameter percent of proposal headroom is {value:?}; it takes a whole number from 100 to 200");
            assert_eq!(refused(&[&text]), why);
        }
        assert_eq!(refused(&["lone-task", "lone-task"]), "proposal lone-task is named twice");
        assert!(refused(&["headroom", "response-time"]).contains("change the same thing"));
        assert!(refused(&["headroom:percent=110,percent=120"]).contains("and another"));
        assert!(refused(&["headroom:"]).contains("has no parameter \"\""));
    }

    #[test]
    fn one_form_for_all_writings() {
        assert_eq!(canonical("headroom:percent=100").as_deref(), Ok("headroom"));
        assert_eq!(canonical("headroom:percent=110").as_deref(), Ok("headroom:percent=110"));
        let swapped = canonical("no-iowait-boost:intel=0,governor=1");
        assert_eq!(swapped.as_deref(), Ok("no-iowait-boost:intel=0"));
    }
}
