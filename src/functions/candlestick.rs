//! `candlestick(time, price, volume)`: open, high, low and close of a group, its volume and its volume-weighted price.
//!
//! Of equal times or prices the row that arrives first stays. Rows with a NULL time, a NULL price or NaN do not count; a NULL
//! volume counts as none.
use super::aggregate::{context, place, Reader, Writer};
use crate::pg::composite::{float, result_row};
use crate::pg::fcinfo::{arg, arg_opt, guarded, null, raw_arg, sql_function};
use crate::pg::Datum;

#[derive(Clone, Copy)]
struct Trade {
    time: i64,
    price: f64,
}

#[derive(Clone, Copy)]
struct State {
    open: Trade,
    high: Trade,
    low: Trade,
    close: Trade,
    /// The sum of volumes and of price times volume; false if there was none.
    volume: f64,
    turnover: f64,
    has_volume: bool,
}

impl State {
    fn of(trade: Trade, volume: Option<f64>) -> State {
        State {
            open: trade,
            high: trade,
            low: trade,
            close: trade,
            volume: volume.unwrap_or(0.0),
            turnover: volume.map_or(0.0, |volume| volume * trade.price),
            has_volume: volume.is_some(),
        }
    }

    #[inline(always)]
    fn merge(&mut self, other: &State) {
        if other.open.time < self.open.time {
            self.open = other.open;
        }
        if other.high.price > self.high.price {
            self.high = other.high;
        }
        if other.low.price < self.low.price {
            self.low = other.low;
        }
        if other.close.time > self.close.time {
            self.close = other.close;
        }
        self.volume += other.volume;
        self.turnover += other.turnover;
        self.has_volume |= other.has_volume;
    }
}

sql_function! {
    /// Transition function, with or without a volume.
    fn varve_candlestick_transition(fcinfo) {
        // SAFETY: declared (internal, timestamptz, float8 [, float8]) for an aggregate.
        unsafe {
            let (state, time, price) = (raw_arg(fcinfo, 0), raw_arg(fcinfo, 1), raw_arg(fcinfo, 2));
            let trade = Trade { time: time.value.value() as i64, price: f64::from_bits(price.value.value() as u64) };
            if time.isnull || price.isnull || trade.price.is_nan() {
                fcinfo.set_null(state.isnull);
                return state.value;
            }
            let volume = if fcinfo.arguments() > 3 { arg_opt(fcinfo, 3) } else { None };
            let row = State::of(trade, volume.map(|volume| f64::from_bits(volume.value() as u64)));
            if !state.isnull {
                (*state.value.cast_mut_ptr::<State>()).merge(&row);
                return state.value;
            }
            guarded(|| Datum::from(place(context(fcinfo), row)))
        }
    }
}

sql_function! {
    /// Combine function.
    fn varve_candlestick_combine(fcinfo) {
        // SAFETY: declared (internal, internal) for an aggregate.
        unsafe {
            let (state, other) = (arg_opt(fcinfo, 0), arg_opt(fcinfo, 1));
            match (state, other.map(|other| &*other.cast_mut_ptr::<State>())) {
                (Some(state), Some(other)) => {
                    (*state.cast_mut_ptr::<State>()).merge(other);
                    state
                }
                (None, Some(other)) => guarded(|| Datum::from(place(context(fcinfo), *other))),
                (Some(state), None) => state,
                (None, None) => null(fcinfo),
            }
        }
    }
}

sql_function! {
    /// Serialization function. Strict.
    fn varve_candlestick_serialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is our state.
            unsafe {
                let state = &*arg(fcinfo, 0).cast_mut_ptr::<State>();
                let mut out = Writer::default();
                for trade in [state.open, state.high, state.low, state.close] {
                    out.i64(trade.time).f64(trade.price);
                }
                out.f64(state.volume).f64(state.turnover).u32(state.has_volume.into());
                out.finish()
            }
        })
    }
}

sql_function! {
    /// Deserialization function. Strict.
    fn varve_candlestick_deserialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is what the serialization function wrote.
            unsafe {
                let mut input = Reader::new(arg(fcinfo, 0));
                let mut trade = || Trade { time: input.i64(), price: input.f64() };
                let (open, high, low, close) = (trade(), trade(), trade(), trade());
                let (volume, turnover, has_volume) = (input.f64(), input.f64(), input.u32() != 0);
                let state = State { open, high, low, close, volume, turnover, has_volume };
                Datum::from(place(crate::pg::memory::current(), state))
            }
        })
    }
}

sql_function! {
    /// Final function: (open_time, open, high_time, high, low_time, low, close_time, close, volume, vwap).
    fn varve_candlestick_final(fcinfo) {
        // SAFETY: declared for our state and this result.
        unsafe {
            let Some(state) = arg_opt(fcinfo, 0) else { return null(fcinfo) };
            guarded(|| {
                let state = &*state.cast_mut_ptr::<State>();
                let mut fields = Vec::with_capacity(10);
                for trade in [state.open, state.high, state.low, state.close] {
                    fields.extend([Some(Datum::from(trade.time)), float(trade.price)]);
                }
                fields.push(if state.has_volume { float(state.volume) } else { None });
                let has_vwap = state.has_volume && state.volume > 0.0;
                fields.push(if has_vwap { float(state.turnover / state.volume) } else { None });
                result_row(fcinfo, &fields)
            })
        }
    }
}
