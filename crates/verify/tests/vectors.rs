//! Replays every family of golden vectors of the real kernel; any difference fails.

use std::path::Path;

#[test]
fn every_vector_family_is_equal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut wrong = Vec::new();
    let mut families = 0;
    for path in opplab_verify::find_vectors(&folder).expect("the folder can be listed") {
        let outcome = opplab_verify::verify_file(&path).expect("the file has its family's form");
        families += 1;
        match outcome.tally {
            None => wrong.push(format!("{}: not built", outcome.family)),
            Some(tally) if tally.cases == 0 => wrong.push(format!("{}: no cases", outcome.family)),
            Some(tally) => {
                if let Some(first) = tally.first {
                    wrong.push(format!("{}: {} of {} differ; {first}", outcome.family, tally.mismatches, tally.cases));
                }
            }
        }
    }
    assert_eq!(families, opplab_verify::all_families().count(), "every family has its file of vectors");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
