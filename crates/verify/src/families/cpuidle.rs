//! Families of vectors: cpuidle.

use opplab_kernel::cpuidle::haltpoll::{Haltpoll, HaltpollParams};
use opplab_kernel::cpuidle::menu::{BUCKETS, Menu};
use opplab_kernel::cpuidle::{IdleFacts, IdleGovernor, IdleOutcome, IdleState, Ladder, Teo, TeoRecent};

use opplab_kernel::profile::KernelProfile;

use crate::json::Json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "cpuidle_menu", run: cpuidle_menu },
    Family { name: "cpuidle_menu_masks", run: cpuidle_menu },
    Family { name: "cpuidle_menu_v61", run: cpuidle_menu_v61 },
    Family { name: "cpuidle_teo", run: cpuidle_teo },
    Family { name: "cpuidle_teo_masks", run: cpuidle_teo },
    Family { name: "cpuidle_teo_v61", run: cpuidle_teo_v61 },
    Family { name: "cpuidle_ladder", run: cpuidle_ladder },
    Family { name: "cpuidle_haltpoll", run: cpuidle_haltpoll },
];

/// The state table and the length of a tick. Which states are disabled at the start is the first step's mask.
fn init(line: Json<'_>) -> Result<(Vec<IdleState>, u64), VerifyError> {
    let init = line.get("init")?;
    let mut states = Vec::new();
    for state in init.get("states")?.items()? {
        let row: Vec<u64> = state.ints()?;
        let [exit_latency_ns, target_residency_ns, polling, _] = row[..] else {
            return Err(state.error("a state is not [exit latency, target residency, polling, disabled]"));
        };
        states.push(IdleState { exit_latency_ns, target_residency_ns, polling: polling != 0 });
    }
    if states.is_empty() || states.len() > 64 {
        return Err(init.error(format!("{} idle states; there are 1 to 64", states.len())));
    }
    Ok((states, init.num("tick_ns")?))
}

/// Drives one governor through a file; `compare` looks at the state that is the governor's own.
fn replay<G: IdleGovernor>(
    source: &Source,
    tally: &mut Tally,
    new: fn(Json<'_>) -> Result<G, VerifyError>,
    compare: fn(&G, Json<'_>, &mut Diff) -> Result<(), VerifyError>,
    compare_reflected: fn(&G, Json<'_>, &mut Diff) -> Result<(), VerifyError>,
) -> Result<(), VerifyError> {
    source.lines(|line| {
        let (states, tick_ns) = init(line)?;
        let mut governor = new(line.get("init")?)?;
        line.each("steps", tally, |step, diff| {
            let facts = step.get("in")?;
            let choice = governor.select(&IdleFacts {
                states: &states,
                disabled: facts.num("disabled")?,
                utilized: false,
                latency_req_ns: facts.num("latency_req")?,
                sleep_length_ns: facts.num("sleep_length")?,
                delta_tick_ns: facts.num("delta_tick")?,
                tick_stopped: facts.flag("tick_stopped")?,
                nr_iowaiters: facts.find("nr_iowaiters").map_or(Ok(0), |count| count.int())?,
                tick_ns,
                now_ns: facts.num("clock")?,
            });
            let out = step.get("out")?;
            diff.eq("idx", out.num("idx")?, choice.index).eq("stop_tick", out.flag("stop_tick")?, choice.stop_tick).eq(
                "queried_sleep_length",
                out.flag("queried_sleep_length")?,
                choice.queried_sleep_length,
            );
            compare(&governor, out, diff)?;

            if let Some(reflect) = step.find("reflect") {
                governor.reflect(&IdleOutcome {
                    index: reflect.num("idx")?,
                    residency_ns: reflect.num("residency_ns")?,
                    got_tick: reflect.flag("got_tick")?,
                    poll_time_limit: reflect.flag("poll_time_limit")?,
                    now_ns: reflect.num("clock")?,
                });
                compare_reflected(&governor, reflect, diff)?;
            } else {
                governor.reject();
            }
            Ok(())
        })
    })
}

fn replay_menu(
    source: &Source,
    tally: &mut Tally,
    new: fn(Json<'_>) -> Result<Menu, VerifyError>,
) -> Result<(), VerifyError> {
    replay(
        source,
        tally,
        new,
        |menu, out, diff| {
            let factors: Vec<u32> = out.nums("cf")?;
            if factors.len() > 2 * BUCKETS {
                return Err(out.error("more factors than buckets"));
            }
            diff.eq("next_timer_ns", out.num("next_timer_ns")?, menu.next_timer_ns)
                .eq("bucket", out.num("bucket")?, menu.bucket)
                .eq("cf", &factors[..], &menu.correction_factor[..factors.len()])
                .eq("intervals", out.nums("intervals")?, menu.intervals.to_vec());
            Ok(())
        },
        |_, _, _| Ok(()),
    )
}

fn cpuidle_menu(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay_menu(source, tally, |_| Ok(Menu::default()))
}

fn cpuidle_menu_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay_menu(source, tally, |_| Ok(Menu::new((&KernelProfile::of((6, 1), 192)).into())))
}

fn cpuidle_teo(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay(
        source,
        tally,
        |_| Ok(Teo::default()),
        |teo, out, diff| {
            diff.eq("time_span_ns", out.num("time_span_ns")?, teo.time_span_ns)
                .eq("sleep_length_ns", out.num("sleep_length_ns")?, teo.sleep_length_ns)
                .eq("total", out.num("total")?, teo.total)
                .eq("tick_hits", out.num("tick_hits")?, teo.tick_hits);
            let bins = out.get("bins")?.items()?.map(|bin| bin.ints()).collect::<Result<Vec<_>, _>>()?;
            diff.eq("bins", bins, teo.bins.iter().map(|bin| vec![bin.hits, bin.intercepts]).collect());
            Ok(())
        },
        |teo, reflect, diff| {
            diff.eq("time_span_after", reflect.num("time_span_after")?, teo.time_span_ns);
            Ok(())
        },
    )
}

fn cpuidle_teo_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay(
        source,
        tally,
        |_| Ok(TeoRecent::default()),
        |teo, out, diff| {
            let recent = teo.recent.iter().map(|bin| bin.map_or(-1, |bin| bin as i64)).collect();
            diff.eq("time_span_ns", out.num("time_span_ns")?, teo.time_span_ns)
                .eq("sleep_length_ns", out.num("sleep_length_ns")?, teo.sleep_length_ns)
                .eq("total", out.num("total")?, teo.total)
                .eq("next_recent_idx", out.num("next_recent_idx")?, teo.next_recent_idx)
                .eq("recent_idx", out.nums("recent_idx")?, recent);
            let bins = out.get("bins")?.items()?.map(|bin| bin.ints()).collect::<Result<Vec<_>, _>>()?;
            diff.eq("bins", bins, teo.bins.iter().map(|bin| vec![bin.hits, bin.intercepts, bin.recent]).collect());
            Ok(())
        },
        |teo, reflect, diff| {
            diff.eq("time_span_after", reflect.num("time_span_after")?, teo.time_span_ns);
            Ok(())
        },
    )
}

fn cpuidle_ladder(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay(
        source,
        tally,
        |_| Ok(Ladder::default()),
        |ladder, out, diff| {
            let counts = out.get("counts")?.items()?.map(|pair| pair.ints()).collect::<Result<Vec<_>, _>>()?;
            diff.eq("last_state_idx", Some(out.num("last_state_idx")?), ladder.last_index).eq(
                "counts",
                counts,
                ladder.counts.iter().map(|&(up, down)| vec![up, down]).collect(),
            );
            Ok(())
        },
        |ladder, reflect, diff| {
            diff.eq("last_state_idx after", Some(reflect.num("last_state_idx")?), ladder.last_index);
            Ok(())
        },
    )
}

fn haltpoll(init: Json<'_>) -> Result<Haltpoll, VerifyError> {
    let params: Vec<u32> = init.nums("params")?;
    let [guest_halt_poll_ns, shrink, grow, grow_start, allow_shrink] = params[..] else {
        return Err(init.error("params is not [guest_halt_poll_ns, shrink, grow, grow_start, allow_shrink]"));
    };
    let params = HaltpollParams {
        guest_halt_poll_ns,
        guest_halt_poll_shrink: shrink,
        guest_halt_poll_grow: grow,
        guest_halt_poll_grow_start: grow_start,
        guest_halt_poll_allow_shrink: allow_shrink != 0,
    };
    Ok(Haltpoll::new(params))
}

fn cpuidle_haltpoll(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay(
        source,
        tally,
        haltpoll,
        |haltpoll, out, diff| {
            diff.eq("poll_limit_ns", out.num("poll_limit_ns")?, haltpoll.poll_limit_ns);
            Ok(())
        },
        |haltpoll, reflect, diff| {
            diff.eq("poll_limit_after", reflect.num("poll_limit_after")?, haltpoll.poll_limit_ns);
            Ok(())
        },
    )
}
