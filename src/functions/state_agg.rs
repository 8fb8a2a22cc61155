//! `state_agg(time, state)`: how long each state lasted.
//!
//! A row says that from its time on the state is this one; it lasts until the next row. The last state has no duration yet. Of
//! several states at one time the greatest (by bytes) counts.
use super::aggregate::{context, Reader, Writer};
use super::errors::invalid;
use crate::pg::composite::{interval_array, result_row, text, text_array};
use crate::pg::fcinfo::{arg, arg_opt, guarded, null, raw_arg, sql_function, text_bytes, Fcinfo};
use crate::pg::memory::{self, own};
use crate::pg::{Datum, Interval};
use std::collections::HashMap;

#[derive(Default)]
struct States {
    names: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u32>,
    /// (time, number of the state), as they arrived.
    changes: Vec<(i64, u32)>,
}

impl States {
    fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_vec());
        self.numbers.insert(name.to_vec(), number);
        number
    }

    fn add(&mut self, time: i64, name: &[u8]) {
        let number = self.number(name);
        self.changes.push((time, number));
    }

    fn merge(&mut self, other: &States) {
        for (time, number) in &other.changes {
            self.add(*time, &other.names[*number as usize]);
        }
    }

    /// By time, one state each.
    fn timeline(&self) -> Vec<(i64, u32)> {
        let mut timeline = self.changes.clone();
        timeline.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then_with(|| self.names[a.1 as usize].cmp(&self.names[b.1 as usize]))
        });
        timeline.reverse();
        timeline.dedup_by_key(|change| change.0);
        timeline.reverse();
        timeline
    }

    /// The microseconds of each state, by name.
    fn durations(&self, timeline: &[(i64, u32)]) -> Vec<(&[u8], i64)> {
        let mut durations = vec![0i64; self.names.len()];
        for pair in timeline.windows(2) {
            let duration = &mut durations[pair[0].1 as usize];
            *duration = duration.saturating_add(pair[1].0.saturating_sub(pair[0].0));
        }
        let mut named: Vec<(&[u8], i64)> = self
            .names
            .iter()
            .map(Vec::as_slice)
            .zip(durations)
            .collect();
        named.sort();
        named
    }
}

/// # Safety
/// `fcinfo` is an aggregate's call whose first argument is our state or NULL; must run inside a guarded entry point.
unsafe fn state_or_new<'a>(fcinfo: Fcinfo) -> &'a mut States {
    // SAFETY: the caller's promise; a state lives as long as the aggregate's context.
    unsafe {
        match arg_opt(fcinfo, 0) {
            Some(state) => &mut *state.cast_mut_ptr::<States>(),
            None => &mut *own(context(fcinfo), States::default()),
        }
    }
}

sql_function! {
    /// Transition function. Rows with a NULL do not count.
    fn varve_state_agg_transition(fcinfo) {
        // SAFETY: declared (internal, timestamptz, text) for an aggregate.
        unsafe {
            let (Some(time), Some(name)) = (arg_opt(fcinfo, 1), arg_opt(fcinfo, 2)) else {
                fcinfo.set_null(raw_arg(fcinfo, 0).isnull);
                return raw_arg(fcinfo, 0).value;
            };
            guarded(|| {
                let time = time.value() as i64;
                if super::bucket::is_infinite(time) {
                    invalid("the times of state_agg must be finite", "Leave infinite times out.");
                }
                let states = state_or_new(fcinfo);
                states.add(time, text_bytes(name));
                Datum::from(states as *mut States)
            })
        }
    }
}

sql_function! {
    /// Combine function.
    fn varve_state_agg_combine(fcinfo) {
        // SAFETY: declared (internal, internal) for an aggregate.
        unsafe {
            let Some(other) = arg_opt(fcinfo, 1) else {
                fcinfo.set_null(raw_arg(fcinfo, 0).isnull);
                return raw_arg(fcinfo, 0).value;
            };
            guarded(|| {
                let states = state_or_new(fcinfo);
                states.merge(&*other.cast_mut_ptr::<States>());
                Datum::from(states as *mut States)
            })
        }
    }
}

sql_function! {
    /// Serialization function. Strict.
    fn varve_state_agg_serialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is our state.
            unsafe {
                let states = &*arg(fcinfo, 0).cast_mut_ptr::<States>();
                let mut out = Writer::default();
                out.u32(states.names.len() as u32);
                for name in &states.names {
                    out.u32(name.len() as u32).bytes(name);
                }
                for (time, number) in &states.changes {
                    out.i64(*time).u32(*number);
                }
                out.finish()
            }
        })
    }
}

sql_function! {
    /// Deserialization function. Strict.
    fn varve_state_agg_deserialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is what the serialization function wrote.
            unsafe {
                let mut input = Reader::new(arg(fcinfo, 0));
                let mut states = States::default();
                for _ in 0..input.u32() {
                    let len = input.u32() as usize;
                    states.number(input.bytes(len));
                }
                while !input.rest().is_empty() {
                    let change = (input.i64(), input.u32());
                    states.changes.push(change);
                }
                Datum::from(own(memory::current(), states))
            }
        })
    }
}

sql_function! {
    /// Final function: (states, durations, first_time, last_time, last_state).
    fn varve_state_agg_final(fcinfo) {
        // SAFETY: declared for our state and this result.
        unsafe {
            let Some(states) = arg_opt(fcinfo, 0) else { return null(fcinfo) };
            guarded(|| {
                let states = &*states.cast_mut_ptr::<States>();
                let timeline = states.timeline();
                let durations = states.durations(&timeline);
                let names: Vec<Datum> = durations.iter().filter_map(|(name, _)| text(name)).collect();
                let intervals: Vec<Interval> =
                    durations.iter().map(|(_, us)| Interval { time: *us, day: 0, month: 0 }).collect();
                let (first, last) = (timeline[0], timeline[timeline.len() - 1]);
                result_row(fcinfo, &[
                    Some(text_array(names)),
                    Some(interval_array(intervals)),
                    Some(Datum::from(first.0)),
                    Some(Datum::from(last.0)),
                    text(&states.names[last.1 as usize]),
                ])
            })
        }
    }
}
