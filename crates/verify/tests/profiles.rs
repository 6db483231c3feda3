//! `docs/kernel-profiles.md` says what the code does.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_page_of_profiles_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kernel-profiles.md");
    let text = opplab_kernel::profile_table::markdown();
    if std::env::var_os("OPPLAB_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the page can be written");
    }
    let page = std::fs::read_to_string(&path).expect("docs/kernel-profiles.md is there");
    assert!(page == text, "docs/kernel-profiles.md is not what the code says; write it anew with OPPLAB_BLESS=1");
}

/// Families that prove a value are families that there are.
#[test]
fn proofs_name_families_that_there_are() {
    let known: BTreeSet<&str> = opplab_verify::all_families().map(|family| family.name).collect();
    for family in opplab_kernel::profile_table::families() {
        assert!(known.contains(family), "{family}");
    }
}
