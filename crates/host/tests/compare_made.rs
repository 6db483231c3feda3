//! `compare` on made machines, whose truth is known: do intervals hold it, is nothing called a change, is everything put
//! back? Beside it what people do without the command: all runs of one setting, then all of the other.
//!
//! `cargo test -p opplab-host --release --test all compare_made:: -- --ignored --nocapture` makes 2,000 experiments of each kind,
//! or `OPPLAB_EXPERIMENTS`.

use opplab_host::HostError;
use opplab_host::clock::Moment;
use opplab_host::compare::bench::{Bench as _, Ran};
use opplab_host::compare::design::change;
use opplab_host::compare::log::{Head, Log};
use opplab_host::compare::run::{Plan, experiment};
use opplab_host::compare::settings::Settings;
use opplab_host::compare::variants::{Level, variants};
use opplab_host::root::{Made, Root};
use opplab_stats::Mean;
use opplab_stats::interval::ratio_interval;

use crate::bench::{self, Kind};

const CPU: &str = "/sys/devices/system/cpu";
const ZONE: &str = "/sys/class/powercap/intel-rapl:0";
/// The counter wraps after 2.6 kJ, some 40 s of this machine.
const RANGE_UJ: u64 = 2_621_440_000;
const TICK_S: f64 = 0.01;

/// What is true of a machine.
#[derive(Clone, Copy)]
struct Truth {
    /// Wall time under `performance` by that under `schedutil`.
    ratio: f64,
    /// Deviation of a run's logarithm.
    noise: f64,
    /// Drift of the speed, an hour.
    drift: f64,
    /// Share of runs beside which others work, and that are throttled.
    disturbed: f64,
}

struct Drifting {
    truth: Truth,
    energy_uj: f64,
    busy_ticks: u64,
    throttled: u64,
}

type Machine = bench::Machine<Drifting>;

impl Machine {
    fn new(truth: Truth, seed: u64) -> Self {
        let made = Made::default();
        for policy in [0, 1] {
            let folder = format!("{CPU}/cpufreq/policy{policy}");
            made.put(format!("{folder}/scaling_governor"), "schedutil");
            made.put(format!("{folder}/scaling_available_governors"), "performance schedutil");
            made.put(format!("{folder}/affected_cpus"), policy.to_string());
            made.put(format!("{folder}/related_cpus"), policy.to_string());
        }
        made.put(format!("{CPU}/online"), "0-1");
        made.put(format!("{CPU}/present"), "0-1");
        made.put(format!("{CPU}/possible"), "0-1");
        made.put(format!("{CPU}/cpu0/thermal_throttle/core_throttle_count"), "0");
        made.put(format!("{ZONE}/name"), "package-0");
        made.put(format!("{ZONE}/energy_uj"), "2621000000");
        made.put(format!("{ZONE}/max_energy_range_uj"), RANGE_UJ.to_string());
        let kind = Drifting { truth, energy_uj: 2_621_000_000.0, busy_ticks: 0, throttled: 0 };
        let mut machine = Self::of(kind, made, seed);
        machine.show();
        machine
    }

    fn show(&mut self) {
        let half = self.kind.busy_ticks / 2;
        let line = |cpu: u32| format!("cpu{cpu} {half} 0 0 {} 0 0 0 0 0 0\n", self.now_ns / 10_000_000);
        let total = format!("cpu  {} 0 0 {} 0 0 0 0 0 0\n", 2 * half, self.now_ns / 5_000_000);
        self.made().put("/proc/stat", format!("{total}{}{}intr 0\nctxt 0\n", line(0), line(1)));
        self.made().put(format!("{ZONE}/energy_uj"), (self.kind.energy_uj as u64 % RANGE_UJ).to_string());
        self.made().put(format!("{CPU}/cpu0/thermal_throttle/core_throttle_count"), self.kind.throttled.to_string());
    }

    fn normal(&mut self) -> f64 {
        let (a, b) = (self.unit().max(1e-300), self.unit());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Wall time of a run that begins now, without what disturbs it.
    fn wall_s(&mut self) -> f64 {
        let is_fast =
            self.root.text(&format!("{CPU}/cpufreq/policy0/scaling_governor")).is_ok_and(|now| now == "performance");
        let hours = self.now_ns as f64 / 3.6e12;
        let log = (1.0 + self.kind.truth.drift).ln() * hours + self.kind.truth.noise * self.normal();
        60.0 * log.exp() * if is_fast { self.kind.truth.ratio } else { 1.0 }
    }

    fn pass(&mut self, wall_s: f64, busy_cpus: f64) {
        self.now_ns += (wall_s * 1e9) as u64;
        self.kind.energy_uj += wall_s * 60e6;
        self.kind.busy_ticks += (wall_s * busy_cpus / TICK_S) as u64;
        self.show();
    }
}

impl Kind for Drifting {
    fn run(machine: &mut Machine, poll: &mut dyn FnMut(&Root, Moment)) -> Result<Option<Ran>, HostError> {
        let mut wall_s = machine.wall_s();
        let mut busy_cpus = 1.0;
        if machine.unit() < machine.kind.truth.disturbed {
            if machine.unit() < 0.5 {
                busy_cpus = 1.8;
            } else {
                machine.kind.throttled += 1;
            }
            wall_s *= 1.2;
        }
        let mut left_s = wall_s;
        while left_s > 0.0 {
            let step_s = left_s.min(1.0);
            machine.pass(step_s, busy_cpus);
            poll(&machine.root, machine.now());
            left_s -= step_s;
        }
        Ok(Some(Ran { wall_s, cpu_s: [wall_s, 0.0], ..Ran::default() }))
    }
}

/// How often intervals held the truth, how often one left 0 out, by this command and by its rival.
#[derive(Debug, Default)]
struct Score {
    held: u32,
    alarms: u32,
    energy_held: u32,
    rival_held: u32,
    rival_alarms: u32,
    blocks: u32,
}

fn score(truth: Truth, experiments: u32) -> Score {
    let mut score = Score::default();
    for seed in 0..experiments {
        let mut machine = Machine::new(truth, u64::from(seed));
        let levels = ["schedutil", "performance"].map(|name| Level::Governor(name.to_owned())).to_vec();
        let found = variants(&[levels], machine.root()).expect("the machine has them");
        let mut settings = Settings::of(machine.root(), &found, 1).expect("they can be read");
        let plan = Plan {
            variants: found,
            warm_up: 1,
            same: 4,
            blocks_max: 40,
            for_ns: None,
            rest_ns: 0,
            cool: true,
            others_cpus: 0.2,
            repeats_max: 50,
            figures: Vec::new(),
            meter: None,
        };
        let head = Head {
            seed: u64::from(seed),
            variants: vec!["schedutil".into(), "performance".into()],
            command: "made".into(),
            benchmark: "made".into(),
            machine: "made".into(),
            kernel: "made".into(),
            metric: String::new(),
            pilot: 6,
            within_ppm: 5_000,
        };
        let mut log = Log::of(head);
        experiment(&plan, &mut machine, &mut settings, &mut log, &mut std::io::sink()).expect("it runs");
        let (left, wrong) = settings.saved.restore(machine.root());
        assert!(wrong.is_empty() && left.policies.is_empty(), "{wrong:?}");
        for policy in [0, 1] {
            let path = format!("{CPU}/cpufreq/policy{policy}/scaling_governor");
            assert_eq!(machine.root().text(&path).as_deref(), Ok("schedutil"));
        }
        let logs = log.logs("wall", 1).expect("each block has it");
        let found = change(&logs, 6);
        score.held += u32::from(found.interval.contains(truth.ratio));
        score.alarms += u32::from(found.is_clear());
        score.blocks += logs.len() as u32;
        // The power is constant, so energy changes as wall time does; its counter wraps several times a run.
        let energy = log.logs("energy", 1).expect("each block has it");
        let same = energy.iter().zip(&logs).all(|(energy, wall)| (energy - wall).abs() < 1e-6);
        score.energy_held += u32::from(same);
        // The rival: as many runs of each, one setting after the other, means compared as if they were independent.
        let n = logs.len();
        let mut rival = Machine::new(truth, u64::from(seed) ^ 0xffff_0000);
        let mut walls = [Vec::new(), Vec::new()];
        for (governor, walls) in ["schedutil", "performance"].into_iter().zip(&mut walls) {
            rival.made().put(format!("{CPU}/cpufreq/policy0/scaling_governor"), governor);
            for _ in 0..n {
                let wall_s = rival.wall_s();
                rival.pass(wall_s, 1.0);
                walls.push(wall_s);
            }
        }
        let interval = ratio_interval(&walls[0], &walls[1], Mean::Arithmetic, 0.95);
        score.rival_held += u32::from(interval.contains(truth.ratio));
        score.rival_alarms += u32::from(!interval.contains(1.0));
    }
    score
}

const DRIFTING: Truth = Truth { ratio: 1.0, noise: 0.005, drift: 0.02, disturbed: 0.05 };

/// Goal: no wrong settings, and intervals that hold as they say. Method: made machines; bounds are 4 deviations of the count.
#[test]
fn intervals_hold_the_truth_and_settings_are_put_back() {
    for ratio in [1.0, 0.97] {
        let score = score(Truth { ratio, ..DRIFTING }, 150);
        assert!((132..=150).contains(&score.held), "{score:?}");
        assert_eq!(score.energy_held, 150, "{score:?}");
        if ratio < 1.0 {
            assert!(score.alarms > 140, "{score:?}");
        } else {
            assert!(score.alarms <= 18 && score.rival_alarms > 2 * score.alarms, "{score:?}");
        }
    }
}

#[test]
#[ignore = "2,000 experiments of each kind"]
fn coverage() {
    let n: u32 = std::env::var("OPPLAB_EXPERIMENTS").map_or(2_000, |words| words.parse().expect("a number"));
    // Of a count whose share is 5 %: four deviations.
    let alarms_max = 5.0 + 4.0 * (5.0 * 95.0 / f64::from(n)).sqrt();
    println!("truth   noise  drift/h  blocks  held   alarms | runs in sequence: held   alarms");
    for (ratio, noise, drift) in
        [(1.0, 0.005, 0.02), (0.97, 0.005, 0.02), (1.0, 0.005, 0.0), (1.0, 0.02, 0.02), (0.99, 0.002, -0.05)]
    {
        let score = score(Truth { ratio, noise, drift, disturbed: 0.05 }, n);
        let percent = |count: u32| 100.0 * f64::from(count) / f64::from(n);
        println!(
            "{ratio:<7} {noise:<6} {drift:<8} {:<7.1} {:<6.1} {:<6.1} | {:<23.1} {:.1}",
            f64::from(score.blocks) / f64::from(n),
            percent(score.held),
            percent(score.alarms),
            percent(score.rival_held),
            percent(score.rival_alarms)
        );
        assert!((93.0..=97.0).contains(&percent(score.held)), "{score:?}");
        assert!(ratio != 1.0 || percent(score.alarms) <= alarms_max, "{score:?}");
    }
}
