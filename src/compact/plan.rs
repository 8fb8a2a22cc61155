//! Which chunks to merge with which. Fresh chunks always go; merged chunks that share series, or that
//! had to stay without a key, go along when what is new is a fair part of them, so that each row is
//! rewritten a bounded number of times; so do small chunks of one series side by side, and some of an
//! older format. Rounds hold disjoint ranges of keys.

use super::survey::{Seen, Survey};

/// Rows that one round merges at most.
const ROUND_ROWS: u64 = 8 << 20;
/// New rows go with older ones of up to so many times their number.
pub const GROWTH: u64 = 4;

/// Rows of chunks of older formats that one call of compact writes anew for that reason.
pub const OUTDATED_ROWS: u64 = 8 << 20;

/// Neighbours are merged for their own sake so many times.
const MOST_NEIGHBOURLY: u8 = 6;

/// Numbers of the chunks (in the survey) that each round merges. `pack_rows`: rounds are filled up with
/// further ranges of keys up to so many rows. `outdated_rows`: what is left of `OUTDATED_ROWS`.
pub fn rounds(survey: &Survey, pack_rows: u64, outdated_rows: &mut u64) -> Vec<Vec<usize>> {
    let mut chosen = choose(survey, outdated_rows);
    chosen.sort_by(|&a, &b| {
        let (a, b) = (&survey.chunks[a], &survey.chunks[b]);
        (&a.first_key, a.min_time, a.tid).cmp(&(&b.first_key, b.min_time, b.tid))
    });
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut filled = u64::MAX;
    for part in key_ranges(&survey.chunks, &chosen) {
        let part = oldest(&survey.chunks, part);
        let rows = part
            .iter()
            .map(|&at| u64::from(survey.chunks[at].live))
            .sum::<u64>();
        if filled.saturating_add(rows) > pack_rows {
            rounds.push(Vec::new());
            filled = 0;
        }
        filled += rows;
        rounds.last_mut().expect("BUG: no round").extend(part);
    }
    rounds
}

/// The chunks that are to be merged at all.
fn choose(survey: &Survey, outdated_rows: &mut u64) -> Vec<usize> {
    let chunks = &survey.chunks;
    let usable =
        |seen: &Seen| !seen.damaged && (seen.settled || !seen.has_successors && !seen.tombstone);
    let mut taken: Vec<bool> = chunks
        .iter()
        .map(|seen| {
            let worn = u64::from(seen.rows - seen.live) * 5 > u64::from(seen.rows);
            usable(seen)
                && (seen.level == 0 || seen.settled && (seen.tombstone || worn || !seen.in_layout))
        })
        .collect();
    let live = |at: &usize| u64::from(chunks[*at].live);
    let mut new: u64 = (0..chunks.len())
        .filter(|&at| taken[at])
        .map(|at| live(&at))
        .sum();
    let top = chunks.iter().map(|seen| seen.level).max().unwrap_or(0);
    for level in 1..=top {
        let same: Vec<usize> = (0..chunks.len())
            .filter(|&at| {
                let seen = &chunks[at];
                seen.level == level && !(seen.keyed && seen.one_series) && !taken[at]
            })
            .collect();
        let rows: u64 = same.iter().map(live).sum();
        if new == 0 || new * GROWTH < rows {
            break;
        }
        new += rows;
        for at in same {
            taken[at] = usable(&chunks[at]) && chunks[at].settled;
        }
    }
    for series in survey.keyed.values() {
        for at in small_neighbours(chunks, series) {
            taken[at] = true;
        }
    }
    for at in 0..chunks.len() {
        if chunks[at].outdated && usable(&chunks[at]) && !taken[at] && *outdated_rows > 0 {
            *outdated_rows = outdated_rows.saturating_sub(live(&at));
            taken[at] = true;
        }
    }
    (0..chunks.len()).filter(|&at| taken[at]).collect()
}

/// Chunks of one series, sorted by time, that lie side by side and are of about the same, small size.
fn small_neighbours(chunks: &[Seen], series: &[usize]) -> Vec<usize> {
    let live = |at: &usize| u64::from(chunks[*at].live);
    let fits = |at: &usize| {
        let seen = &chunks[*at];
        seen.settled && !seen.damaged && seen.small && seen.level < MOST_NEIGHBOURLY
    };
    series
        .split(|at| !fits(at))
        .filter(|run| {
            let all: u64 = run.iter().map(live).sum();
            let largest = run.iter().map(live).max().unwrap_or(0);
            run.len() > 1 && (all - largest) * GROWTH >= largest
        })
        .flatten()
        .copied()
        .collect()
}

/// Splits chunks that are sorted by first key where no key range goes on.
fn key_ranges(chunks: &[Seen], sorted: &[usize]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut end: Option<&[u8]> = None;
    for &at in sorted {
        let seen = &chunks[at];
        // A chunk of another layout can hold any key.
        let apart = seen.in_layout && end.is_some_and(|end| seen.first_key.as_slice() > end);
        if parts.is_empty() || apart {
            parts.push(Vec::new());
            end = Some(&seen.last_key);
        }
        parts.last_mut().expect("BUG: no part").push(at);
        end = end.map(|end| end.max(seen.last_key.as_slice()));
    }
    if sorted.iter().any(|&at| !chunks[at].in_layout) {
        return vec![sorted.to_vec()];
    }
    parts
}

/// The oldest chunks of a part that is too large for a round; later rounds get the others.
fn oldest(chunks: &[Seen], mut part: Vec<usize>) -> Vec<usize> {
    part.sort_by_key(|&at| (chunks[at].max_time, chunks[at].tid));
    let mut rows = 0;
    let fits = part
        .iter()
        .take_while(|&&at| {
            let before = rows;
            rows += u64::from(chunks[at].live);
            before < ROUND_ROWS
        })
        .count();
    part.truncate(fits);
    part
}
