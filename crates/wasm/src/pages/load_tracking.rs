//! What load tracking makes of a task: one task that works and sleeps in turn, its PELT signals and its estimate.
//!
//! ```text
//!   wake ──► work at capacity x clock ──► sleep ──► wake ...
//!    │ update        │ update at each tick   │ update, util_est
//! ```
//! As in the kernel, averages are recomputed when the task wakes, at ticks while it runs and when it sleeps. The thin line is
//! what the same functions give if they are asked each half millisecond. Other tasks, classes and interrupts are not here.

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::pelt::{
    HalfLife, HalfLife8, HalfLife16, HalfLife32, SchedAvg, SeFacts, ramp_up_periods, update_load_avg_se,
};
use opplab_kernel::profile::{KernelProfile, MigratePeltLag, UtilEstDequeue};
use opplab_kernel::sched::attach::{CfsAvg, CfsFacts};
use opplab_kernel::util_est::{UtilEstForm, UtilEstPair, task_util_est, util_est_update};

use super::{MS, Page, US, kernels_since, profile};
use crate::answer::{Answer, Chart, Lane, Series};
use crate::query::{Control, Values};

/// The page.
pub const PAGE: Page = Page {
    name: "load-tracking",
    title: "Load tracking",
    question: "What is the utilisation of this task, and which clock follows?",
    about: "One task alone on its CPU. Work is counted at the clock and capacity of 1024; a slower CPU takes longer for it. \
            The dilated clock that this page follows is that of v5.1 and later.",
    drop: "",
    controls,
    examples: &[
        ("A quarter of a big CPU", ""),
        ("The same on a little one", "capacity=300"),
        ("Half the clock, the same utilisation", "clock_percent=50"),
        ("What the estimate keeps over a sleep", "run_us=12000&period_us=120000&length_ms=500"),
        ("A half-life of 8 ms", "half_life_ms=8"),
        ("To a big CPU after 150 ms", "capacity=300&to_capacity=1024&migrate_ms=150&run_us=3000"),
    ],
    run: super::Run::Now(answer),
};

const WEIGHT: u64 = 1024 << 10;
/// The distance of the thin line's points.
const SAMPLE_NS: u64 = MS / 2;

fn controls() -> Vec<Control> {
    vec![
        Control::range("run_us", "Work", "us", [100, 200_000, 100, 4_000]),
        Control::range("period_us", "Period", "us", [1_000, 500_000, 500, 16_000]),
        Control::range("clock_percent", "Clock", "% of f_max", [5, 100, 1, 100]),
        Control::range("capacity", "Capacity", "of 1024", [64, 1024, 1, 1024]),
        Control::range("start_util", "util_avg at the start", "", [0, 1024, 1, 0]),
        Control::choice("half_life_ms", "Half-life", vec!["32", "16", "8"], "32"),
        Control::range("migrate_ms", "Migrates after (0: stays)", "ms", [0, 1_000, 1, 0]),
        Control::range("to_capacity", "Capacity there", "of 1024", [64, 1024, 1, 1024]),
        Control::range("stop_ms", "Sleeps for good after (0: never)", "ms", [0, 1_000, 1, 0]),
        Control::choice("hz", "CONFIG_HZ", vec!["100", "250", "300", "1000"], "250"),
        Control::choice("kernel", "Kernel", kernels_since((5, 1)), "6.12.117"),
        Control::range("length_ms", "Shown", "ms", [20, 1_000, 10, 300]),
    ]
}

/// What the page was asked, in ns.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Work of an activation at capacity 1024 and full clock.
    pub run_ns: u64,
    /// From one wake-up to the next.
    pub period_ns: u64,
    /// The CPU's clock in parts of 1024.
    pub freq_scale: u64,
    /// The capacities of the two CPUs.
    pub capacity: [u64; 2],
    /// `util_avg` at time 0.
    pub start_util: u64,
    /// The wake-ups from here on are on the second CPU.
    pub migrate_ns: u64,
    /// No wake-up from here on.
    pub stop_ns: u64,
    /// A tick.
    pub tick_ns: u64,
    /// When to end.
    pub end_ns: u64,
    /// Of the kernel.
    pub profile: KernelProfile,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Track {
    /// Time, `util_avg`, `runnable_avg`, `load_avg` and estimate when the kernel recomputed them.
    pub updates: Vec<[u64; 5]>,
    /// Time and `util_avg` as they would be at any time.
    pub samples: Vec<(u64, u64)>,
    /// Begin, end and CPU of running.
    pub ran: Vec<(u64, u64, usize)>,
    /// Wake-ups that came before the work was done.
    pub late: u64,
}

struct Cpu {
    clock: RqClock,
    cfs: CfsAvg,
}

struct State<'a, H> {
    asked: &'a Question,
    now: u64,
    cpu: usize,
    cpus: [Cpu; 2],
    se: SchedAvg,
    pair: UtilEstPair,
    form: Option<UtilEstForm>,
    running: bool,
    track: Track,
    half_life: std::marker::PhantomData<H>,
}

impl<H: HalfLife> State<'_, H> {
    fn clocks(&self, cpu: usize, at: u64) -> RqClock {
        let mut clock = self.cpus[cpu].clock;
        let busy = self.running && cpu == self.cpu;
        clock.update_rq_clock(at, 0, !busy, self.asked.capacity[cpu], self.asked.freq_scale);
        clock
    }

    /// What `util_avg` would be.
    fn sample(&mut self, at: u64) {
        let mut se = self.se;
        let now = self.clocks(self.cpu, at).rq_clock_pelt();
        update_load_avg_se::<H>(now, &mut se, SeFacts::task(WEIGHT, self.running, self.running));
        self.track.samples.push((at, se.util_avg));
    }

    /// The queue's and the task's averages up to `at`.
    fn update(&mut self, cpu: usize, at: u64) {
        let busy = self.running && cpu == self.cpu;
        self.cpus[cpu].clock = self.clocks(cpu, at);
        let now = self.cpus[cpu].clock.rq_clock_pelt();
        if cpu == self.cpu && self.se.last_update_time != 0 {
            let changed = update_load_avg_se::<H>(now, &mut self.se, SeFacts::task(WEIGHT, busy, busy));
            if let (true, Some(form)) = (changed, self.form) {
                self.pair.util_change(form);
            }
        }
        let facts =
            CfsFacts { load_weight: if busy { WEIGHT } else { 0 }, nr_runnable: u64::from(busy), has_curr: busy };
        self.cpus[cpu].cfs.update::<H>(now, facts);
        self.now = at;
    }

    fn estimate(&self) -> u64 {
        match self.form {
            Some(form) => self.pair.task_util_est(form, self.se.util_avg),
            None => task_util_est(&self.se),
        }
    }

    fn note(&mut self) {
        let se = &self.se;
        self.track.updates.push([self.now, se.util_avg, se.runnable_avg, se.load_avg, self.estimate()]);
    }

    fn wake(&mut self, at: u64) {
        let to = usize::from(self.asked.migrate_ns != 0 && at >= self.asked.migrate_ns);
        if to != self.cpu {
            // Without the estimate of the lag, the averages stay as they were when the queue was last brought up to date.
            if self.asked.profile.migrate_pelt_lag == MigratePeltLag::Estimated {
                self.update(self.cpu, at);
            }
            self.cpu = to;
            self.se.last_update_time = 0;
        }
        self.update(to, at);
        if self.se.last_update_time == 0 {
            self.cpus[to].cfs.attach::<H>(&mut self.se, WEIGHT);
        }
        self.running = true;
        self.note();
    }

    fn sleep(&mut self, at: u64) {
        let before = self.asked.profile.util_est_dequeue == UtilEstDequeue::BeforeUpdate;
        if before {
            self.estimate_sleep();
        }
        self.update(self.cpu, at);
        if !before {
            self.estimate_sleep();
        }
        let cpu = &mut self.cpus[self.cpu];
        cpu.clock.update_idle_rq_clock_pelt::<H>(cpu.cfs.avg.util_sum, 0, 0);
        self.running = false;
        self.note();
    }

    fn estimate_sleep(&mut self) {
        let capacity = self.asked.profile.util_est_capacity(self.asked.capacity[self.cpu]);
        match self.form {
            None if !self.asked.profile.estimates_util() => {}
            Some(form) => self.pair.update(form, true, self.se.util_avg, self.se.runnable_avg, capacity),
            None => util_est_update(&mut self.se, true, capacity),
        }
    }
}

/// Follows the task.
pub fn track<H: HalfLife>(asked: &Question) -> Track {
    // A clock that is not 0: the kernel marks what is not attached by a time of 0.
    let start = MS;
    let asked = &Question {
        migrate_ns: if asked.migrate_ns == 0 { 0 } else { asked.migrate_ns + start },
        stop_ns: asked.stop_ns + start,
        end_ns: asked.end_ns + start,
        ..*asked
    };
    let cpu = || Cpu { clock: RqClock::new(start, 0), cfs: CfsAvg::default() };
    let se =
        SchedAvg { util_avg: asked.start_util, runnable_avg: asked.start_util, load_avg: 1024, ..SchedAvg::default() };
    let mut state = State::<H> {
        asked,
        now: start,
        cpu: 0,
        cpus: [cpu(), cpu()],
        se,
        pair: UtilEstPair::default(),
        form: asked.profile.util_est_form(),
        running: false,
        track: Track::default(),
        half_life: std::marker::PhantomData,
    };
    let mut wake = start;
    let mut sample = start;
    // Work left, in ns of capacity 1024 at full clock, with 20 bits of fraction; since when it runs.
    let (mut left, mut since) = (0_u128, start);
    loop {
        let speed = u128::from(asked.capacity[state.cpu] * asked.freq_scale);
        let done = state.running.then(|| state.now.saturating_add(left.div_ceil(speed) as u64));
        let tick = state.running.then(|| (state.now / asked.tick_ns + 1) * asked.tick_ns);
        let next = [Some(wake), done, tick].into_iter().flatten().min().unwrap_or(wake).min(asked.end_ns);
        while sample <= next {
            state.sample(sample);
            sample += SAMPLE_NS;
        }
        if next == asked.end_ns {
            break;
        }
        if state.running {
            left = left.saturating_sub(u128::from(next - state.now) * speed);
        }
        if done == Some(next) {
            state.sleep(next);
            state.track.ran.push((since, next, state.cpu));
        } else if wake == next {
            if state.running {
                // The work of the next activation is done after this one's.
                state.track.late += 1;
                left += u128::from(asked.run_ns) << 20;
                state.update(state.cpu, next);
            } else {
                state.wake(next);
                (left, since) = (u128::from(asked.run_ns) << 20, next);
            }
            wake += asked.period_ns;
            if asked.stop_ns != start && wake >= asked.stop_ns {
                wake = u64::MAX;
            }
        } else {
            state.update(state.cpu, next);
            state.note();
        }
    }
    if state.running {
        state.track.ran.push((since, asked.end_ns, state.cpu));
    }
    let mut track = state.track;
    track.updates.iter_mut().for_each(|row| row[0] -= start);
    track.samples.iter_mut().for_each(|point| point.0 -= start);
    track.ran.iter_mut().for_each(|span| (span.0, span.1) = (span.0 - start, span.1 - start));
    track
}

fn answer(values: &Values<'_>) -> Result<Answer, String> {
    let kernel = profile(values.text("kernel"))?;
    let asked = Question {
        run_ns: values.number("run_us") * US,
        period_ns: values.number("period_us") * US,
        freq_scale: values.number("clock_percent") * 1024 / 100,
        capacity: [values.number("capacity"), values.number("to_capacity")],
        start_util: values.number("start_util"),
        migrate_ns: values.number("migrate_ms") * MS,
        stop_ns: values.number("stop_ms") * MS,
        tick_ns: 1_000 * MS / values.number("hz"),
        end_ns: values.number("length_ms") * MS,
        profile: kernel,
    };
    Ok(match values.text("half_life_ms") {
        "8" => show(&asked, &track::<HalfLife8>(&asked), ramp_up_periods::<HalfLife8>),
        "16" => show(&asked, &track::<HalfLife16>(&asked), ramp_up_periods::<HalfLife16>),
        _ => show(&asked, &track::<HalfLife32>(&asked), ramp_up_periods::<HalfLife32>),
    })
}

fn show(asked: &Question, track: &Track, ramp: fn(u64) -> Option<u32>) -> Answer {
    let mut out = Answer::default();
    let steps = |at: usize| track.updates.iter().map(|row| (row[0], row[at])).collect::<Vec<_>>();
    let last = track.updates.last().copied().unwrap_or_default();
    let tail = asked.end_ns.saturating_sub(asked.period_ns.max(asked.end_ns / 4));
    let late = || track.samples.iter().filter(|(at, _)| *at >= tail).map(|&(_, util)| util);
    let (low, high) = (late().min().unwrap_or(0), late().max().unwrap_or(0));
    let need = (asked.run_ns * 1024).checked_div(asked.period_ns).unwrap_or(0);
    let has = asked.capacity[0] * asked.freq_scale / 1024;
    out.say(format!(
        "The task needs {need} of 1024 on average; its CPU gives {has}. At the end util_avg moves between {low} and {high}."
    ));
    if track.late > 0 {
        out.say(format!(
            "{} wake-ups came while it still worked: the CPU is too slow for it, and idle time no longer pays the dilated clock back.",
            track.late
        ));
    }
    let top =
        ramp(has).map_or_else(|| "not reached".to_owned(), |periods| format!("{} ms", (u64::from(periods) << 20) / MS));
    out.fact("util_avg", last[1], "pelt.c:__update_load_avg_se(), at the last update");
    out.fact("runnable_avg", last[2], "pelt.c:___update_load_avg()");
    out.fact("load_avg", last[3], "pelt.c:___update_load_avg(), nice 0");
    out.fact("task_util_est()", last[4], "fair.c:util_est_update(), the larger of estimate and util_avg");
    out.fact(format!("from 0 to {has} when it always runs"), top, "pelt.c:accumulate_sum(), time at full speed");
    let line = |name: &str, step: bool, color: u8, points: Vec<(u64, u64)>| Series {
        name: name.to_owned(),
        step,
        color,
        points,
    };
    let cpu = |which: usize| Lane {
        name: format!("runs at {}", asked.capacity[which]),
        spans: track
            .ran
            .iter()
            .filter(|span| span.2 == which)
            .map(|&(from, to, _)| (from, to, String::new()))
            .collect(),
        ..Lane::default()
    };
    let lanes = if asked.migrate_ns == 0 { vec![cpu(0)] } else { vec![cpu(0), cpu(1)] };
    out.charts.push(Chart {
        title: "Utilisation".to_owned(),
        x: ("time".to_owned(), "ns", asked.end_ns),
        y: ("utilisation".to_owned(), "", 1024),
        series: vec![
            line("util_avg at any time", false, 0, track.samples.clone()),
            line("util_avg as updated", true, 1, steps(1)),
            line("task_util_est()", true, 2, steps(4)),
        ],
        lanes,
        mark: None,
    });
    out
}
