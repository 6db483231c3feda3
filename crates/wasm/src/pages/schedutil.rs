//! From utilisation to clock: what schedutil asks for, and how two kernels differ.
//!
//! One policy of one CPU hears a report each `report_us`; its utilisation steps from one value to another. The hardware grants
//! at once what is asked for.

use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, Request, RqFacts, SugovDecision};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable};
use opplab_kernel::cpufreq::schedutil::{SCHED_CPUFREQ_IOWAIT, SugovConfig, SugovPolicy};
use opplab_kernel::profile::{KernelProfile, profile_names};
use opplab_model::decision::words::{Names, mhz, words};
use opplab_model::decision::{Decision, FreqContext};

use super::{MS, Page, US, numbers, profile};
use crate::answer::{Answer, Chart, Series, Table};
use crate::query::{Control, Values};

/// The page.
pub const PAGE: Page = Page {
    name: "schedutil",
    title: "schedutil",
    question: "Which clock does schedutil ask for, and since which kernel?",
    about: "One CPU in one policy, with the fair utilisation of the sliders. Real-time, deadline and interrupt time are 0. \
            A driver that switches in the scheduler's context (fast switch) grants each request at once.",
    drop: "",
    controls,
    examples: &[
        ("Half utilised", ""),
        ("Headroom before and after v6.8, capped by uclamp", "kernel=6.6&than=6.8&uclamp_max=600&util=700"),
        ("Wake-ups from I/O", "util=60&from_util=60&iowait_us=2000&report_us=1000"),
        ("A rate limit of 10 ms", "rate_limit_us=10000"),
        ("x86 that does not know f_max: the clock feeds back", "invariant=no&util=700"),
    ],
    run: super::Run::Now(answer),
};

/// When the utilisation steps.
const STEP_NS: u64 = 20 * MS;
const END_NS: u64 = 100 * MS;

fn controls() -> Vec<Control> {
    let kernels = || profile_names().collect::<Vec<_>>();
    vec![
        Control::range("util", "Utilisation", "", [0, 1024, 1, 512]),
        Control::range("from_util", "Utilisation before 20 ms", "", [0, 1024, 1, 100]),
        Control::range("capacity", "Capacity of the CPU", "of 1024", [64, 1024, 1, 1024]),
        Control::choice("kernel", "Kernel", kernels(), "6.12.117"),
        Control::choice("than", "Beside it", kernels(), "5.10"),
        Control::range("uclamp_min", "uclamp.min", "", [0, 1024, 1, 0]),
        Control::range("uclamp_max", "uclamp.max", "", [0, 1024, 1, 1024]),
        Control::range("rate_limit_us", "rate_limit_us", "us", [0, 50_000, 100, 1_000]),
        Control::range("report_us", "The scheduler reports each", "us", [500, 10_000, 500, 4_000]),
        Control::range("iowait_us", "Wake-up from I/O each (0: none)", "us", [0, 50_000, 500, 0]),
        Control::choice("invariant", "Frequency-invariant", vec!["yes", "no"], "yes"),
        Control::range("freq_ref_mhz", "arch_scale_freq_ref (0: f_max)", "MHz", [0, 10_000, 50, 0]),
        Control::text("table_mhz", "Frequencies", "MHz", 400, "450,800,950,1100,1200,1400,1600,1800,2000,2200"),
    ]
}

struct Asked {
    khz: Vec<u32>,
    limits: FreqLimits,
    util: u64,
    from_util: u64,
    rate_limit_us: u32,
    report_ns: u64,
    iowait_ns: u64,
    policy: PolicyFacts,
    rq: RqFacts,
}

/// One kernel's schedutil on the question.
struct Side {
    name: String,
    profile: KernelProfile,
    /// Time and frequency.
    asked: Vec<(u64, u64)>,
    log: Vec<(SugovDecision, bool, u32)>,
    /// Utilisation and frequency.
    map: Vec<(u64, u64)>,
    boost: Vec<(u64, u64)>,
}

impl Asked {
    fn policy(&self, profile: &KernelProfile, rate_limit_us: u32) -> Result<SugovPolicy, String> {
        Ok(SugovPolicy::new(SugovConfig {
            n_cpus: 1,
            cpuinfo: self.limits,
            limits: self.limits,
            table: Some(FreqTable::from_khz(&self.khz).map_err(|error| error.to_string())?),
            fast_switch: true,
            need_update_limits: false,
            adjust_perf: false,
            rate_limit_us,
            tick_ns: 4 * MS,
            gates: profile.sugov_gates(),
        }))
    }

    fn facts(&self, util: u64, idle_calls: u64) -> CpuFacts {
        let util = util.min(self.rq.capacity);
        CpuFacts { rq: self.rq, util_cfs: util, util_cfs_boost: util, idle_calls }
    }

    fn side(&self, name: &str) -> Result<Side, String> {
        let profile = profile(name)?;
        let mut map = Vec::new();
        let mut policy = PolicyFacts { cur_khz: self.limits.max_khz, ..self.policy };
        for util in (0..=self.rq.capacity).step_by(4) {
            let mut fresh = self.policy(&profile, 0)?;
            // A governor that was asked before: its first look takes a request of 0 kHz for one that it made.
            let mut log: Option<SugovDecision> = None;
            fresh.update(MS, 0, 0, &policy, [self.facts(self.rq.capacity, 1)].as_slice());
            fresh.update_recorded(2 * MS, 0, 0, &policy, [self.facts(util, 2)].as_slice(), &mut log);
            map.push((util, log.map_or(0, |made| u64::from(made.next_khz))));
        }
        policy.cur_khz = self.limits.min_khz;
        let mut governor = self.policy(&profile, self.rate_limit_us)?;
        let (mut asked, mut log, mut boost) = (Vec::new(), Vec::new(), Vec::new());
        let mut now = MS;
        let mut wake = if self.iowait_ns == 0 { u64::MAX } else { MS + self.iowait_ns };
        let mut report = MS;
        let mut calls = 0;
        while now <= END_NS {
            let iowait = wake == now;
            let util = if now < STEP_NS { self.from_util } else { self.util };
            calls += 1;
            let facts = [self.facts(util, calls)];
            let prev_khz = governor.next_freq_khz();
            let mut made: Option<SugovDecision> = None;
            let flags = if iowait { SCHED_CPUFREQ_IOWAIT } else { 0 };
            let request = governor.update_recorded(now, 0, flags, &policy, facts.as_slice(), &mut made);
            if let Some(Request::FastSwitch { freq_khz }) = request {
                policy.cur_khz = freq_khz;
            }
            if let Some(made) = made {
                log.push((made, iowait, prev_khz));
            }
            asked.push((now, u64::from(policy.cur_khz)));
            boost.push((now, u64::from(governor.cpus()[0].iowait_boost)));
            if iowait {
                wake += self.iowait_ns;
            }
            if report <= now {
                report += self.report_ns;
            }
            now = report.min(wake);
        }
        Ok(Side { name: name.to_owned(), profile, asked, log, map, boost })
    }
}

fn answer(values: &Values<'_>) -> Result<Answer, String> {
    let mut khz: Vec<u32> =
        numbers("table_mhz", values.text("table_mhz"), 64, 1..=10_000)?.iter().map(|mhz| mhz * 1000).collect();
    khz.sort_unstable();
    khz.dedup();
    let (min_khz, max_khz) = (khz[0], khz[khz.len() - 1]);
    let (uclamp_min, uclamp_max) = (values.number("uclamp_min"), values.number("uclamp_max"));
    if uclamp_min > uclamp_max {
        return Err(format!("uclamp_min={uclamp_min} is above uclamp_max={uclamp_max}; the kernel refuses that"));
    }
    let capacity = values.number("capacity");
    let asked = Asked {
        limits: FreqLimits { min_khz, max_khz },
        util: values.number("util"),
        from_util: values.number("from_util"),
        rate_limit_us: values.number("rate_limit_us") as u32,
        report_ns: values.number("report_us") * US,
        iowait_ns: values.number("iowait_us") * US,
        policy: PolicyFacts {
            cur_khz: min_khz,
            freq_ref_khz: values.number("freq_ref_mhz") as u32 * 1000,
            freq_invariant: values.text("invariant") == "yes",
            can_update: true,
        },
        rq: RqFacts {
            capacity,
            uclamp_min,
            uclamp_max,
            uclamp_used: uclamp_min != 0 || uclamp_max != 1024,
            ..RqFacts::default()
        },
        khz,
    };
    let sides = [asked.side(values.text("kernel"))?, asked.side(values.text("than"))?];
    Ok(show(&asked, &sides))
}

/// The gates that this page goes through: those of `KernelProfile::sugov_gates`, and of its limits.
const OF_SCHEDUTIL: [&str; 11] = [
    "sugov_util",
    "headroom",
    "freq_ref",
    "noninvariant_headroom",
    "need_freq_update",
    "runnable_boost",
    "shared_stale_cpus",
    "sugov_iowait_boost",
    "sugov_clamps",
    "rate_limit",
    "inefficient_opps",
];

fn show(asked: &Asked, sides: &[Side; 2]) -> Answer {
    let mut out = Answer::default();
    let names = Names {
        governor: "schedutil",
        p_states: false,
        opps_khz: &asked.khz,
        cpus: &[0],
        knows_waker: false,
        task: &|_| String::new(),
    };
    for side in sides {
        let Some((made, iowait, prev_khz)) = side.log.last() else { continue };
        let context = FreqContext {
            members: &[0],
            form: side.profile.sugov_gates().util,
            iowait: *iowait,
            prev_khz: *prev_khz,
            wait_ns: 0,
        };
        let record = Decision::freq(&context, made, made);
        out.say(format!("Kernel {}: {}", side.name, words(&record, &[], &names).text));
        let of = "cpufreq_schedutil.c:get_next_freq()";
        out.fact(format!("kernel {}: next_freq", side.name), mhz(made.next_khz), of);
        out.fact(format!("kernel {}: before resolving", side.name), mhz(made.raw_khz), of);
    }
    let differ = sides[0].map.iter().zip(&sides[1].map).filter(|(a, b)| a.1 != b.1);
    let differ: Vec<u64> = differ.map(|(a, _)| a.0).collect();
    out.say(match (differ.first(), differ.last()) {
        (Some(first), Some(last)) => {
            format!("At rest the two kernels differ at utilisations between {first} and {last}.")
        }
        _ => "At rest the two kernels ask for the same clock at every utilisation.".to_owned(),
    });
    let top = u64::from(asked.limits.max_khz);
    let line = |side: &Side, color: u8, points: &[(u64, u64)], what: &str| Series {
        name: format!("kernel {}{what}", side.name),
        step: true,
        color,
        points: points.to_vec(),
    };
    let both = |of: fn(&Side) -> &[(u64, u64)]| {
        // The second one is drawn first, so that the first one lies over it where they agree.
        vec![line(&sides[1], 2, of(&sides[1]), ""), line(&sides[0], 0, of(&sides[0]), "")]
    };
    out.charts.push(Chart {
        title: "Clock by utilisation, at rest".to_owned(),
        x: ("utilisation".to_owned(), "", asked.rq.capacity),
        y: ("clock".to_owned(), "kHz", top),
        series: both(|side| &side.map),
        lanes: Vec::new(),
        mark: Some(asked.util.min(asked.rq.capacity)),
    });
    out.charts.push(Chart {
        title: "Clock after a step of utilisation".to_owned(),
        x: ("time".to_owned(), "ns", END_NS),
        y: ("clock".to_owned(), "kHz", top),
        series: both(|side| &side.asked),
        lanes: Vec::new(),
        mark: Some(STEP_NS),
    });
    if asked.iowait_ns != 0 {
        let boost = sides.iter().zip([0, 2]).map(|(side, color)| line(side, color, &side.boost, ""));
        let most = sides.iter().flat_map(|side| side.boost.iter().map(|point| point.1)).max().unwrap_or(0);
        out.charts.push(Chart {
            title: "iowait_boost of the CPU (before v4.18 it is a frequency)".to_owned(),
            x: ("time".to_owned(), "ns", END_NS),
            y: ("boost".to_owned(), "", most.max(1024)),
            series: boost.collect(),
            lanes: Vec::new(),
            mark: None,
        });
    }
    let gates = opplab_kernel::profile::GATES.iter().filter_map(|gate| {
        let [a, b] = [0, 1].map(|at: usize| sides[at].profile.show(gate.name).unwrap_or_default());
        (a != b && OF_SCHEDUTIL.contains(&gate.name))
            .then(|| vec![gate.name.to_owned(), b.to_owned(), a.to_owned(), gate.what.to_owned()])
    });
    out.tables.push(Table {
        title: "What differs between the two kernels here".to_owned(),
        columns: ["gate", &sides[1].name, &sides[0].name, "what it is"].map(str::to_owned).to_vec(),
        rows: gates.collect(),
        chosen: None,
    });
    out
}
