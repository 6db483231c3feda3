//! Events per second that become load tracking: `cargo bench -p opplab-signals`.
//!
//! The input is the scheduling and frequency events of a shared trace (6 CPUs, 6.12), repeated to 82 MB. Without shared data there
//! is nothing to measure.

use std::sync::OnceLock;

use divan::Bencher;
use divan::counter::ItemsCount;
use opplab_signals::decode::decoded;
use opplab_signals::pelt::{CpuFacts, PeltReplay, Sample};
use opplab_trace::{ReadOptions, TraceFile, write};

const SCHED: &[&str] = &["sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "cpu_frequency"];

/// The bytes of the repeated trace, and the number of its events: 1.8 million.
fn sched() -> Option<&'static (Vec<u8>, u64)> {
    static INPUT: OnceLock<Option<(Vec<u8>, u64)>> = OnceLock::new();
    INPUT.get_or_init(|| repeated().map(|bytes| (bytes.clone(), count(bytes)))).as_ref()
}

fn repeated() -> Option<Vec<u8>> {
    let path = opplab_testdata::shared("traces/arm64-612-juno-eas-fiectr-ramp_up/trace.dat")?;
    let options = ReadOptions::only(SCHED);
    let trace = TraceFile::open(&path).and_then(|file| file.read(&options)).expect("a sound file");
    let mut small = Vec::new();
    write::trace_dat(&trace, &mut small).expect("memory takes bytes");
    Some(write::repeat_trace_dat(&small, 150).expect("a file of our own"))
}

fn count(bytes: Vec<u8>) -> u64 {
    let options = ReadOptions::default();
    let info = TraceFile::from_bytes(bytes, &options).and_then(|file| file.info(&options)).expect("a sound file");
    info.events.values().sum()
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn events_to_load_tracking(bencher: Bencher<'_, '_>) {
    let Some((bytes, events)) = sched() else { return };
    let options = ReadOptions::default();
    let file = || TraceFile::from_bytes(bytes.clone(), &options).expect("a sound file");
    bencher.counter(ItemsCount::new(*events)).with_inputs(file).bench_values(|file| {
        let mut sum = 0u64;
        let facts = [CpuFacts::default(); 6];
        let mut replay: PeltReplay<_> = PeltReplay::new(&facts, 0, |sample: &Sample| sum += sample.util_avg);
        file.stream(&options, &mut decoded(&mut replay)).expect("a sound file");
        sum
    });
}

fn main() {
    divan::main();
}
