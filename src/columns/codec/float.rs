//! A block of doubles (or of f32, widened) to bytes and back.
//!
//! The usual way: the decimal front end (`decimal.rs`) makes integers, the integer codecs pack them, a
//! second stream corrects ULPs, a third keeps what no integer expresses. Every integer is checked to give
//! back the bits of its value while it is made.
//!
//! ```text
//! FLOAT_FORMED...: form | [varint length, integers: ULPs] | [exceptions] | integers: the values
//! exceptions: varint count | varint length, integers: gaps between rows | varint length, integers: bits
//! FLOAT_SPLIT: width | varint length, integers: the ordered bits above | integers: `width` bits below
//! ```
//!
//! Fresh blocks are planned from a sample. Merged ones also try what may be smaller and take what is
//! cheapest when bytes and decode time are weighed (`Point::price`).

use std::mem::ManuallyDrop;
use std::ops::Range;

use super::decimal::{narrow, widen, Form};
use super::sample::{self, Plan, MAX_ULPS};
use super::{id, int, pco, planes, Guess, Point, Tier};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

/// Appends the body and returns its codec. `guess` is what the block before chose.
pub fn encode_f64(values: &[f64], tier: Tier, guess: &mut Guess, out: &mut Vec<u8>) -> u8 {
    encode(values, false, tier, guess, out)
}

/// As `encode_f64`.
pub fn encode_f32(values: &[f32], tier: Tier, guess: &mut Guess, out: &mut Vec<u8>) -> u8 {
    let wide: Vec<f64> = values
        .iter()
        .map(|v| f64::from_bits(widen(v.to_bits())))
        .collect();
    encode(&wide, true, tier, guess, out)
}

/// Reads `n` values of a body that takes up the rest of `reader`; `out` is cleared first.
pub fn decode_f64(codec: u8, reader: Reader, n: usize, out: &mut Vec<f64>) -> Result<()> {
    let mut slots = slots_of(std::mem::take(out));
    let result = decode(codec, false, reader, n, &mut slots);
    *out = doubles_of(slots);
    result
}

/// As `decode_f64`.
pub fn decode_f32(codec: u8, reader: Reader, n: usize, out: &mut Vec<f32>) -> Result<()> {
    out.clear();
    let mut slots = Vec::new();
    decode(codec, true, reader, n, &mut slots)?;
    out.extend(
        slots
            .iter()
            .map(|bits| f32::from_bits(narrow(*bits as u64))),
    );
    Ok(())
}

/// The sum of the `n` doubles of a body without decoding it, rounded once. None where only the values
/// themselves can tell.
pub fn sum_f64(codec: u8, mut reader: Reader, n: usize) -> Result<Option<f64>> {
    match codec {
        id::FLOAT_CONST => Ok(Some(f64::from_bits(reader.u64()?) * n as f64)),
        id::FLOAT_FORMED => {
            let form = Form::get(&mut reader)?;
            if !form.is_linear() {
                return Ok(None);
            }
            let ints = reader.u8()?;
            let sum = int::sum_body(ints, reader, n)?;
            Ok(sum.map(|sum| form.scale_sum(sum)))
        }
        _ => Ok(None),
    }
}

/// The double of row `at`, below `n`, of a body. None of codecs that do not tell one alone.
pub fn value_f64(codec: u8, mut reader: Reader, n: usize, at: usize) -> Result<Option<f64>> {
    match codec {
        id::FLOAT_CONST => {
            let value = reader.u64()?;
            reader.finish()?;
            Ok(Some(f64::from_bits(value)))
        }
        id::FLOAT_RAW => {
            let raw = reader.take(n * 8)?.as_chunks().0;
            reader.finish()?;
            Ok(Some(f64::from_le_bytes(raw[at])))
        }
        id::FLOAT_FORMED => {
            let form = Form::get(&mut reader)?;
            let ints = reader.u8()?;
            Ok(int::value_of_body(ints, reader, n, at)?.map(|value| {
                let mut slot = [value];
                form.restore(&mut slot);
                f64::from_bits(slot[0] as u64)
            }))
        }
        _ => Ok(None),
    }
}

/// Fills `out` with the doubles of `rows` of the `n` rows of a body. `rows` must be as `int::around` returns them, and not empty. False of codecs that do not tell
/// them: what is in `out` then is nothing.
pub fn decode_part_f64(
    codec: u8,
    mut reader: Reader,
    n: usize,
    rows: Range<usize>,
    out: &mut Vec<f64>,
) -> Result<bool> {
    if codec != id::FLOAT_FORMED {
        return Ok(false);
    }
    let form = Form::get(&mut reader)?;
    let ints = reader.u8()?;
    let mut slots = slots_of(std::mem::take(out));
    let is_told = int::decode_part(ints, reader, n, rows, &mut slots);
    if let Ok(true) = is_told {
        form.restore(&mut slots);
    }
    *out = doubles_of(slots);
    is_told
}

/// `singles`: every value is a widened f32.
fn encode(values: &[f64], singles: bool, tier: Tier, guess: &mut Guess, out: &mut Vec<u8>) -> u8 {
    let at = out.len();
    if let Some(first) = constant(values) {
        out.extend_from_slice(&first.to_le_bytes());
        return id::FLOAT_CONST;
    }
    let plan = sample::choose(values, singles, &mut guess.form);
    let mut best = Best { codec: 0, at, out };
    best.codec = put_formed(values, plan, tier, &mut guess.order, best.out);
    try_finer(values, plan, tier, &mut best);
    if plan.form == Form::BITS && plan.bits > SPLIT_ABOVE_BITS {
        best.offer_smaller(|bytes| put_split(values, tier, bytes));
    }
    // Where integers express everything, their own codecs do better than any on the doubles.
    let all_integers = best.codec == id::FLOAT_FORMED && plan.form != Form::BITS;
    if let (Tier::Merged(point), false) = (tier, all_integers) {
        try_merged(values, point, &mut best);
    }
    // Whatever the sample missed: a block never takes more than its raw values.
    if best.bytes() > values.len() * if singles { 4 } else { 8 } {
        best.offer_smaller(|bytes| put_raw(values, singles, bytes));
    }
    best.codec
}

/// The bits of all values, if they are the same.
fn constant(values: &[f64]) -> Option<u64> {
    let first = values.first()?.to_bits();
    values
        .iter()
        .all(|value| value.to_bits() == first)
        .then_some(first)
}

/// The encoding to beat, at the end of `out`.
struct Best<'a> {
    codec: u8,
    at: usize,
    out: &'a mut Vec<u8>,
}

impl Best<'_> {
    fn bytes(&self) -> usize {
        self.out.len() - self.at
    }

    fn replace(&mut self, codec: u8, bytes: &[u8]) {
        self.out.truncate(self.at);
        self.out.extend_from_slice(bytes);
        self.codec = codec;
    }

    fn offer_smaller(&mut self, put: impl FnOnce(&mut Vec<u8>) -> u8) {
        let mut attempt = Vec::new();
        let codec = put(&mut attempt);
        if attempt.len() < self.bytes() {
            self.replace(codec, &attempt);
        }
    }
}

/// The sample may have missed the values with more digits: another one or two, where that halves the
/// misses, may be cheaper than a list of exceptions.
fn try_finer(values: &[f64], plan: Plan, tier: Tier, best: &mut Best) {
    if !matches!(
        best.codec,
        id::FLOAT_FORMED_EXCEPTED | id::FLOAT_FORMED_CORRECTED_EXCEPTED
    ) {
        return;
    }
    let mut ints = vec![0; values.len()];
    let missed = plan.form.convert(values, &mut ints);
    for form in plan.form.finer() {
        if form.convert(values, &mut ints) * 2 < missed {
            let plan = Plan { form, ..plan };
            let mut order = int::Guess::default();
            best.offer_smaller(|bytes| put_formed(values, plan, tier, &mut order, bytes));
            return;
        }
    }
}

/// Decode times in nanoseconds a row, for the weighing.
const FORMED_NANOSECONDS: f64 = 1.0;
const PLANES_NANOSECONDS: f64 = 3.0;
const PCO_NANOSECONDS: f64 = 4.5;

/// What only a merged block tries: byte planes and pcodec on the doubles themselves.
fn try_merged(values: &[f64], point: Point, best: &mut Best) {
    let rows = values.len();
    let mut cost = point.price(best.bytes(), rows, FORMED_NANOSECONDS);
    let mut attempt = Vec::new();
    // What is dearer than the best even if it took no bytes is not tried.
    if point.price(0, rows, PLANES_NANOSECONDS) < cost {
        let words: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
        planes::encode(&words, 1, &mut attempt);
        let planes_cost = point.price(attempt.len(), rows, PLANES_NANOSECONDS);
        if planes_cost < cost {
            cost = planes_cost;
            best.replace(id::FLOAT_PLANES, &attempt);
        }
        attempt.clear();
    }
    if point.price(0, rows, PCO_NANOSECONDS) < cost
        && pco::encode(values, &mut attempt)
        && point.price(attempt.len(), rows, PCO_NANOSECONDS) < cost
    {
        best.replace(id::FLOAT_PCO, &attempt);
    }
}

fn put_formed(
    values: &[f64],
    plan: Plan,
    tier: Tier,
    order: &mut int::Guess,
    out: &mut Vec<u8>,
) -> u8 {
    let mut ints = vec![0; values.len()];
    let wrong = plan.form.convert(values, &mut ints);
    let mut repairs = Repairs::default();
    if wrong > 0 {
        repairs.collect(values, plan, &mut ints);
    }
    plan.form.put(out);
    let (corrected, excepted) = (!repairs.ulps.is_empty(), !repairs.rows.is_empty());
    if corrected {
        put_integers(&repairs.ulps, tier, out);
    }
    if excepted {
        put_varint(out, repairs.rows.len() as u64);
        put_integers(&repairs.rows, tier, out);
        put_integers(&repairs.bits, tier, out);
    }
    int::encode_next(&ints, tier, order, out);
    match (corrected, excepted) {
        (false, false) => id::FLOAT_FORMED,
        (true, false) => id::FLOAT_FORMED_CORRECTED,
        (false, true) => id::FLOAT_FORMED_EXCEPTED,
        (true, true) => id::FLOAT_FORMED_CORRECTED_EXCEPTED,
    }
}

/// True reals: sign, exponent and the top of the mantissa cluster, the rest is noise.
const SPLIT_WIDTH: u32 = 52;

/// Splitting pays only where the ordered bits are wide.
const SPLIT_ABOVE_BITS: f64 = 40.0;

fn put_split(values: &[f64], tier: Tier, out: &mut Vec<u8>) -> u8 {
    let mut high = vec![0; values.len()];
    Form::BITS.convert(values, &mut high);
    let low: Vec<i64> = high
        .iter()
        .map(|bits| bits & ((1 << SPLIT_WIDTH) - 1))
        .collect();
    high.iter_mut().for_each(|bits| *bits >>= SPLIT_WIDTH);
    out.push(SPLIT_WIDTH as u8);
    put_integers(&high, tier, out);
    int::encode(&low, tier, out);
    id::FLOAT_SPLIT
}

fn put_raw(values: &[f64], singles: bool, out: &mut Vec<u8>) -> u8 {
    for value in values {
        if singles {
            out.extend_from_slice(&narrow(value.to_bits()).to_le_bytes());
        } else {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
    id::FLOAT_RAW
}

fn put_integers(ints: &[i64], tier: Tier, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    int::encode(ints, tier, &mut bytes);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(&bytes);
}

/// Replaces `slots` by the bits of the doubles of a block.
fn decode(
    codec: u8,
    singles: bool,
    mut reader: Reader,
    n: usize,
    slots: &mut Vec<i64>,
) -> Result<()> {
    // What is in `slots` is overwritten.
    match codec {
        id::FLOAT_CONST => {
            slots.clear();
            slots.resize(n, reader.u64()? as i64);
            reader.finish()
        }
        id::FLOAT_FORMED => get_formed(false, false, reader, n, slots),
        id::FLOAT_FORMED_CORRECTED => get_formed(true, false, reader, n, slots),
        id::FLOAT_FORMED_EXCEPTED => get_formed(false, true, reader, n, slots),
        id::FLOAT_FORMED_CORRECTED_EXCEPTED => get_formed(true, true, reader, n, slots),
        id::FLOAT_SPLIT => get_split(reader, n, slots),
        id::FLOAT_PLANES => {
            slots.resize(n, 0);
            planes::decode(&mut reader, as_words(slots))
        }
        id::FLOAT_PCO => {
            slots.resize(n, 0);
            pco::decode(reader.rest(), as_doubles(slots))
        }
        id::FLOAT_RAW => get_raw(singles, reader, n, slots),
        _ => Err(Corrupt::new("unknown codec of floats")),
    }
}

fn get_formed(
    corrected: bool,
    excepted: bool,
    mut reader: Reader,
    n: usize,
    slots: &mut Vec<i64>,
) -> Result<()> {
    let form = Form::get(&mut reader)?;
    let mut repairs = Repairs::default();
    if corrected {
        get_integers(&mut reader, n, &mut repairs.ulps)?;
    }
    if excepted {
        let count = reader.varint_up_to(n)?;
        get_integers(&mut reader, count, &mut repairs.rows)?;
        get_integers(&mut reader, count, &mut repairs.bits)?;
    }
    int::decode(reader.rest(), n, slots)?;
    form.restore(slots);
    repairs.apply(slots)
}

fn get_split(mut reader: Reader, n: usize, slots: &mut Vec<i64>) -> Result<()> {
    let width = reader.u8()?;
    if !(1..64).contains(&width) {
        return Err(Corrupt::new("floats are split at no bit"));
    }
    let mut high = Vec::new();
    get_integers(&mut reader, n, &mut high)?;
    int::decode(reader.rest(), n, slots)?;
    for (slot, high) in slots.iter_mut().zip(&high) {
        *slot |= high << width;
    }
    Form::BITS.restore(slots);
    Ok(())
}

fn get_raw(singles: bool, mut reader: Reader, n: usize, slots: &mut Vec<i64>) -> Result<()> {
    slots.clear();
    if singles {
        let raw = reader.take(n * 4)?.as_chunks().0;
        slots.extend(
            raw.iter()
                .map(|bytes| widen(u32::from_le_bytes(*bytes)) as i64),
        );
    } else {
        let raw = reader.take(n * 8)?.as_chunks().0;
        slots.extend(raw.iter().map(|bytes| i64::from_le_bytes(*bytes)));
    }
    reader.finish()
}

fn get_integers(reader: &mut Reader, count: usize, ints: &mut Vec<i64>) -> Result<()> {
    let bytes = reader.varint_up_to(reader.len())?;
    int::decode(reader.take(bytes)?, count, ints)
}

/// What the integers of a form miss.
#[derive(Default)]
struct Repairs {
    /// Per row, or empty.
    ulps: Vec<i64>,
    /// Rows of the exceptions, each as the gap behind the one before.
    rows: Vec<i64>,
    bits: Vec<i64>,
}

impl Repairs {
    /// Sorts the misses into corrections and exceptions. An exception's integer becomes its
    /// neighbour's, which costs least in every packing.
    fn collect(&mut self, values: &[f64], plan: Plan, ints: &mut [i64]) {
        let mut restored = ints.to_vec();
        plan.form.restore(&mut restored);
        if plan.corrected {
            self.ulps.resize(values.len(), 0);
        }
        let mut next_row = 0;
        for row in 0..values.len() {
            let bits = values[row].to_bits() as i64;
            let ulps = bits.wrapping_sub(restored[row]);
            if ulps == 0 {
                continue;
            }
            if plan.corrected && (-MAX_ULPS..=MAX_ULPS).contains(&ulps) {
                self.ulps[row] = ulps;
                continue;
            }
            self.rows.push((row - next_row) as i64);
            self.bits.push(bits);
            next_row = row + 1;
            if row > 0 {
                ints[row] = ints[row - 1];
            }
        }
        // The first rows have no neighbour before them: take the one behind.
        let leading = self.rows.iter().take_while(|gap| **gap == 0).count();
        let fill = ints.get(leading).copied().unwrap_or(0);
        ints[..leading].fill(fill);
    }

    /// Mends restored values.
    fn apply(&self, slots: &mut [i64]) -> Result<()> {
        for (slot, ulps) in slots.iter_mut().zip(&self.ulps) {
            *slot = slot.wrapping_add(*ulps);
        }
        let mut rest = slots;
        for (gap, bits) in self.rows.iter().zip(&self.bits) {
            let row = usize::try_from(*gap).unwrap_or(usize::MAX);
            let (slot, behind) = rest
                .get_mut(row..)
                .and_then(<[i64]>::split_first_mut)
                .ok_or(Corrupt::new("an exception lies behind its block"))?;
            *slot = *bits;
            rest = behind;
        }
        Ok(())
    }
}

/// The same allocation seen as integers: blocks are decoded in place.
fn slots_of(doubles: Vec<f64>) -> Vec<i64> {
    let mut doubles = ManuallyDrop::new(doubles);
    let (data, len, capacity) = (doubles.as_mut_ptr(), doubles.len(), doubles.capacity());
    // SAFETY: i64 has the size and alignment of f64 and no invalid bits; `doubles` is not dropped.
    unsafe { Vec::from_raw_parts(data.cast(), len, capacity) }
}

fn doubles_of(slots: Vec<i64>) -> Vec<f64> {
    let mut slots = ManuallyDrop::new(slots);
    let (data, len, capacity) = (slots.as_mut_ptr(), slots.len(), slots.capacity());
    // SAFETY: f64 has the size and alignment of i64 and no invalid bits; `slots` is not dropped.
    unsafe { Vec::from_raw_parts(data.cast(), len, capacity) }
}

fn as_words(slots: &mut [i64]) -> &mut [u64] {
    // SAFETY: u64 has the size and alignment of i64, and neither has invalid bits.
    unsafe { std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), slots.len()) }
}

fn as_doubles(slots: &mut [i64]) -> &mut [f64] {
    // SAFETY: f64 has the size and alignment of i64, and neither has invalid bits.
    unsafe { std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), slots.len()) }
}
