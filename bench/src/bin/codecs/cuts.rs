//! The blocks of a small chunk as the chunk builder cuts them: of 1,024 or 8,192 rows, or one of up to 32,768,
//! whatever takes fewer bytes with those of the directory.
//!
//! Bytes of one block: codec and body. Of several: 0; then of each rows / 1,024, codec, length and body.

use std::ops::Range;

use varve_columns::codec::{float, Guess, Point, Tier};
use varve_columns::wire::{put_varint, Reader};

const SMALL_ROWS: usize = 1024;
const LARGE_ROWS: usize = 8192;

const SMALL: Tier = Tier::Merged(Point::Small);

/// In place of a codec.
const SEVERAL: u8 = 0;

/// What a block costs in the directory, about.
const ENTRY_BYTES: usize = 9;

/// A huge block must save one part in so many.
const HUGE_SHARE: usize = 100;

pub fn encode(values: &[f64], out: &mut Vec<u8>) {
    let rows = 0..values.len();
    let mut best = Cut::default();
    for stretch in chunks(rows.clone(), LARGE_ROWS) {
        best.append(cut_stretch(values, stretch));
    }
    if values.len() > LARGE_ROWS {
        let huge = Cut::of(values, std::iter::once(rows), SMALL);
        if huge.cost() + best.cost() / HUGE_SHARE < best.cost() {
            best = huge;
        }
    }
    best.put(out);
}

fn cut_stretch(values: &[f64], stretch: Range<usize>) -> Cut {
    let even = |tier| Cut::of(values, chunks(stretch.clone(), SMALL_ROWS), tier);
    let large = Cut::of(values, std::iter::once(stretch.clone()), SMALL);
    if even(Tier::Fresh).cost() * 20 > large.cost() * 21 {
        return large;
    }
    let small = even(SMALL);
    if small.cost() < large.cost() {
        small
    } else {
        large
    }
}

pub fn decode(bytes: &[u8], rows: usize, out: &mut Vec<f64>) {
    const OWN: &str = "BUG: own bytes do not decode";
    let mut reader = Reader::new(bytes);
    let codec = reader.u8().expect(OWN);
    if codec != SEVERAL {
        return float::decode_f64(codec, reader, rows, out).expect(OWN);
    }
    out.clear();
    let mut block = Vec::new();
    while out.len() < rows {
        let block_rows = (reader.u8().expect(OWN) as usize * SMALL_ROWS).min(rows - out.len());
        let codec = reader.u8().expect(OWN);
        let length = reader.varint_up_to(reader.len()).expect(OWN);
        let body = Reader::new(reader.take(length).expect(OWN));
        float::decode_f64(codec, body, block_rows, &mut block).expect(OWN);
        out.extend_from_slice(&block);
    }
}

fn chunks(rows: Range<usize>, of: usize) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(of)
        .map(move |start| start..end.min(start + of))
}

/// Rows, codec and body of each block.
#[derive(Default)]
struct Cut(Vec<(usize, u8, Vec<u8>)>);

impl Cut {
    fn of(values: &[f64], blocks: impl Iterator<Item = Range<usize>>, tier: Tier) -> Cut {
        let mut guess = Guess::default();
        Cut(blocks
            .map(|rows| {
                let mut body = Vec::new();
                let codec = float::encode_f64(&values[rows.clone()], tier, &mut guess, &mut body);
                (rows.len(), codec, body)
            })
            .collect())
    }

    fn cost(&self) -> usize {
        self.0.iter().map(|block| block.2.len() + ENTRY_BYTES).sum()
    }

    fn append(&mut self, next: Cut) {
        self.0.extend(next.0);
    }

    fn put(&self, out: &mut Vec<u8>) {
        if let [(_, codec, body)] = self.0.as_slice() {
            out.push(*codec);
            out.extend_from_slice(body);
            return;
        }
        out.push(SEVERAL);
        for (rows, codec, body) in &self.0 {
            out.push(rows.div_ceil(SMALL_ROWS) as u8);
            out.push(*codec);
            put_varint(out, body.len() as u64);
            out.extend_from_slice(body);
        }
    }
}
