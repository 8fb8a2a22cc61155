//! Which chunks to merge with which. Fresh chunks always go; merged chunks that share series, or that
//! had to stay without a key, go along when what is new is a fair part of them, so that each row is
//! rewritten a bounded number of times; so do small chunks of one series side by side, and some of an
//! older format. Rounds hold disjoint ranges of keys.

use super::survey::{Seen, Survey};
use rustc_hash::FxHashMap;

/// Rows that one round merges at most.
const ROUND_ROWS: u64 = 8 << 20;
/// New rows go with older ones of up to so many times their number.
pub const GROWTH: u64 = 4;

/// Rows of chunks of older formats that one call of compact writes anew for that reason.
pub const OUTDATED_ROWS: u64 = 8 << 20;

/// So many keyed chunks of one key and level are merged into one of the next level: each row is rewritten once for each level.
const FAN_OUT: usize = 11;
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
    // What a round writes is of one level, so its parts are too: the round that is being filled, and its rows.
    let mut filling: FxHashMap<u8, (usize, u64)> = FxHashMap::default();
    for part in key_ranges(&survey.chunks, &chosen) {
        let part = oldest(&survey.chunks, part);
        let seen = |at: &usize| &survey.chunks[*at];
        let rows: u64 = part.iter().map(|at| u64::from(seen(at).live)).sum();
        let level = part.iter().map(|at| seen(at).level).max().unwrap_or(0);
        let (round, filled) = filling.entry(level).or_insert((0, u64::MAX));
        if filled.saturating_add(rows) > pack_rows {
            (*round, *filled) = (rounds.len(), 0);
            rounds.push(Vec::new());
        }
        *filled += rows;
        rounds[*round].extend(part);
    }
    rounds
}

/// Would there be something to merge if every transaction that has written a chunk were over for everybody?
pub fn is_unfinished(survey: &Survey) -> bool {
    let mut outdated_rows = u64::MAX;
    survey.chunks.iter().any(|seen| !seen.settled) || !choose(survey, &mut outdated_rows).is_empty()
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
    for at in loose_levels(chunks, &taken)
        .into_iter()
        .chain(full_levels(chunks, &taken))
    {
        taken[at] = usable(&chunks[at]) && chunks[at].settled;
    }
    for series in survey.keyed.values() {
        for at in small_neighbours(chunks, series) {
            taken[at] = true;
        }
    }
    let live = |at: &usize| u64::from(chunks[*at].live);
    for at in 0..chunks.len() {
        if chunks[at].outdated && usable(&chunks[at]) && !taken[at] && *outdated_rows > 0 {
            *outdated_rows = outdated_rows.saturating_sub(live(&at));
            taken[at] = true;
        }
    }
    (0..chunks.len()).filter(|&at| taken[at]).collect()
}

/// Those of a level that pass a test, and are not taken.
fn of_level(
    chunks: &[Seen],
    taken: &[bool],
    level: u8,
    test: impl Fn(&Seen) -> bool,
) -> (Vec<usize>, u64) {
    let is_of = |at: &usize| !taken[*at] && chunks[*at].level == level && test(&chunks[*at]);
    let group: Vec<usize> = (0..chunks.len()).filter(is_of).collect();
    let rows = group.iter().map(|&at| u64::from(chunks[at].live)).sum();
    (group, rows)
}

fn rows_taken(chunks: &[Seen], taken: &[bool]) -> u64 {
    let rows = chunks.iter().zip(taken).filter(|(_, &taken)| taken);
    rows.map(|(seen, _)| u64::from(seen.live)).sum()
}

fn top(chunks: &[Seen]) -> u8 {
    chunks.iter().map(|seen| seen.level).max().unwrap_or(0)
}

/// Merged chunks that had to stay without a key, which many scans look at: level by level, as long as what is new is a fair part of them.
fn loose_levels(chunks: &[Seen], taken: &[bool]) -> Vec<usize> {
    let mut new = rows_taken(chunks, taken);
    let mut all = Vec::new();
    for level in 1..=top(chunks) {
        let (group, rows) = of_level(chunks, taken, level, |seen| !seen.keyed);
        if new == 0 || new * GROWTH < rows {
            break;
        }
        new += rows;
        all.extend(group);
    }
    all
}

/// Has a chunk times of half the range that chunks which are taken have?
fn lies_among(chunks: &[Seen], taken: &[bool], seen: &Seen) -> bool {
    let new = chunks
        .iter()
        .zip(taken)
        .filter(|(new, &taken)| taken && new.in_layout && !new.tombstone);
    let ranges = new.map(|(new, _)| (new.min_time, new.max_time));
    let Some((min, max)) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
        return false;
    };
    let common = i128::from(max.min(seen.max_time)) - i128::from(min.max(seen.min_time));
    common > 0 && common * 2 >= i128::from(max) - i128::from(min)
}

/// Keyed chunks of several series: level by level, as long as with what is new the level is full, or what is new lies among their
/// times and is a fair part of them, or they are few beside it.
fn full_levels(chunks: &[Seen], taken: &[bool]) -> Vec<usize> {
    let mut new = rows_taken(chunks, taken);
    let mut all = Vec::new();
    for level in 1..=top(chunks) {
        let (group, rows) = of_level(chunks, taken, level, |seen| seen.keyed && !seen.one_series);
        let is_full = runs(chunks, &group) + 1 >= FAN_OUT;
        // Rows among older ones would have to stay without a key.
        let is_among = group
            .iter()
            .any(|&at| lies_among(chunks, taken, &chunks[at]));
        let is_fair = new * GROWTH >= rows && is_among || rows * GROWTH <= new;
        if new == 0 || !is_full && !is_fair {
            break;
        }
        new += rows;
        all.extend(group);
    }
    all
}

/// How many chunks of a group have rows of one key, at the most.
fn runs(chunks: &[Seen], group: &[usize]) -> usize {
    let mut ends: Vec<(&[u8], bool)> = Vec::new();
    for &at in group {
        ends.push((&chunks[at].first_key, false));
        ends.push((&chunks[at].last_key, true));
    }
    // A chunk that begins where another one ends shares that key.
    ends.sort_unstable();
    let (mut open, mut most) = (0usize, 0);
    for (_, is_end) in ends {
        if is_end {
            open -= 1;
        } else {
            open += 1;
            most = most.max(open);
        }
    }
    most
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
