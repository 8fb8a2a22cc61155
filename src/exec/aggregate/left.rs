//! What rows say together that a chunk's delete map leaves: the header counts those that are gone, too. The session keeps it with the chunk, so that
//! who asks again decodes nothing, until other rows are gone.

use super::chunk::Work;
use super::known::Known;
use super::lanes::{Class, WINDOW_ROWS};
use super::total::Total;
use crate::chunk::read::Chunk;
use crate::chunk::vectors::Left;
use crate::pg::error;

impl Work {
    /// What the values of a lane are in the rows of a chunk that are left, with the squares of floats where those are wanted.
    pub fn left_of(&mut self, chunk: &Chunk, lane: usize, with_squares: bool) -> Known {
        if let Some(known) = self.known_left(chunk, lane, with_squares) {
            return known;
        }
        let left = self.add_up(chunk, lane, with_squares);
        let column = self.selection.lanes[lane].at;
        chunk.vectors.keep_left(&chunk.map, column, left);
        Known::new(left.rows, left.nulls, &left.summary)
    }

    /// The same, if the session knows it.
    pub fn known_left(&self, chunk: &Chunk, lane: usize, with_squares: bool) -> Option<Known> {
        let known = (chunk.vectors).left(&chunk.map, self.selection.lanes[lane].at)?;
        (known.has_squares || !with_squares)
            .then(|| Known::new(known.rows, known.nulls, &known.summary))
    }

    fn add_up(&mut self, chunk: &Chunk, lane: usize, with_squares: bool) -> Left {
        let (lane, blocks) = (
            &mut self.selection.lanes[lane],
            &mut self.selection.counters.blocks,
        );
        let (mut rows, mut total) = (0, Total::default());
        let mut start = 0;
        while start < chunk.header.rows {
            error::check_interrupts();
            let block = lane.block(chunk, start);
            let end = block.map_or(start + WINDOW_ROWS, |block| block.rows.end);
            let window = start..end.min(chunk.header.rows);
            let known = block.filter(|block| block.rows == window);
            let known = known.map(Known::of_block);
            start = window.end;
            let mut left = chunk.map.left(window.clone());
            if left.is_none() {
                continue;
            }
            rows += left.count() as u32;
            // Squares of a block are not known.
            let known = known.filter(|_| left.is_all() && !with_squares);
            let is_counted = lane.class == Class::Other;
            if known.is_some_and(|known| total.add_known(&known, is_counted)) {
                continue;
            }
            *blocks += u64::from(lane.decode(chunk, &window));
            if let Some(valid) = lane.valid(&window) {
                left.intersect(&valid);
            }
            total.add(lane.slice(&window), &left, with_squares);
        }
        let summary = total.summary(with_squares);
        Left {
            rows,
            nulls: rows - summary.count,
            summary,
            has_squares: with_squares,
        }
    }
}
