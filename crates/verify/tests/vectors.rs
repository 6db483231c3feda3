//! Replays every family of vectors that lies beside the repository; any difference fails.

use std::path::Path;

#[test]
fn every_vector_family_is_equal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    if !folder.is_dir() {
        println!("skipped: no vectors at ../shared/vectors beside the repository");
        return;
    }
    let mut wrong = Vec::new();
    for path in opplab_verify::find_vectors(&folder).expect("the folder can be listed") {
        let outcome = opplab_verify::verify_file(&path).expect("the file has its family's form");
        match outcome.tally {
            None => println!("{} - not built", outcome.family),
            Some(tally) => {
                println!("{} {} {}", outcome.family, tally.cases, tally.mismatches);
                if tally.cases == 0 {
                    wrong.push(format!("{}: no cases", outcome.family));
                }
                if let Some(first) = tally.first {
                    wrong.push(format!("{}: {} of {} differ; {first}", outcome.family, tally.mismatches, tally.cases));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
