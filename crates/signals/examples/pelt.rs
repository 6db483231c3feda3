//! `pelt FILE`: rebuilds load tracking from a trace and says how fast that was.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use opplab_signals::decode::{Decoder, SchedSink};
use opplab_signals::pelt::{CpuFacts, PeltReplay, Sample};
use opplab_trace::{Error, Event, ReadOptions, TraceFile};

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("usage: pelt FILE");
        return ExitCode::from(2);
    };
    match pelt(Path::new(&file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed to read the trace: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Rebuilds load tracking from the scheduling and frequency events and says how fast that was.
fn pelt(file: &Path) -> Result<(), Error> {
    let names = [
        "sched_switch",
        "sched_wakeup",
        "sched_wakeup_new",
        "sched_migrate_task",
        "sched_process_free",
        "cpu_frequency",
    ];
    let options = ReadOptions { missing_ok: true, ..ReadOptions::only(&names) };
    let start = Instant::now();
    let file = TraceFile::open(file)?;
    let (cpus, offset) = {
        let reader = file.reader(&options)?;
        (reader.meta().cpus, reader.meta().time_offset_ns)
    };
    let (mut samples, mut util) = (0u64, 0u64);
    let mut events = 0u64;
    let facts = vec![CpuFacts::default(); cpus as usize];
    let mut replay: PeltReplay<_> = PeltReplay::new(&facts, offset, |sample: &Sample| {
        samples += 1;
        util += sample.util_avg;
    });
    let mut decoder = Decoder::default();
    file.stream(&options, &mut |event: &Event<'_>| {
        events += 1;
        replay.event(event, &decoder.decode(event));
        ControlFlow::Continue(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{events} events to {samples} samples (mean util_avg {:.1}) in {seconds:.3} s: {:.2} M events/s",
        util as f64 / samples.max(1) as f64,
        events as f64 / seconds / 1e6
    );
    Ok(())
}
