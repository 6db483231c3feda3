//! The same case has the same fingerprint in every build: `tests/data/fingerprints.txt` holds those that the debug build of this
//! test and the release build under the Python package both must give.
//!
//! `OPPLAB_UPDATE=1 cargo test -p opplab-sim --test all fingerprints::` writes the file anew, after a change of behaviour that is
//! meant.

#![expect(clippy::disallowed_methods, reason = "a test reads its data and may be told to write it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opplab_model::event::NullSink;
use opplab_model::experiment::{SourceText, parse_experiment};
use opplab_sim::{Case, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn fingerprints_are_those_of_every_build() {
    let experiment = parse_experiment("fingerprints.toml", &read(&root().join("tests/data/fingerprints.toml")))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut machines = BTreeMap::new();
    for name in experiment.machines() {
        let file = format!("{name}.toml");
        let text = read(&root().join("python/opplab/data/machines").join(&file));
        machines.insert(name.to_owned(), SourceText { file, text });
    }
    let cases = experiment.expand(&machines, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"));
    let mut lines = String::new();
    for file in cases {
        let name = format!("{} {} {} {}", file.machine.name, file.policy.label, file.benchmark, file.param);
        let case = Case::from(file);
        let outcome = run(&case, &mut NullSink).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        lines += &format!("{:016x} {}\n", outcome.fingerprint, name.trim_end());
    }
    let golden = root().join("tests/data/fingerprints.txt");
    if std::env::var_os("OPPLAB_UPDATE").is_some() {
        std::fs::write(&golden, &lines).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
    }
    assert_eq!(lines, read(&golden), "runs have other events: if that is meant, OPPLAB_UPDATE=1 writes the file anew");
}
