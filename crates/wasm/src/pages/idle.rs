//! Which idle state a governor chooses for a sequence of sleeps, and how often that was too deep or too shallow.
//!
//! ```text
//!   work ──► select ──► state ──► tick, or the poll limit ──► reflect ──► select ...
//!                          └────► the event that ends the sleep ──► reflect ──► work
//! ```
//! One CPU, two governors on the same sleeps. The facts are what the idle loop hands over: the next timer, the tick, PM QoS and
//! tasks that wait for I/O. A wake-up takes the exit latency of the table.

use opplab_kernel::cpuidle::{
    IDLE_GOVERNORS, IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, IdleState, PollLimit, idle_governor, poll_time_ns,
};
use opplab_model::decision::Decision;
use opplab_model::decision::words::{Names, words};
use opplab_model::file::parse_machine;
use opplab_replay::idle::missed;

use super::{MS, Page, US, kernels_since, profile};
use crate::answer::{Answer, Chart, Lane, Series, Table};
use crate::machines::{MACHINES, machine_text};
use crate::query::{Control, Values, plain};

/// The page.
pub const PAGE: Page = Page {
    name: "idle",
    title: "Idle",
    question: "Which idle state do menu and teo choose for these sleeps?",
    about: "One CPU sleeps in turn; a timer or an interrupt ends each sleep. The idle states are those of the machine's first CPU. \
            Too deep and too shallow are what above and below count in sysfs.",
    drop: "",
    controls,
    examples: &[
        ("Short sleeps, each fifth is long", ""),
        ("An interrupt before a far timer", "every=0&sleep_us=300&timer_us=20000"),
        (
            "menu before and after v6.15",
            "governor=menu&beside=menu&kernel=6.12.117&than=6.18&every=3&sleep_us=60&long_us=900",
        ),
        ("Tasks that wait for I/O, until v6.11", "iowait=2&kernel=6.6&beside=menu&than=6.12&sleep_us=250&every=0"),
        ("PM QoS allows 50 us", "latency_us=50&sleep_us=5000&every=0"),
        ("A little CPU of a phone", "machine=pixel6&sleep_us=2000&long_us=30000"),
    ],
    run: super::Run::Now(answer),
};

/// PM QoS does not limit the exit latency.
const ANY_LATENCY_NS: u64 = u64::MAX >> 1;
/// Sleeps of one length before the choice counts in the picture of all lengths.
const SETTLED: usize = 40;
const ROWS_MAX: usize = 25;
/// Stays that are followed at most, in one run of sleeps.
const STAYS_MAX: usize = 60_000;
const ALIKE_MAX: usize = 3_000;

fn controls() -> Vec<Control> {
    let governors = || IDLE_GOVERNORS.iter().map(|entry| entry.name).collect::<Vec<_>>();
    let machines = MACHINES.iter().map(|(name, _)| *name).collect();
    vec![
        Control::range("sleep_us", "Sleep", "us", [1, 200_000, 1, 120]),
        Control::range("every", "Each nth sleep is long (0: none)", "", [0, 20, 1, 5]),
        Control::range("long_us", "Long sleep", "us", [1, 200_000, 1, 3_000]),
        Control::range("spread", "Sleeps vary by up to", "%", [0, 90, 1, 20]),
        Control::range("timer_us", "The next timer (0: it ends the sleep)", "us", [0, 1_000_000, 1, 0]),
        Control::range("work_us", "Work between sleeps", "us", [1, 20_000, 1, 30]),
        Control::choice("governor", "Governor", governors(), "menu"),
        Control::choice("kernel", "Kernel", kernels_since((4, 17)), "6.12.117"),
        Control::choice("beside", "Beside it", governors(), "teo"),
        Control::choice("than", "Its kernel", kernels_since((4, 17)), "6.12.117"),
        Control::choice("machine", "Idle states of", machines, "skylake-8x-uma"),
        Control::range("latency_us", "PM QoS latency (0: any)", "us", [0, 2_000, 1, 0]),
        Control::range("iowait", "Tasks that wait for I/O", "", [0, 8, 1, 0]),
        Control::choice("utilized", "More than 1/64 utilised", vec!["no", "yes"], "no"),
        Control::choice("hz", "CONFIG_HZ", vec!["100", "250", "300", "1000"], "250"),
        Control::range("sleeps", "Sleeps", "", [10, 2_000, 10, 200]),
        Control::text("list_us", "Or these sleeps in turn, us: SLEEP or SLEEP/TIMER", "", 2_000, ""),
    ]
}

/// A sleep: when something ends it, and when the next timer is; ns from its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep {
    /// When the event comes.
    pub event_ns: u64,
    /// When the timer comes; not before the event.
    pub timer_ns: u64,
}

/// The CPU's inputs beside its sleeps.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The table.
    pub states: Vec<IdleState>,
    /// A tick, ns.
    pub tick_ns: u64,
    /// What PM QoS allows, ns.
    pub latency_req_ns: u64,
    /// Tasks that wait for I/O.
    pub nr_iowaiters: u32,
    /// The CPU uses more than 1/64 of its capacity.
    pub utilized: bool,
    /// Work before each sleep, ns.
    pub work_ns: u64,
}

/// A stay in a state. A sleep has several if the tick or the poll limit interrupts it.
#[derive(Debug, Clone, Copy)]
pub struct Stay {
    /// Which sleep.
    pub sleep: usize,
    /// When it began, ns.
    pub since_ns: u64,
    /// When the CPU executed again, ns.
    pub until_ns: u64,
    /// The choice.
    pub choice: IdleChoice,
    /// The next timer and the next event with the tick running, ns from `since_ns`.
    pub sleep_length_ns: u64,
    /// The second.
    pub delta_tick_ns: u64,
    /// Whether the tick was stopped before.
    pub tick_stopped: bool,
    /// Too deep, too shallow, as `above` and `below` count it in sysfs.
    pub missed: (bool, bool),
}

impl Surroundings {
    /// Plays the sleeps to a governor of a kernel with this limit of polling (cpuidle.c:cpuidle_poll_time(), v6.12), until it has
    /// chosen `most` times.
    pub fn play(&self, governor: &mut dyn IdleGovernor, limit: PollLimit, sleeps: &[Sleep], most: usize) -> Vec<Stay> {
        let mut stays = Vec::new();
        let mut now = MS;
        for (nth, sleep) in sleeps.iter().enumerate() {
            now += self.work_ns;
            let (event_ns, timer_ns) = (now + sleep.event_ns, now + sleep.timer_ns.max(sleep.event_ns));
            let mut tick_stopped = false;
            loop {
                let next_tick_ns = (now / self.tick_ns + 1) * self.tick_ns;
                let sleep_length_ns = timer_ns - now;
                let delta_tick_ns =
                    if tick_stopped { sleep_length_ns } else { sleep_length_ns.min(next_tick_ns - now) };
                let facts = IdleFacts {
                    states: &self.states,
                    disabled: 0,
                    latency_req_ns: self.latency_req_ns,
                    sleep_length_ns: sleep_length_ns as i64,
                    delta_tick_ns: delta_tick_ns as i64,
                    tick_stopped,
                    nr_iowaiters: self.nr_iowaiters,
                    tick_ns: self.tick_ns,
                    utilized: self.utilized,
                    now_ns: now,
                };
                let choice = governor.select(&facts);
                let ticks = !(tick_stopped || choice.stop_tick);
                let state = self.states[choice.index];
                // Without a clock, the CPU stops at the limit itself.
                let limit_ns = match poll_time_ns(governor, &facts, limit, 1) {
                    Some(ns) if state.polling => now + ns,
                    _ => u64::MAX,
                };
                let tick_ns = if ticks { next_tick_ns } else { u64::MAX };
                let ends_ns = event_ns.min(tick_ns).min(limit_ns);
                let until_ns = ends_ns + state.exit_latency_ns;
                governor.reflect(&IdleOutcome {
                    index: choice.index,
                    residency_ns: until_ns - now,
                    got_tick: ticks && tick_ns <= until_ns,
                    poll_time_limit: limit_ns == ends_ns,
                    now_ns: until_ns,
                });
                let missed = missed(&self.states, choice.index, until_ns - now);
                stays.push(Stay {
                    sleep: nth,
                    since_ns: now,
                    until_ns,
                    choice,
                    sleep_length_ns,
                    delta_tick_ns,
                    tick_stopped,
                    missed,
                });
                tick_stopped |= choice.stop_tick;
                now = until_ns;
                if stays.len() >= most {
                    return stays;
                }
                if now >= event_ns {
                    break;
                }
            }
        }
        stays
    }

    fn record(&self, stay: &Stay) -> Decision {
        let residency = |index: usize| self.states.get(index).map_or(0, |state| state.target_residency_ns);
        Decision::Idle {
            cpu: 0,
            state: stay.choice.index as u32,
            nr_states: self.states.len() as u32,
            residency_ns: residency(stay.choice.index),
            deeper_ns: residency(stay.choice.index + 1),
            sleep_length_ns: stay.sleep_length_ns as i64,
            delta_tick_ns: stay.delta_tick_ns as i64,
            stop_tick: stay.choice.stop_tick,
            tick_stopped: stay.tick_stopped,
            queried: stay.choice.queried_sleep_length,
        }
    }
}

/// The sleeps of the sliders, or of the list.
fn sleeps(values: &Values<'_>) -> Result<Vec<Sleep>, String> {
    let count = values.number("sleeps") as usize;
    let far_ns = values.number("timer_us") * US;
    let with_timer = |event_ns: u64, timer_ns: u64| Sleep { event_ns, timer_ns: timer_ns.max(event_ns) };
    let words = values.text("list_us").split([',', ' ', ';', '\n']).filter(|word| !word.is_empty());
    let given = words.map(|word| {
        let number = |text: &str| {
            let number = text.parse::<u64>().ok().filter(|us| (1..=10_000_000).contains(us));
            number.ok_or_else(|| format!("list_us: `{}` is not SLEEP or SLEEP/TIMER of 1 to 10000000 us", plain(word)))
        };
        let (event, timer) = word.split_once('/').map_or((word, None), |(event, timer)| (event, Some(timer)));
        let event_ns = number(event)? * US;
        Ok(with_timer(event_ns, timer.map(number).transpose()?.map_or(far_ns, |us| us * US)))
    });
    let given = given.collect::<Result<Vec<_>, String>>()?;
    if !given.is_empty() {
        return Ok(given.into_iter().cycle().take(count).collect());
    }
    let (every, spread) = (values.number("every") as usize, values.number("spread"));
    // The same numbers on each call: xorshift.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let each = (1..=count).map(|nth| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let is_long = every > 0 && nth % every == 0;
        let us = values.number(if is_long { "long_us" } else { "sleep_us" });
        let event_ns = us * US * (100 - random % (spread + 1)) / 100;
        with_timer(event_ns.max(1), far_ns)
    });
    Ok(each.collect())
}

/// One governor and what it chose.
struct Side {
    name: String,
    stays: Vec<Stay>,
    /// Length of sleep and state, when all sleeps are alike.
    map: Vec<(u64, u64)>,
}

fn answer(values: &Values<'_>) -> Result<Answer, String> {
    let machine = values.text("machine");
    let machine = parse_machine(machine, machine_text(machine)).map_err(|error| error.to_string())?;
    let idle = &machine.cluster_of(0).idle;
    let states = idle.iter().enumerate().map(|(index, state)| IdleState {
        exit_latency_ns: state.exit_latency_ns,
        target_residency_ns: state.target_residency_ns,
        polling: index == 0 && state.name == "POLL",
    });
    let around = Surroundings {
        states: states.collect(),
        tick_ns: 1_000 * MS / values.number("hz"),
        latency_req_ns: match values.number("latency_us") {
            0 => ANY_LATENCY_NS,
            us => us * US,
        },
        nr_iowaiters: values.number("iowait") as u32,
        utilized: values.text("utilized") == "yes",
        work_ns: values.number("work_us") * US,
    };
    let names: Vec<&str> = idle.iter().map(|state| state.name.as_str()).collect();
    let sleeps = sleeps(values)?;
    let longest = sleeps.iter().map(|sleep| sleep.event_ns).max().unwrap_or(0);
    let deepest = around.states.last().map_or(0, |state| state.target_residency_ns);
    let end = (longest + longest / 4).max(deepest + deepest / 4).max(100 * US);
    let side = |governor: &str, kernel: &str| {
        let profile = profile(kernel)?;
        let entry = idle_governor(governor).ok_or("there is no such governor")?;
        let stays = around.play(&mut *(entry.new)(&profile), profile.poll_limit, &sleeps, STAYS_MAX);
        let map = (1..=120).map(|nth| {
            let event_ns = end * nth / 120;
            let alike = Sleep { event_ns, timer_ns: (values.number("timer_us") * US).max(event_ns) };
            let stays = around.play(&mut *(entry.new)(&profile), profile.poll_limit, &[alike; SETTLED], ALIKE_MAX);
            // What a sleep begins with, mostly: the tick's interruptions follow, and now and then the tick comes first.
            let last = stays.last().map_or(0, |stay| stay.sleep);
            let mut counts = vec![0; around.states.len().max(1)];
            let begins = stays.chunk_by(|a, b| a.sleep == b.sleep).map(|sleep| sleep[0]);
            for stay in begins.filter(|stay| 2 * stay.sleep > last || last == 0) {
                counts[stay.choice.index] += 1;
            }
            let mostly = (0..counts.len()).max_by_key(|&index| (counts[index], index));
            (event_ns, mostly.unwrap_or(0) as u64)
        });
        Ok::<_, String>(Side { name: format!("{governor} of {kernel}"), stays, map: map.collect() })
    };
    let sides =
        [side(values.text("governor"), values.text("kernel"))?, side(values.text("beside"), values.text("than"))?];
    Ok(show(&around, &names, &sleeps, &sides, end))
}

fn show(around: &Surroundings, names: &[&str], sleeps: &[Sleep], sides: &[Side; 2], longest_ns: u64) -> Answer {
    let mut out = Answer::default();
    if sides.iter().any(|side| side.stays.len() >= STAYS_MAX) {
        out.say(format!("The picture ends after {STAYS_MAX} choices."));
    }
    for side in sides {
        let count = |of: fn((bool, bool)) -> bool| side.stays.iter().filter(|stay| of(stay.missed)).count();
        out.say(format!(
            "{}: {} choices for {} sleeps, {} too deep, {} too shallow.",
            side.name,
            side.stays.len(),
            side.stays.last().map_or(0, |stay| stay.sleep + 1),
            count(|missed| missed.0),
            count(|missed| missed.1)
        ));
    }
    let no_task = |_| String::new();
    let of_cpu = Names { governor: "", p_states: false, opps_khz: &[], cpus: &[0], knows_waker: false, task: &no_task };
    let reason = |stay: &Stay| words(&around.record(stay), &[], &of_cpu).text;
    for side in sides {
        if let Some(last) = side.stays.last() {
            out.say(format!("{}, last: {}", side.name, reason(last)));
        }
        let of = match side.name.split(' ').next() {
            Some("menu") => "menu.c:menu_select()",
            Some("teo") => "teo.c:teo_select()",
            Some("ladder") => "ladder.c:ladder_select_state()",
            _ => "haltpoll.c:haltpoll_select()",
        };
        out.fact(
            format!("{}: last state", side.name),
            side.stays.last().map_or("-", |stay| names[stay.choice.index]),
            of,
        );
        let good = side.stays.iter().filter(|stay| stay.missed == (false, false)).count();
        out.fact(
            format!("{}: neither too deep nor too shallow", side.name),
            format!("{good} of {}", side.stays.len()),
            "drivers/cpuidle/cpuidle.c:cpuidle_enter_state(), above and below",
        );
    }
    let line = |side: &Side, color: u8| Series { name: side.name.clone(), step: true, color, points: side.map.clone() };
    out.charts.push(Chart {
        title: format!(
            "State that most sleeps begin with, when all are alike: {}",
            names.iter().enumerate().map(|(at, name)| format!("{at} {name}")).collect::<Vec<_>>().join(", ")
        ),
        x: ("sleep".to_owned(), "ns", longest_ns),
        y: ("state".to_owned(), "", names.len().saturating_sub(1).max(1) as u64),
        // The second one is drawn first, so that the first one lies over it where they agree.
        series: vec![line(&sides[1], 2), line(&sides[0], 0)],
        lanes: Vec::new(),
        mark: sleeps.first().map(|sleep| sleep.event_ns),
    });
    let end = sides.iter().filter_map(|side| side.stays.last()).map(|stay| stay.until_ns - MS).max().unwrap_or(1);
    let lanes = sides.iter().map(|side| {
        let marks = side.stays.iter().filter(|stay| stay.missed != (false, false)).map(|stay| {
            let what = if stay.missed.0 { "Too deep" } else { "Too shallow" };
            let stayed = (stay.until_ns - stay.since_ns) / US;
            (stay.since_ns - MS, format!("{what}: {} for {stayed} us. {}", names[stay.choice.index], reason(stay)))
        });
        Lane {
            name: side.name.clone(),
            spans: side
                .stays
                .iter()
                .map(|stay| (stay.since_ns - MS, stay.until_ns - MS, names[stay.choice.index].to_owned()))
                .collect(),
            marks: marks.collect(),
            ..Lane::default()
        }
    });
    out.charts.push(Chart {
        title: "The sleeps; a mark is a state that was too deep or too shallow".to_owned(),
        x: ("time".to_owned(), "ns", end),
        y: ("state".to_owned(), "", 1),
        series: Vec::new(),
        lanes: lanes.collect(),
        mark: None,
    });
    let us = |ns: u64| format!("{}", ns / US);
    let rows = around.states.iter().enumerate().map(|(index, state)| {
        let mut row = vec![names[index].to_owned(), us(state.exit_latency_ns), us(state.target_residency_ns)];
        for side in sides {
            let of = |which: fn((bool, bool)) -> bool| {
                let those = side.stays.iter().filter(|stay| stay.choice.index == index);
                those.filter(|stay| which(stay.missed)).count().to_string()
            };
            row.extend([of(|_| true), of(|missed| missed.0), of(|missed| missed.1)]);
        }
        row
    });
    let [a, b] = [&sides[0].name, &sides[1].name];
    out.tables.push(Table {
        title: "The states, in us, and how often each was chosen".to_owned(),
        columns: vec![
            "state".to_owned(),
            "exit latency".to_owned(),
            "target residency".to_owned(),
            a.clone(),
            "too deep".to_owned(),
            "too shallow".to_owned(),
            b.clone(),
            "too deep".to_owned(),
            "too shallow".to_owned(),
        ],
        rows: rows.collect(),
        chosen: None,
    });
    let path = |side: &Side, nth: usize| {
        let of = side.stays.iter().filter(|stay| stay.sleep == nth).map(|stay| names[stay.choice.index]);
        of.collect::<Vec<_>>().join(" ")
    };
    let rows = sleeps.iter().enumerate().take(ROWS_MAX).map(|(nth, sleep)| {
        vec![(nth + 1).to_string(), us(sleep.event_ns), us(sleep.timer_ns), path(&sides[0], nth), path(&sides[1], nth)]
    });
    out.tables.push(Table {
        title: format!("The first {} sleeps, in us", sleeps.len().min(ROWS_MAX)),
        columns: vec!["nr".to_owned(), "sleep".to_owned(), "timer".to_owned(), a.clone(), b.clone()],
        rows: rows.collect(),
        chosen: None,
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        let state = |exit_us: u64, residency_us: u64, polling| IdleState {
            exit_latency_ns: exit_us * US,
            target_residency_ns: residency_us * US,
            polling,
        };
        Surroundings {
            states: vec![state(0, 0, true), state(2, 2, false), state(50, 200, false), state(200, 800, false)],
            tick_ns: 4 * MS,
            latency_req_ns: ANY_LATENCY_NS,
            nr_iowaiters: 0,
            utilized: false,
            work_ns: 10 * US,
        }
    }

    /// Goal: time goes on without holes, and a polling CPU selects again at its limit. Method: sleeps of 5 ms, which menu of no
    /// history takes for long ones, and a governor that only polls.
    #[test]
    fn stays_of_a_sleep_follow_each_other() {
        let around = around();
        let sleeps = [Sleep { event_ns: 5 * MS, timer_ns: 5 * MS }; 20];
        for name in ["menu", "teo", "ladder", "haltpoll"] {
            let kernel = profile("6.12.117").expect("a kernel");
            let mut governor = (idle_governor(name).expect("a governor").new)(&kernel);
            let stays = around.play(&mut *governor, kernel.poll_limit, &sleeps, STAYS_MAX);
            for pair in stays.windows(2).filter(|pair| pair[0].sleep == pair[1].sleep) {
                assert_eq!(pair[0].until_ns, pair[1].since_ns, "{name}");
            }
            for stay in stays.iter().filter(|stay| stay.choice.index == 0) {
                assert!(stay.until_ns - stay.since_ns <= 200 * US, "{name}");
            }
            assert_eq!(stays.last().map(|stay| stay.sleep), Some(19));
        }
    }
}
