//! What every target does with its input: import, make a machine, report, check.
#![allow(dead_code, unreachable_pub)]

use opplab_import::fmax::{FmaxInput, fmax};
use opplab_import::{check, import_bytes, to_machine};

/// The whole way from bytes to findings; whatever is refused is fine.
pub fn all(data: &[u8]) {
    if let Ok(facts) = import_bytes("fuzz", data)
        && let Ok(imported) = to_machine(&facts)
    {
        let report = fmax(&FmaxInput::of_facts(&facts, &imported), None);
        check::check(Some(&facts), &imported.machine, &report);
    }
}

/// A dump of these texts.
pub fn dump(sys: &[u8], cpuinfo: &[u8], msr: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in [("m/sys/inlinefiles.txt", sys), ("m/proc/cpuinfo", cpuinfo), ("m/msr/msr.txt", msr)] {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text).expect("a tar in memory");
    }
    builder.into_inner().expect("a tar in memory")
}
