//! A damaged vector file is an error with its line, never a panic.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use opplab_verify::{VerifyError, verify_file};

/// A file of `family` in a folder of its own, with `text`.
fn written(case: &str, family: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("opplab-damaged-{}-{case}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(family);
    std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes())).expect("a file");
    path
}

/// The first lines of a family's file.
fn lines(family: &str, nr: usize) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(family);
    let bytes = std::fs::read(path).expect("vectors");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(bytes.as_slice()), &mut text).expect("gzip");
    text.lines().take(nr).map(str::to_owned).collect()
}

fn refused(case: &str, family: &str, text: &str) -> VerifyError {
    verify_file(&written(case, family, text)).expect_err("it is damaged")
}

/// A CPU, a state or an index that is not there: the line is named.
#[test]
fn values_out_of_range_are_errors_of_their_line() {
    let steps = lines("sugov_seq.jsonl.gz", 2).join("\n").replace("\"cpu\":0,", "\"cpu\":99,");
    let error = refused("cpu", "sugov_seq.jsonl", &steps).to_string();
    assert!(error.contains("sugov_seq.jsonl:1"), "{error}");

    let chosen = lines("cpuidle_teo_v61.jsonl.gz", 1)[0].replace("\"reflect\":{\"idx\":3", "\"reflect\":{\"idx\":77");
    // The governor is told of a state that the table has not: it may differ, but not end the run.
    verify_file(&written("state", "cpuidle_teo_v61.jsonl", &chosen)).expect("a form that the family has");
}

#[test]
fn other_damage_is_an_error_too() {
    let cut = &lines("feec_v61.jsonl.gz", 1)[0];
    assert!(refused("cut", "feec_v61.jsonl", &cut[..cut.len() / 2]).to_string().contains("feec_v61.jsonl:1"));
    let columns = lines("util_est_v61.csv.gz", 3);
    let text = format!("{}\n{}\n", columns[0], columns[1].replacen(',', ";", 3));
    assert!(refused("columns", "util_est_v61.csv", &text).to_string().contains(":2"));
    let header = format!("{}\n", columns[0]);
    assert!(refused("empty", "util_est_v61.csv", &header).to_string().contains("no case"));
    let task = columns[1].split(',').enumerate().map(|(at, field)| if at == 5 { "99" } else { field });
    let text = format!("{}\n{}\n", columns[0], task.collect::<Vec<_>>().join(","));
    assert!(refused("task", "util_est_v61.csv", &text).to_string().contains(":2"));
}
