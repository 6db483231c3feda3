//! Families of vectors: cpuidle.

use opplab_kernel::cpuidle::menu::BUCKETS;
use opplab_kernel::cpuidle::{IdleFacts, IdleGovernor, IdleOutcome, IdleState, Menu, Teo};

use crate::json::Json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] =
    &[Family { name: "cpuidle_menu", run: cpuidle_menu }, Family { name: "cpuidle_teo", run: cpuidle_teo }];

/// The state tables and the bits of disabled states in `init`.
fn init(line: Json<'_>) -> Result<(Vec<IdleState>, u64, u64), VerifyError> {
    let init = line.get("init")?;
    let mut disabled = 0;
    let mut states = Vec::new();
    for (index, state) in init.get("states")?.items()?.enumerate() {
        let row: Vec<u64> = state.ints()?;
        let [exit_latency_ns, target_residency_ns, polling, off] = row[..] else {
            return Err(state.error("a state is not [exit latency, target residency, polling, disabled]"));
        };
        disabled |= u64::from(off != 0) << index;
        states.push(IdleState { exit_latency_ns, target_residency_ns, polling: polling != 0 });
    }
    Ok((states, disabled, init.num("tick_ns")?))
}

/// Drives one governor through a file; `compare` looks at the state that is the governor's own.
fn replay<G: IdleGovernor + Default>(
    source: &Source,
    tally: &mut Tally,
    compare: fn(&G, Json<'_>, &mut Diff) -> Result<(), VerifyError>,
    compare_reflected: fn(&G, Json<'_>, &mut Diff) -> Result<(), VerifyError>,
) -> Result<(), VerifyError> {
    source.lines(|line| {
        let (states, init_disabled, tick_ns) = init(line)?;
        let mut governor = G::default();
        line.each("steps", tally, |step, diff| {
            let facts = step.get("in")?;
            let choice = governor.select(&IdleFacts {
                states: &states,
                disabled: init_disabled | facts.num::<u64>("disabled")?,
                latency_req_ns: facts.num("latency_req")?,
                sleep_length_ns: facts.num("sleep_length")?,
                delta_tick_ns: facts.num("delta_tick")?,
                tick_stopped: facts.flag("tick_stopped")?,
                nr_iowaiters: 0,
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

fn cpuidle_menu(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay::<Menu>(
        source,
        tally,
        |menu, out, diff| {
            diff.eq("next_timer_ns", out.num("next_timer_ns")?, menu.next_timer_ns)
                .eq("bucket", out.num("bucket")?, menu.bucket)
                .eq("cf", out.nums("cf")?, menu.correction_factor[..BUCKETS].to_vec())
                .eq("intervals", out.nums("intervals")?, menu.intervals.to_vec());
            Ok(())
        },
        |_, _, _| Ok(()),
    )
}

fn cpuidle_teo(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay::<Teo>(
        source,
        tally,
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
