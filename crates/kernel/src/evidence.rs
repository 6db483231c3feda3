//! Where facts about kernels are known from, as fields: sources that anybody can open, and what a value was run against.

/// One public source of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The mainline commit that brought it.
    Commit(&'static str),
    /// The mainline commit that replaced it: its text and its removed lines are the source.
    Replaced(&'static str),
    /// A mainline commit that no text at hand names: its id is from memory.
    Recalled(&'static str),
    /// A function in a kernel's source that was read: file and function, and the release or the vendor's tree.
    Code(&'static str, &'static str),
    /// The list of changes of a point release, as Debian's changelog repeats it.
    Changelog(&'static str),
    /// A mail to a public list, by its message id or subject.
    Mail(&'static str),
    /// A file of the kernel's documentation.
    Doc(&'static str),
    /// One of the published texts that the experiments realise, by its number.
    Text(&'static str),
    /// Nothing that was opened.
    Memory,
}

impl core::fmt::Display for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Commit(id) => write!(f, "commit {id}"),
            Self::Replaced(id) => write!(f, "commit {id} (what it replaced)"),
            Self::Recalled(id) => write!(f, "commit {id} (recalled, not opened)"),
            Self::Code(place, tree) if tree.starts_with(|first: char| first.is_ascii_digit()) => {
                write!(f, "{place}, v{tree}")
            }
            Self::Code(place, tree) => write!(f, "{place}, {tree}"),
            Self::Changelog(release) => write!(f, "ChangeLog-{release}"),
            Self::Mail(which) => write!(f, "mail {which}"),
            Self::Doc(path) => write!(f, "{path}"),
            Self::Text(number) => write!(f, "text {number}"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// What stands behind a value, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// These families of vectors, computed by that kernel's own code, run through it.
    Vectors(&'static [&'static str]),
    /// Recordings of these kernels are recomputed exactly with it (`opplab verify traces`).
    Recording(&'static str),
    /// It was written from a kernel's source, and nothing of that kernel has been run against it.
    Source,
    /// Commits, change logs, mails or documentation describe it.
    History,
    /// It was not checked.
    Memory,
    /// For overriding only: an experiment, or a vendor's kernel.
    Override,
}

impl Proof {
    /// The words for each kind, strongest first, and what they mean.
    pub const KINDS: [(&'static str, &'static str); 6] = [
        ("vectors", "computed by that kernel's own code and equal, all of them"),
        ("recordings", "recordings of that kernel are recomputed exactly"),
        ("source", "written from a kernel's source, with nothing of it run against the value"),
        ("history", "from commits, change logs, mails and documentation"),
        ("memory", "not checked"),
        ("override", "in no profile: an experiment, or a vendor's kernel"),
    ];

    /// The proof of a value that some kernel has (`exists`), or that is for overriding only.
    pub const fn of(
        vectors: &'static [&'static str],
        recorded: Option<&'static str>,
        exists: bool,
        sources: &'static [Source],
    ) -> Self {
        if !exists {
            return Self::Override;
        } else if !vectors.is_empty() {
            return Self::Vectors(vectors);
        } else if let Some(kernels) = recorded {
            return Self::Recording(kernels);
        }
        let (mut found, mut i) = (Self::Memory, 0);
        while i < sources.len() {
            match sources[i] {
                Source::Code(..) => return Self::Source,
                Source::Memory | Source::Recalled(_) => {}
                _ => found = Self::History,
            }
            i += 1;
        }
        found
    }

    /// The place in [`Self::KINDS`].
    pub fn kind(self) -> usize {
        match self {
            Self::Vectors(_) => 0,
            Self::Recording(_) => 1,
            Self::Source => 2,
            Self::History => 3,
            Self::Memory => 4,
            Self::Override => 5,
        }
    }

    /// One word, and the families or kernels.
    pub fn text(self) -> String {
        let (word, _) = Self::KINDS[self.kind()];
        match self {
            Self::Vectors(families) => format!("{word} {}", families.join(", ")),
            Self::Recording(kernels) => format!("{word} of {kernels}"),
            _ => word.to_owned(),
        }
    }
}

/// The same change in the stable releases of an older version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backport {
    /// The mainline version whose stable releases have it.
    pub version: (u16, u16),
    /// The first point release with it.
    pub from: u16,
    /// The first one without it again, after a revert or a later change.
    pub until: Option<u16>,
    /// Where that is known from.
    pub source: Source,
}

impl Backport {
    /// In `version`'s stable releases from `from` on, which is in that release's list of changes.
    pub const fn listed(version: (u16, u16), from: u16, release: &'static str) -> Self {
        Self { version, from, until: None, source: Source::Changelog(release) }
    }

    /// The same, known from somewhere else.
    pub const fn known(version: (u16, u16), from: u16, source: Source) -> Self {
        Self { version, from, until: None, source }
    }

    /// The same, known from the mail that announced the patch for that release.
    pub const fn mailed(version: (u16, u16), from: u16, subject: &'static str) -> Self {
        Self::known(version, from, Source::Mail(subject))
    }

    /// Gone again from point release `until` on.
    pub const fn until(self, until: u16) -> Self {
        Self { until: Some(until), ..self }
    }

    /// Whether point release `point` of `version` has it.
    pub const fn covers(&self, version: (u16, u16), point: u16) -> bool {
        let ended = match self.until {
            Some(until) => point >= until,
            None => false,
        };
        self.version.0 == version.0 && self.version.1 == version.1 && point >= self.from && !ended
    }

    /// The releases that have it: `6.12.31 to 6.12.55`, or `6.12.31`.
    pub fn text(&self) -> String {
        let (major, minor) = self.version;
        match self.until {
            Some(until) => format!("{major}.{minor}.{} to {major}.{minor}.{}", self.from, until.saturating_sub(1)),
            None => format!("{major}.{minor}.{}", self.from),
        }
    }
}
