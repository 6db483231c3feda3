//! PCMark-like work on a phone: frames on a display's beat, and bursts that a score is made of.

use super::shape::{Program, cycles_ns, exponential, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{Op, Workload};

pub(super) const PCMARK: Benchmark = Benchmark {
    name: "pcmark",
    about: "PCMark for Android, Work (text 003): a UI thread draws a frame each 16.6 ms, the render thread and \
            surfaceflinger go on with it, background threads run in bursts, and a worker does one piece of the score's \
            work after the other (scrolling, writing, photo, data), with the user's pauses between them. The score \
            counts pieces. How the phases really run is not published; this is a shape, not a record.",
    reports: Some(Reports { name: "score", unit: "score", higher_is_better: true, rule: MetricRule::Rate }),
    params: &[
        Param::int("frame_us", (1000, 1_000_000), "16667", "time between frames in us"),
        Param::int("ui_cycles", (1, 1_000_000_000), "6000000", "mean cycles of the UI thread for a frame").calibrated(),
        Param::int("render_cycles", (1, 1_000_000_000), "5000000", "mean cycles of the render thread for a frame")
            .calibrated(),
        Param::int("compose_cycles", (1, 1_000_000_000), "2000000", "mean cycles of surfaceflinger for a frame")
            .calibrated(),
        Param::int("piece_cycles", (1, 1_000_000_000_000), "60000000", "mean cycles of a piece of the score's work")
            .calibrated(),
        Param::int("pause_us", (0, 100_000_000), "15000", "pause between pieces in us").calibrated(),
        Param::int("background_threads", (0, 100), "2", "threads that run in bursts"),
        Param::int("burst_cycles", (1, 1_000_000_000_000), "8000000", "mean cycles of a burst").calibrated(),
        Param::int("burst_us", (1000, 1_000_000_000), "50000", "time between bursts in us").calibrated(),
        Param::fixed_permille("100"),
        Param::int("score_permille", (1, 1_000_000_000), "350000", "score of a piece a second in 1/1000").calibrated(),
    ],
    build: pcmark,
};

fn pcmark(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let beat = |us: u64| Op::Timer { timer: 0, period_ns: us * 1000, absolute: false, own: true };
    let ui = Program::of(|program| {
        program.forever(|program| {
            program.draw(0, fixed).op(Op::SemPost { sem: 0 }).op(beat(params.int("frame_us")));
        });
    });
    let stage = |draw: u32, next: Option<u32>| {
        Program::of(|program| {
            program.forever(|program| {
                program.op(Op::SemWait { sem: draw - 1 }).draw(draw, fixed);
                if let Some(sem) = next {
                    program.op(Op::SemPost { sem });
                }
            });
        })
    };
    let worker = Program::of(|program| {
        program.forever(|program| {
            program.draw(3, fixed).op(Op::Count).op(Op::Sleep { ns: params.int("pause_us") * 1000 });
        });
    });
    let burst = Program::of(|program| {
        program.forever(|program| {
            program.draw(4, fixed).op(beat(params.int("burst_us")));
        });
    });
    let mut tasks = vec![
        ui.task(String::from("UI")),
        stage(1, Some(1)).task(String::from("RenderThread")),
        stage(2, None).task(String::from("surfaceflinger")),
        worker.task(String::from("worker")),
    ];
    tasks.extend((0..params.int("background_threads")).map(|index| burst.task(format!("background{index}"))));
    for (index, task) in (0u64..).zip(&mut tasks) {
        task.delay_ns = start_ns(seed, index, 16_000_000);
        task.nr_own_timers = 1;
    }
    let cycles = ["ui_cycles", "render_cycles", "compose_cycles", "piece_cycles", "burst_cycles"];
    Ok(Workload {
        tasks,
        semaphores: vec![0, 0],
        draws: cycles.map(|name| exponential(cycles_ns(machine, params.int(name)))).to_vec(),
        duration_ns: Some(21_000_000_000),
        warmup_ns: 1_000_000_000,
        metric: PCMARK.reports.and_then(|reports| reports.metric((params.int("score_permille"), 1000))),
        ..Workload::default()
    })
}
