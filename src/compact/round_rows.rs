//! How many rows the rounds of a group of chunks take. Where many of the rows are gone, the first round is small, and each one writes what has room in
//! the places that those before it have left: what goes to the end of the file is written once more when it moves down.

use super::seen::Seen;

/// Chunks of fewer bytes are written anew in one round, whatever of them is gone.
const MUCH_BYTES: u64 = 2 << 20;
/// Of the rows that are left the first of many rounds takes such a part, or a chunk.
const FIRST_PART: u64 = 64;
/// Heads of chunks, and ends of pages that nothing fits into, take such a part of the room.
const LOST_PART: u64 = 32;

pub struct RoundRows {
    /// What a round takes at most.
    most: u64,
    /// Where rounds leave holes: what those so far have left, in rows.
    holes: Option<Holes>,
}

struct Holes {
    first: u64,
    room: u64,
    /// Rows that the round which is being filled has, with those that are gone, and without.
    rows: u64,
    live: u64,
}

impl RoundRows {
    /// `most`: what a round takes at most.
    pub fn of(chunks: &[Seen], group: &[usize], most: u64) -> RoundRows {
        let sum = |of: &dyn Fn(&Seen) -> u64| group.iter().map(|&at| of(&chunks[at])).sum::<u64>();
        let (rows, live) = (sum(&|seen| seen.rows.into()), sum(&|seen| seen.live.into()));
        let leaves_holes = rows * 2 >= live * 3 && sum(&|seen| seen.bytes) >= MUCH_BYTES;
        let holes = leaves_holes.then_some(Holes {
            first: live / FIRST_PART,
            room: 0,
            rows: 0,
            live: 0,
        });
        RoundRows { most, holes }
    }

    pub fn leaves_holes(&self) -> bool {
        self.holes.is_some()
    }

    /// Begins a round; returns the rows that it is filled up to.
    pub fn next_round(&mut self) -> u64 {
        let Some(holes) = &mut self.holes else {
            return self.most;
        };
        // The first one is written to the end of the file.
        let written = if holes.room == 0 { 0 } else { holes.live };
        holes.room = holes.room.saturating_sub(written) + holes.rows;
        (holes.rows, holes.live) = (0, 0);
        let most = match holes.room {
            0 => holes.first,
            room => room - room / LOST_PART,
        };
        most.min(self.most)
    }

    /// The round has taken these chunks.
    pub fn takes(&mut self, chunks: &[Seen], part: &[usize]) {
        let Some(holes) = &mut self.holes else {
            return;
        };
        for &at in part {
            holes.rows += u64::from(chunks[at].rows);
            holes.live += u64::from(chunks[at].live);
        }
    }
}
