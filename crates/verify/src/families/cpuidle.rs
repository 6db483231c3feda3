//! Families of vectors: cpuidle.

use opplab_kernel::cpuidle::{IdleFacts, IdleGovernor, IdleOutcome, IdleState, Menu, Teo};
use serde_json::Value;

use super::json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] =
    &[Family { name: "cpuidle_menu", run: cpuidle_menu }, Family { name: "cpuidle_teo", run: cpuidle_teo }];

/// The state tables and the bits of disabled states in `init`.
fn init(at: &json::At<'_>, line: &Value) -> Result<(Vec<IdleState>, u64, u64), VerifyError> {
    let init = at.get(line, "init")?;
    let mut disabled = 0;
    let mut states = Vec::new();
    for (index, state) in at.array(init, "states")?.iter().enumerate() {
        let row: Vec<u64> = at.numbers(state)?;
        let [exit_latency_ns, target_residency_ns, polling, off] = row[..] else {
            return Err(at.error("a state is not [exit latency, target residency, polling, disabled]"));
        };
        disabled |= u64::from(off != 0) << index;
        states.push(IdleState { exit_latency_ns, target_residency_ns, polling: polling != 0 });
    }
    Ok((states, disabled, at.num(init, "tick_ns")?))
}

/// Drives one governor through a file; `compare` looks at the state that is the governor's own.
fn replay<G: IdleGovernor + Default>(
    source: &Source,
    tally: &mut Tally,
    compare: fn(&json::At<'_>, &G, &Value, &mut Diff) -> Result<(), VerifyError>,
    compare_reflected: fn(&json::At<'_>, &G, &Value, &mut Diff) -> Result<(), VerifyError>,
) -> Result<(), VerifyError> {
    for (number, line) in source.json_lines()? {
        let at = json::At { source, line: number };
        let (states, init_disabled, tick_ns) = init(&at, &line)?;
        let mut governor = G::default();
        for (step_index, step) in at.array(&line, "steps")?.iter().enumerate() {
            let facts = at.get(step, "in")?;
            let choice = governor.select(&IdleFacts {
                states: &states,
                disabled: init_disabled | at.num::<u64>(facts, "disabled")?,
                latency_req_ns: at.num(facts, "latency_req")?,
                sleep_length_ns: at.num(facts, "sleep_length")?,
                delta_tick_ns: at.num(facts, "delta_tick")?,
                tick_stopped: at.flag(facts, "tick_stopped")?,
                tick_ns,
                now_ns: at.num(facts, "clock")?,
            });
            let out = at.get(step, "out")?;
            let mut diff = Diff::default();
            diff.eq("idx", at.num(out, "idx")?, choice.index)
                .eq("stop_tick", at.flag(out, "stop_tick")?, choice.stop_tick)
                .eq("queried_sleep_length", at.flag(out, "queried_sleep_length")?, choice.queried_sleep_length);
            compare(&at, &governor, out, &mut diff)?;

            let reflect = at.get(step, "reflect")?;
            if reflect.is_null() {
                governor.reject();
            } else {
                governor.reflect(&IdleOutcome {
                    index: at.num(reflect, "idx")?,
                    residency_ns: at.num(reflect, "residency_ns")?,
                    got_tick: at.flag(reflect, "got_tick")?,
                    poll_time_limit: at.flag(reflect, "poll_time_limit")?,
                    now_ns: at.num(reflect, "clock")?,
                });
                compare_reflected(&at, &governor, reflect, &mut diff)?;
            }
            tally.case(|| format!("{}:{number} step {step_index}", source.file), diff.finish());
        }
    }
    Ok(())
}

fn cpuidle_menu(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay::<Menu>(
        source,
        tally,
        |at, menu, out, diff| {
            diff.eq("next_timer_ns", at.num(out, "next_timer_ns")?, menu.next_timer_ns)
                .eq("bucket", at.num(out, "bucket")?, menu.bucket)
                .eq("cf", at.numbers(at.get(out, "cf")?)?, menu.correction_factor.to_vec())
                .eq("intervals", at.numbers(at.get(out, "intervals")?)?, menu.intervals.to_vec());
            Ok(())
        },
        |_, _, _, _| Ok(()),
    )
}

fn cpuidle_teo(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    replay::<Teo>(
        source,
        tally,
        |at, teo, out, diff| {
            diff.eq("time_span_ns", at.num(out, "time_span_ns")?, teo.time_span_ns)
                .eq("sleep_length_ns", at.num(out, "sleep_length_ns")?, teo.sleep_length_ns)
                .eq("total", at.num(out, "total")?, teo.total)
                .eq("tick_hits", at.num(out, "tick_hits")?, teo.tick_hits);
            let bins = at.array(out, "bins")?.iter().map(|bin| at.numbers(bin)).collect::<Result<Vec<_>, _>>()?;
            diff.eq("bins", bins, teo.bins.iter().map(|bin| vec![bin.hits, bin.intercepts]).collect());
            Ok(())
        },
        |at, teo, reflect, diff| {
            diff.eq("time_span_after", at.num(reflect, "time_span_after")?, teo.time_span_ns);
            Ok(())
        },
    )
}
