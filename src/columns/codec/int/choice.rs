//! Which frame a list of integers gets: over the values, their differences, or differences of differences.
//!
//! A sample of short stretches tells which of the three can win; only those are planned in full. One pass
//! over everything counts runs, which is what run lengths and dictionaries are chosen by.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use super::frame::Frame;
use super::fresh::Gain;
use super::plan;

/// What a frame is laid over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Values,
    Deltas,
    Deltas2,
}

/// What the list before was laid over, and its bits a value.
#[derive(Clone, Debug, Default)]
pub struct Guess {
    last: Option<(Order, usize)>,
    /// Lists since all orders were looked at.
    age: u8,
    /// What a fresh list gained by.
    pub gain: Gain,
}

impl Guess {
    /// Whether the list that was just laid is not like the one before.
    pub fn is_new(&self) -> bool {
        self.age == 0
    }
}

/// A guess is not asked again after so many lists.
const OLDEST: u8 = 8;

/// The best frame, and the numbers that it is laid over.
pub struct Choice {
    pub order: Order,
    pub frame: Frame,
    /// Empty for `Order::Values`.
    pub differences: Vec<i64>,
}

/// Lists up to this length are planned in full.
const SMALL: usize = 256;
/// Stretches of the sample and values in each.
const STRETCHES: usize = 12;
const STRETCH: usize = 16;

/// Runs of equal values, and of equal differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    pub values: usize,
    pub deltas: usize,
}

/// Counts runs of at least two values.
pub fn count_runs(values: &[i64]) -> Runs {
    let deltas = 1 + count_bends(values);
    Runs {
        values: 1 + count_steps(values),
        deltas,
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn count_steps(values: &[i64]) -> usize {
    let next = &values[1..];
    next.iter()
        .zip(values)
        .map(|(b, a)| usize::from(a != b))
        .sum()
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn count_bends(values: &[i64]) -> usize {
    let Some(third) = values.get(2..) else {
        return 0;
    };
    let (first, second) = (&values[..third.len()], &values[1..][..third.len()]);
    let mut bends = 0;
    for i in 0..third.len() {
        bends += usize::from(third[i].wrapping_sub(second[i]) != second[i].wrapping_sub(first[i]));
    }
    bends
}

/// The cheapest of the three for at least three values, or the one of the list before while it takes about as
/// many bits.
pub fn choose(values: &[i64], guess: &mut Guess) -> Choice {
    if let (Some((order, bits)), true) = (guess.last, guess.age < OLDEST) {
        let choice = lay(values, order, &mut Vec::new());
        if (bits * 13..=bits * 17).contains(&(choice.bits(values.len()) * 16)) {
            guess.age += 1;
            return choice;
        }
    }
    let best = choose_anew(values);
    *guess = Guess {
        last: (values.len() > SMALL).then(|| (best.order, best.bits(values.len()))),
        age: 0,
        gain: Gain::None,
    };
    best
}

impl Choice {
    /// In 256ths of a bit, of each of `n` values.
    fn bits(&self, n: usize) -> usize {
        self.frame.bytes * 8 * 256 / n
    }
}

fn choose_anew(values: &[i64]) -> Choice {
    let guess = if values.len() > SMALL {
        sample(values)
    } else {
        [0; 3]
    };
    let least = guess.iter().min().copied().unwrap_or(0);
    let mut best: Option<Choice> = None;
    let mut deltas = Vec::new();
    for (order, bytes) in [Order::Values, Order::Deltas, Order::Deltas2]
        .into_iter()
        .zip(guess)
    {
        // The sample is right but for some percent.
        if bytes * 8 > least * 9 + 8 {
            continue;
        }
        let choice = lay(values, order, &mut deltas);
        // A tie goes to the one that decodes faster.
        if best
            .as_ref()
            .is_none_or(|b| choice.frame.bytes < b.frame.bytes)
        {
            best = Some(choice);
        }
    }
    best.expect("BUG: the least of three is one of them")
}

/// Plans a frame in this order; `deltas` are empty or known from another one.
fn lay(values: &[i64], order: Order, deltas: &mut Vec<i64>) -> Choice {
    if order != Order::Values && deltas.is_empty() {
        *deltas = differences(values, 1);
    }
    let differences = match order {
        Order::Values => Vec::new(),
        Order::Deltas => deltas.clone(),
        Order::Deltas2 => differences(deltas, 2),
    };
    let frame = plan::plan(match order {
        Order::Values => values,
        _ => &differences,
    });
    Choice {
        order,
        frame,
        differences,
    }
}

/// Bytes that a sample takes in each order, without headers.
fn sample(values: &[i64]) -> [usize; 3] {
    const SIZE: usize = STRETCHES * STRETCH;
    let mut plain = [0; SIZE];
    let mut deltas = [0; SIZE];
    let mut deltas2 = [0; SIZE];
    let apart = (values.len() - STRETCH - 2) / (STRETCHES - 1);
    for stretch in 0..STRETCHES {
        let from = &values[stretch * apart..][..STRETCH + 2];
        for i in 0..STRETCH {
            let at = stretch * STRETCH + i;
            plain[at] = from[i + 2];
            deltas[at] = from[i + 2].wrapping_sub(from[i + 1]);
            deltas2[at] = deltas[at].wrapping_sub(from[i + 1].wrapping_sub(from[i]));
        }
    }
    [plain, deltas, deltas2].map(|numbers| {
        let frame = plan::plan(&numbers);
        frame.bytes - frame.header
    })
}

/// Differences to the value before. The first `filler` slots have none and repeat the next one, so that
/// the length stays that of a whole packed group.
pub fn differences(values: &[i64], filler: usize) -> Vec<i64> {
    let mut out = vec![0; values.len()];
    subtract_before(values, &mut out[1..]);
    let filler = filler.min(values.len() - 1);
    let repeat = out[filler];
    out[..filler].fill(repeat);
    out
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn subtract_before(values: &[i64], out: &mut [i64]) {
    for (i, difference) in out.iter_mut().enumerate() {
        *difference = values[i + 1].wrapping_sub(values[i]);
    }
}
