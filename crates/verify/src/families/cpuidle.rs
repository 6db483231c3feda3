//! Families of vectors: cpuidle.

use opplab_kernel::cpuidle::haltpoll::{Haltpoll, HaltpollParams};
use opplab_kernel::cpuidle::menu::{BUCKETS, Menu};
use opplab_kernel::cpuidle::teo_parts::{RecentWakeups, TeoBin};
use opplab_kernel::cpuidle::{IdleFacts, IdleGovernor, IdleOutcome, IdleState, Ladder, Teo, TeoRecent};

use opplab_kernel::profile::KernelProfile;

use crate::fields::{Fields, families, read, same};
use crate::json::Json;
use crate::{Compared, Diff, Source, Tally, VerifyError};

families! {
    File cpuidle_menu, File cpuidle_menu_masks: cpuidle_menu, File cpuidle_menu_v61, File cpuidle_teo,
    File cpuidle_teo_masks: cpuidle_teo, File cpuidle_teo_v61, File cpuidle_teo_v63, File cpuidle_teo_v65,
    File cpuidle_teo_v66, File cpuidle_ladder, File cpuidle_haltpoll,
}

/// The state table and the length of a tick. Which states are disabled at the start is the first step's mask.
fn init(line: Json<'_>) -> Result<(Vec<IdleState>, u64), VerifyError> {
    let init = line.get("init")?;
    let mut states = Vec::new();
    for state in init.get("states")?.items()? {
        states.push(read!(state => IdleState { exit_latency_ns: 0, target_residency_ns: 1, polling: 2 }));
    }
    if states.is_empty() || states.len() > 64 {
        return Err(init.error(format!("{} idle states; there are 1 to 64", states.len())));
    }
    Ok((states, init.field("tick_ns")?))
}

/// Drives one governor through a file; `compare` looks at the state that is the governor's own.
fn replay<G: IdleGovernor>(
    source: &Source,
    tally: &mut Tally,
    new: fn(Json<'_>) -> Result<G, VerifyError>,
    compare: fn(&G, Json<'_>, &mut Diff) -> Compared,
    compare_reflected: fn(&G, Json<'_>, &mut Diff) -> Compared,
) -> Compared {
    source.lines(|line| {
        let (states, tick_ns) = init(line)?;
        let mut governor = new(line.get("init")?)?;
        line.each("steps", tally, |step, diff| {
            let facts = step.get("in")?;
            let choice = governor.select(&read!(facts => IdleFacts {
                states = &states, disabled, latency_req_ns: "latency_req",
                utilized = facts.find("utilized").map_or(Ok(false), |used| used.value())?,
                sleep_length_ns: "sleep_length", delta_tick_ns: "delta_tick", tick_stopped,
                nr_iowaiters = facts.find("nr_iowaiters").map_or(Ok(0), |count| count.value())?, tick_ns = tick_ns,
                now_ns: "clock",
            }));
            let out = step.get("out")?;
            same!(diff, out => {
                idx: choice.index, stop_tick: choice.stop_tick, queried_sleep_length: choice.queried_sleep_length,
            });
            compare(&governor, out, diff)?;

            if let Some(reflect) = step.find("reflect") {
                governor.reflect(&read!(reflect => IdleOutcome {
                    index: "idx", residency_ns, got_tick, poll_time_limit, now_ns: "clock",
                }));
                compare_reflected(&governor, reflect, diff)?;
            } else {
                governor.reject();
            }
            Ok(())
        })
    })
}

fn menu(source: &Source, tally: &mut Tally, new: fn(Json<'_>) -> Result<Menu, VerifyError>) -> Compared {
    let compare = |menu: &Menu, out: Json<'_>, diff: &mut Diff| {
        let factors: Vec<u32> = out.field("cf")?;
        if factors.len() > 2 * BUCKETS {
            return Err(out.error("more factors than buckets"));
        }
        same!(diff, out => { next_timer_ns, bucket, intervals } of menu);
        diff.eq("cf", &factors[..], &menu.correction_factor[..factors.len()]);
        Ok(())
    };
    replay(source, tally, new, compare, |_, _, _| Ok(()))
}

fn cpuidle_menu(source: &Source, tally: &mut Tally) -> Compared {
    menu(source, tally, |_| Ok(Menu::default()))
}

fn cpuidle_menu_v61(source: &Source, tally: &mut Tally) -> Compared {
    menu(source, tally, |_| Ok(Menu::new((&KernelProfile::of((6, 1), 192)).into())))
}

fn cpuidle_teo(source: &Source, tally: &mut Tally) -> Compared {
    let compare = |teo: &Teo, out: Json<'_>, diff: &mut Diff| {
        same!(diff, out => { time_span_ns, sleep_length_ns, total, tick_hits } of teo);
        same!(diff, out => { bins: teo.bins.iter().map(|bin| [bin.hits, bin.intercepts]).collect::<Vec<_>>() });
        Ok(())
    };
    replay(
        source,
        tally,
        |_| Ok(Teo::default()),
        compare,
        |teo, reflect, diff| {
            same!(diff, reflect => { time_span_after: teo.time_span_ns });
            Ok(())
        },
    )
}

fn teo_recent(source: &Source, tally: &mut Tally, new: fn(Json<'_>) -> Result<TeoRecent, VerifyError>) -> Compared {
    let compare = |teo: &TeoRecent, out: Json<'_>, diff: &mut Diff| {
        same!(diff, out => { time_span_ns, sleep_length_ns, total } of teo);
        recent(&teo.recent, &teo.bins, out, diff)
    };
    replay(source, tally, new, compare, |teo, reflect, diff| {
        same!(diff, reflect => { time_span_after: teo.time_span_ns });
        Ok(())
    })
}

/// The last wake-ups beside the counts.
fn recent(recent: &RecentWakeups, bins: &[TeoBin], out: Json<'_>, diff: &mut Diff) -> Compared {
    let bins = bins.iter().zip(&recent.early);
    same!(diff, out => {
        next_recent_idx: recent.next, recent_idx: recent.bins,
        bins: bins.map(|(bin, &early)| [bin.hits, bin.intercepts, early]).collect::<Vec<_>>(),
    });
    Ok(())
}

fn cpuidle_teo_v61(source: &Source, tally: &mut Tally) -> Compared {
    teo_recent(source, tally, |_| Ok(TeoRecent::default()))
}

fn cpuidle_teo_v63(source: &Source, tally: &mut Tally) -> Compared {
    teo_recent(source, tally, |_| Ok(TeoRecent::new(KernelProfile::at((6, 3)).teo_util())))
}

fn cpuidle_teo_v65(source: &Source, tally: &mut Tally) -> Compared {
    teo_recent(source, tally, |_| Ok(TeoRecent::new(KernelProfile::of((6, 5), 3).teo_util())))
}

fn cpuidle_teo_v66(source: &Source, tally: &mut Tally) -> Compared {
    let new = |_: Json<'_>| {
        let kernel = KernelProfile::at((6, 6));
        Ok(Teo::with_recent(kernel.teo_near_timer, kernel.teo_util()))
    };
    let compare = |teo: &Teo, out: Json<'_>, diff: &mut Diff| {
        same!(diff, out => { time_span_ns, sleep_length_ns, total, tick_hits } of teo);
        teo.recent.as_ref().map_or(Ok(()), |last| recent(last, &teo.bins, out, diff))
    };
    replay(source, tally, new, compare, |teo, reflect, diff| {
        same!(diff, reflect => { time_span_after: teo.time_span_ns });
        Ok(())
    })
}

fn cpuidle_ladder(source: &Source, tally: &mut Tally) -> Compared {
    let compare = |ladder: &Ladder, out: Json<'_>, diff: &mut Diff| {
        same!(diff, out => {
            last_state_idx: ladder.last_index,
            counts: ladder.counts.iter().map(|&(up, down)| [up, down]).collect::<Vec<_>>(),
        });
        Ok(())
    };
    replay(
        source,
        tally,
        |_| Ok(Ladder::default()),
        compare,
        |ladder, reflect, diff| {
            same!(diff, reflect => { last_state_idx: ladder.last_index });
            Ok(())
        },
    )
}

fn cpuidle_haltpoll(source: &Source, tally: &mut Tally) -> Compared {
    let new = |init: Json<'_>| {
        let params = init.get("params")?;
        Ok(Haltpoll::new(read!(params => HaltpollParams {
            guest_halt_poll_ns: 0, guest_halt_poll_shrink: 1, guest_halt_poll_grow: 2,
            guest_halt_poll_grow_start: 3, guest_halt_poll_allow_shrink: 4,
        })))
    };
    let compare = |haltpoll: &Haltpoll, out: Json<'_>, diff: &mut Diff| {
        same!(diff, out => { poll_limit_ns: haltpoll.poll_limit_ns });
        Ok(())
    };
    replay(source, tally, new, compare, |haltpoll, reflect, diff| {
        same!(diff, reflect => { poll_limit_after: haltpoll.poll_limit_ns });
        Ok(())
    })
}
