//! Which form fits a block of doubles: judged by the estimated size of a small sample, without
//! encoding anything. The sample is a few runs of neighbours, so that differences can be seen too.

use super::decimal::{Form, Kind};

/// Values looked at: `GROUPS` runs of `RUN` neighbours, spread over the block.
const RUN: usize = 3;
const GROUPS: usize = 16;
const SAMPLE: usize = RUN * GROUPS;

/// Bits that an exception costs: the double, its position, and the hole it leaves in the integers.
const EXCEPTION_BITS: f64 = 76.0;

/// What a column of corrections costs beyond the sample's estimate, and for being a second stream to decode.
const CORRECTION_BITS: f64 = 1.5;

/// Largest correction worth a column of its own, in ULPs to either side.
pub const MAX_ULPS: i64 = 127;

/// Beyond this many bits an integer saves nothing over the double.
const MAX_INTEGER_BITS: f64 = 50.0;

/// How to turn a block into integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    pub form: Form,
    /// Values that the form misses by a few ULPs get a correction instead of being exceptions.
    pub corrected: bool,
    /// Estimate for one value.
    pub bits: f64,
}

/// The plan of the block before.
#[derive(Clone, Debug, Default)]
pub struct Guess {
    last: Option<Plan>,
    /// Blocks since all forms were looked at.
    age: u8,
}

/// A guess is not asked again after so many blocks.
const OLDEST: u8 = 16;

struct Sample {
    values: [f64; SAMPLE],
    len: usize,
    /// Values that no form but `Bits` can express: NaN, infinities, -0.0.
    special: usize,
    /// Decimal logarithm of a large magnitude, rounded up.
    digits: i32,
}

/// The cheapest plan for `values`, or the one of the block before while it does as well; `Form::BITS` where no
/// other form helps.
pub fn choose(values: &[f64], singles: bool, guess: &mut Guess) -> Plan {
    let sample = Sample::of(values);
    if let (Some(last), true) = (guess.last, guess.age < OLDEST) {
        if let Some(plan) = sample.again(last) {
            guess.age += 1;
            return plan;
        }
    }
    let plan = sample.choose(singles);
    *guess = Guess {
        last: (values.len() > SAMPLE).then_some(plan),
        age: 0,
    };
    plan
}

impl Sample {
    fn choose(&self, singles: bool) -> Plan {
        let sample = self;
        let mut best = sample.plain(if singles {
            Form::SINGLE_BITS
        } else {
            Form::BITS
        });
        if sample.special == sample.len {
            return best;
        }
        if singles {
            sample.search(Kind::Decimal, &mut best);
            sample.search(Kind::Single, &mut best);
            return best;
        }
        let clean = sample.search(Kind::Decimal, &mut best);
        if clean.is_some_and(|exponent| exponent <= 6) {
            return best;
        }
        sample.try_binary(&mut best);
        if clean.is_none() {
            for kind in [
                Kind::Scaled,
                Kind::Single,
                Kind::Thirds,
                Kind::Sevenths,
                Kind::Ninths,
            ] {
                if sample.search(kind, &mut best).is_some() {
                    break;
                }
            }
            if best.form == Form::BITS {
                sample.try_form(Form::SINGLE_BITS, &mut best);
            }
        }
        best
    }

    /// The same plan, if it comes to about as many bits.
    fn again(&self, last: Plan) -> Option<Plan> {
        let mut plan = self.plain(Form::BITS);
        if last.form == Form::BITS || self.special == self.len {
            return None;
        }
        let clean = self.try_form(last.form, &mut plan);
        let same = plan.form == last.form && plan.corrected == last.corrected;
        // Divisors take digits out that are not needed any more.
        let slack_bits = if clean { 2.0 } else { 1.0 };
        (same && (plan.bits - last.bits).abs() <= slack_bits).then_some(plan)
    }

    fn of(values: &[f64]) -> Sample {
        let mut sample = Sample {
            values: [0.0; SAMPLE],
            len: 0,
            special: 0,
            digits: 0,
        };
        if values.len() <= SAMPLE {
            sample.len = values.len();
            sample.values[..values.len()].copy_from_slice(values);
        } else {
            sample.len = SAMPLE;
            for group in 0..GROUPS {
                let start = group * (values.len() - RUN) / (GROUPS - 1);
                sample.values[group * RUN..][..RUN].copy_from_slice(&values[start..start + RUN]);
            }
        }
        let mut magnitudes = [0.0; SAMPLE];
        let mut finite = 0;
        for value in &sample.values[..sample.len] {
            if !value.is_finite() || value.to_bits() == (-0.0f64).to_bits() {
                sample.special += 1;
            } else {
                magnitudes[finite] = value.abs();
                finite += 1;
            }
        }
        // A few outliers must not hide the digits of the others.
        let large = finite * 15 / 16;
        if finite > 0 {
            let (_, magnitude, _) =
                magnitudes[..finite].select_nth_unstable_by(large, f64::total_cmp);
            sample.digits = if *magnitude > 0.0 {
                magnitude.log10().ceil() as i32
            } else {
                0
            };
        }
        sample
    }

    /// Plan of a form that expresses every value.
    fn plain(&self, form: Form) -> Plan {
        let mut ints = [0; SAMPLE];
        form.convert(&self.values[..self.len], &mut ints[..self.len]);
        Plan {
            form,
            corrected: false,
            bits: integer_bits(&ints[..self.len]),
        }
    }

    /// Tries the exponents of a kind upwards until one expresses all values; returns that one.
    fn search(&self, kind: Kind, best: &mut Plan) -> Option<i8> {
        // More digits than 15 are not exact: i / 10^e would have to be larger than 2^50.
        let limit = (15 - self.digits).clamp(0, 22) as i8;
        // A quotient does not change when both sides are multiplied by ten: what no large exponent
        // expresses, no small one does. (At the limit itself every fifth double happens to fit.)
        let probe = Form::new(kind, limit - (limit > 0) as i8);
        if kind != Kind::Scaled && probe.is_none_or(|form| self.is_hopeless(self.missed(form))) {
            return None;
        }
        (0..=limit).find(|&exponent| {
            Form::new(kind, exponent).is_some_and(|form| self.try_form(form, best))
        })
    }

    /// How many values a form misses that another could express.
    fn missed(&self, form: Form) -> usize {
        let mut slots = [0; SAMPLE];
        let wrong = form.convert(&self.values[..self.len], &mut slots[..self.len]);
        wrong.saturating_sub(self.special)
    }

    /// So many misses that neither corrections nor exceptions can pay.
    fn is_hopeless(&self, missed: usize) -> bool {
        missed > (self.len - self.special) * 7 / 8
    }

    /// The power of two that all values are multiples of.
    fn try_binary(&self, best: &mut Plan) {
        let lowest = self.values[..self.len]
            .iter()
            .filter(|value| value.is_finite() && **value != 0.0)
            .map(|value| {
                let biased = (value.to_bits() >> 52 & 0x7ff) as i32;
                biased - 1075 + (value.to_bits() | 1 << 52).trailing_zeros() as i32
            })
            .min();
        let exponent = lowest.and_then(|lowest| i8::try_from(lowest).ok());
        if let Some(form) = exponent.and_then(|exponent| Form::new(Kind::Binary, exponent)) {
            self.try_form(form, best);
        }
    }

    /// Replaces `best` if `form` is cheaper; true if it expresses all values that any form can.
    fn try_form(&self, form: Form, best: &mut Plan) -> bool {
        let values = &self.values[..self.len];
        let mut slots = [0; SAMPLE];
        let missed = form
            .convert(values, &mut slots[..self.len])
            .saturating_sub(self.special);
        let clean = missed == 0;
        let corrigible = form.is_linear() && form.kind() != Kind::Binary;
        if self.is_hopeless(missed) || missed > self.len / 2 && !corrigible {
            return false;
        }
        let (mut ulps_bits, mut beyond) = (0.0, 0usize);
        if self.special + missed > 0 {
            let mut restored = slots;
            form.restore(&mut restored[..self.len]);
            let mut previous = 0;
            for ((value, back), int) in values.iter().zip(restored).zip(&mut slots) {
                let ulps = (value.to_bits() as i64).wrapping_sub(back);
                if (-MAX_ULPS..=MAX_ULPS).contains(&ulps) {
                    ulps_bits += signed_bits(ulps);
                } else {
                    beyond += 1;
                    *int = previous;
                }
                previous = *int;
            }
        }
        let n = self.len as f64;
        let integers = integer_bits(&slots[..self.len]);
        if integers > MAX_INTEGER_BITS {
            return clean;
        }
        let excepted = integers + missed as f64 * EXCEPTION_BITS / n;
        // Where the sample has but one value, the others are likelier to be decimals, too.
        let tie =
            excepted == best.bits && matches!(best.form.kind(), Kind::Bits | Kind::SingleBits);
        if excepted < best.bits || tie {
            *best = Plan {
                form,
                corrected: false,
                bits: excepted,
            };
        }
        if corrigible && missed > 0 {
            let others = beyond.saturating_sub(self.special) as f64 * EXCEPTION_BITS / n;
            let corrected = integers + ulps_bits / n + CORRECTION_BITS + others;
            if corrected < best.bits {
                *best = Plan {
                    form,
                    corrected: true,
                    bits: corrected,
                };
            }
        }
        clean
    }
}

fn signed_bits(int: i64) -> f64 {
    (64 - int.unsigned_abs().leading_zeros() + (int != 0) as u32) as f64
}

/// Bits of a value after packing, from the range of the sample or the differences inside its runs.
fn integer_bits(ints: &[i64]) -> f64 {
    let (Some(low), Some(high)) = (ints.iter().min(), ints.iter().max()) else {
        return 0.0;
    };
    let range = (64 - high.wrapping_sub(*low).leading_zeros()) as f64;
    let mut differences = 0.0;
    let mut pairs = 0;
    for run in ints.chunks(RUN) {
        for pair in run.windows(2) {
            differences += signed_bits(pair[1].wrapping_sub(pair[0]));
            pairs += 1;
        }
    }
    if pairs == 0 {
        return range;
    }
    range.min(differences / pairs as f64 + 0.5)
}
