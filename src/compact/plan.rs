//! Which chunks to merge with which. Fresh chunks always go; merged chunks that share series and times with them, or that
//! had to stay without a key, go along when what is new is a fair part of them, so that each row is
//! rewritten a bounded number of times; so do small chunks of one series side by side. Chunks of several series that fill a
//! window of time are merged with each other (`full_windows`), and worn ones, or some of an older format, rewritten.
//! Rounds of one plan hold disjoint ranges of keys, or of times.

use super::full_windows::full_windows;
use super::round_rows::RoundRows;
use super::seen::Seen;
use super::survey::Survey;
use super::windows::{Window, Windows};
use crate::guc;
use rustc_hash::FxHashMap;

/// Rows that one round merges at most.
const ROUND_ROWS: u64 = 8 << 20;
/// What a value takes in a round, and what is known of a series, about.
const COLUMN_BYTES: u64 = 16;
const SERIES_BYTES: u64 = 128;
/// New rows go with older ones of up to so many times their number.
pub const GROWTH: u64 = 4;

/// Rows of chunks of older formats that one call of compact writes anew for that reason.
pub const OUTDATED_ROWS: u64 = 8 << 20;

/// So many keyed chunks of one key, level and window are merged into one of the next level: each row is rewritten once for each level.
pub const FAN_OUT: usize = 11;
/// Chunks are merged for their own sake so many times.
const MOST_MERGED: u8 = 32;

/// What one round merges.
pub struct Merge {
    /// Numbers of chunks in the survey.
    pub inputs: Vec<usize>,
    /// Whose rows these are, but for some at its end.
    pub window: Option<Window>,
    /// What is written is of the next level.
    pub rises: bool,
    /// Own chunks that rows lie among go along. Other groups do not know the times of those: only the first one has such rounds, and all
    /// chunks of the others are keyed ones of several series, which it leaves apart.
    pub pulls: bool,
    /// What is written has room in the places of what the rounds before have left.
    pub fills_holes: bool,
}

/// Chunks that have to do with each other.
struct Group {
    chunks: Vec<usize>,
    window: Option<Window>,
    rises: bool,
}

/// What rounds are filled up to with further ranges of keys.
#[derive(Clone, Copy)]
pub struct Pack {
    rows: u64,
    /// Of chunks of several series, each of which may be a series of its own.
    series: u64,
}

impl Pack {
    /// As much as `varve.batch_memory` has room for, of rows of so many columns.
    pub fn of(columns: usize) -> Pack {
        let bytes = guc::batch_memory_bytes() as u64;
        Pack {
            rows: bytes / (COLUMN_BYTES * columns as u64).max(1),
            series: bytes / SERIES_BYTES,
        }
    }
}

/// What each round merges, filled up to `pack`. `outdated_rows`: what is left of `OUTDATED_ROWS`. Groups whose times are not apart from
/// those of the others wait for the next plan.
pub fn rounds(
    survey: &Survey,
    windows: &Windows,
    pack: Pack,
    outdated_rows: &mut u64,
) -> Vec<Merge> {
    let groups = choose(survey, windows, outdated_rows);
    let mut planned: Vec<(i64, i64)> = Vec::new();
    let mut all = Vec::new();
    for group in groups {
        let times = times(&survey.chunks, &group.chunks);
        let is_apart = times.is_none_or(|times| {
            let mut others = planned.iter();
            others.all(|other| times.1 <= other.0 || other.1 <= times.0)
        });
        if is_apart {
            let pulls = all.is_empty();
            planned.extend(times);
            all.extend(rounds_of(&survey.chunks, group, pack, pulls));
        }
    }
    all
}

/// Rounds of disjoint ranges of keys for a group.
fn rounds_of(chunks: &[Seen], group: Group, pack: Pack, pulls: bool) -> Vec<Merge> {
    let mut chosen = group.chunks;
    chosen.sort_by(|&a, &b| {
        let (a, b) = (&chunks[a], &chunks[b]);
        (&a.first_key, a.min_time, a.tid).cmp(&(&b.first_key, b.min_time, b.tid))
    });
    let mut rounds: Vec<Merge> = Vec::new();
    let mut room = RoundRows::of(chunks, &chosen, pack.rows);
    // What a round writes is of one level, so its parts are too: the round that is being filled, and the rows that it still takes, in all
    // and of chunks of several series.
    let mut filling: FxHashMap<u8, (usize, u64, u64)> = FxHashMap::default();
    let mut parts = key_ranges(chunks, &chosen);
    if room.leaves_holes() && chosen.iter().all(|&at| chunks[at].one_series) {
        // The holes are to be where the file begins.
        parts.sort_by_key(|part| part.iter().map(|&at| chunks[at].last_block).max());
    }
    for part in parts {
        let part = oldest(chunks, part);
        let seen = |at: &usize| &chunks[*at];
        let live = |at: &usize| u64::from(seen(at).live);
        let rows: u64 = part.iter().map(live).sum();
        let shared: u64 = part
            .iter()
            .filter(|at| !seen(at).one_series)
            .map(live)
            .sum();
        let level = part.iter().map(|at| seen(at).level).max().unwrap_or(0);
        let (round, left, left_shared) = filling.entry(level).or_insert((usize::MAX, 0, 0));
        if *round == usize::MAX || rows > *left || shared > *left_shared {
            (*round, *left, *left_shared) = (rounds.len(), room.next_round(), pack.series);
            let fills_holes = room.leaves_holes() && !rounds.is_empty();
            rounds.push(Merge {
                fills_holes,
                inputs: Vec::new(),
                window: group.window,
                rises: group.rises,
                pulls,
            });
        }
        *left = left.saturating_sub(rows);
        *left_shared = left_shared.saturating_sub(shared);
        room.takes(chunks, &part);
        rounds[*round].inputs.extend(part);
    }
    rounds
}

/// From when to when the rows of some chunks are; `None` where there are none.
fn times(chunks: &[Seen], group: &[usize]) -> Option<(i64, i64)> {
    let with_rows = group.iter().map(|&at| &chunks[at]);
    with_rows
        .filter(|seen| !seen.tombstone)
        .map(|seen| match seen.in_layout {
            true => (seen.min_time, seen.max_time),
            false => (i64::MIN, i64::MAX),
        })
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Would there be something to merge if every transaction that has written a chunk were over for everybody?
pub fn is_unfinished(survey: &Survey, windows: &Windows) -> bool {
    let mut outdated_rows = u64::MAX;
    survey.chunks.iter().any(|seen| !seen.settled)
        || !choose(survey, windows, &mut outdated_rows).is_empty()
}

/// The chunks that are to be merged at all, those that are new in the first group.
fn choose(survey: &Survey, windows: &Windows, outdated_rows: &mut u64) -> Vec<Group> {
    let chunks = &survey.chunks;
    let usable =
        |seen: &Seen| !seen.damaged && (seen.settled || !seen.has_successors && !seen.tombstone);
    let is_shared = |seen: &Seen| seen.keyed && !seen.one_series;
    let is_worn = |seen: &Seen| {
        let deleted = u64::from(seen.rows - seen.live);
        seen.settled && deleted * 5 > u64::from(seen.rows)
    };
    let mut taken: Vec<bool> = chunks
        .iter()
        .map(|seen| {
            let is_spent = seen.tombstone || is_worn(seen) && !is_shared(seen) || !seen.in_layout;
            usable(seen) && (seen.level == 0 || seen.settled && is_spent)
        })
        .collect();
    let fresh: Vec<usize> = (0..chunks.len())
        .filter(|&at| taken[at] && chunks[at].level == 0)
        .collect();
    let loose = loose_levels(chunks, &taken);
    let among_fresh = levels_among(chunks, &taken, &fresh);
    let among_loose = levels_among(chunks, &taken, &loose);
    for at in loose.into_iter().chain(among_fresh).chain(among_loose) {
        taken[at] = usable(&chunks[at]) && chunks[at].settled;
    }
    for series in survey.keyed.values() {
        for at in small_neighbours(chunks, series, windows) {
            taken[at] = true;
        }
    }
    let mut is_due = |seen: &Seen| {
        let is_due = seen.outdated && *outdated_rows > 0;
        if is_due {
            *outdated_rows = outdated_rows.saturating_sub(u64::from(seen.live));
        }
        is_due
    };
    for (seen, taken) in chunks.iter().zip(&mut taken) {
        *taken = *taken || usable(seen) && !is_shared(seen) && is_due(seen);
    }
    let all = |taken: &[bool]| (0..chunks.len()).filter(|&at| taken[at]).collect();
    let mut groups = vec![Group {
        chunks: all(&taken),
        window: None,
        rises: true,
    }];
    let candidates: Vec<usize> = (0..chunks.len())
        .filter(|&at| !taken[at] && is_shared(&chunks[at]) && usable(&chunks[at]))
        .filter(|&at| chunks[at].level < MOST_MERGED)
        .collect();
    for (window, group) in full_windows(chunks, windows, &candidates) {
        group.iter().for_each(|&at| taken[at] = true);
        groups.push(Group {
            chunks: group,
            window: Some(window),
            rises: true,
        });
    }
    let mut again = vec![false; chunks.len()];
    for (at, seen) in chunks.iter().enumerate() {
        let is_left = usable(seen) && is_shared(seen) && !taken[at];
        again[at] = is_left && (is_worn(seen) || is_due(seen));
    }
    groups.extend(at_one_time(chunks, all(&again)));
    groups.retain(|group| !group.chunks.is_empty());
    groups
}

/// Chunks that are rewritten for their own sake: those of a level together whose times overlap.
fn at_one_time(chunks: &[Seen], mut again: Vec<usize>) -> Vec<Group> {
    again.sort_by_key(|&at| (chunks[at].level, chunks[at].min_time, chunks[at].tid));
    let mut groups: Vec<Group> = Vec::new();
    let mut last: Option<(u8, i64)> = None;
    for at in again {
        let seen = &chunks[at];
        match (&mut last, groups.last_mut()) {
            (Some((level, end)), Some(group)) if *level == seen.level && seen.min_time < *end => {
                group.chunks.push(at);
                *end = (*end).max(seen.max_time);
            }
            _ => {
                last = Some((seen.level, seen.max_time));
                groups.push(Group {
                    chunks: vec![at],
                    window: None,
                    rises: false,
                });
            }
        }
    }
    groups
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

/// Keyed chunks of several series whose times what is new, or has no key, lies among, or that are few beside it: level by level, as long as
/// that is a fair part of them.
fn levels_among(chunks: &[Seen], taken: &[bool], new: &[usize]) -> Vec<usize> {
    let group: Vec<usize> = new
        .iter()
        .copied()
        .filter(|&at| chunks[at].in_layout && !chunks[at].tombstone)
        .collect();
    let usual = group.iter().map(|&at| chunks[at].usual_times);
    let Some(new_times) = usual.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
        return Vec::new();
    };
    let common = |times: (i64, i64)| {
        i128::from(new_times.1.min(times.1)) - i128::from(new_times.0.max(times.0))
    };
    let mut new: u64 = group.iter().map(|&at| u64::from(chunks[at].live)).sum();
    let mut all = Vec::new();
    for level in 1..=top(chunks) {
        let shared = |seen: &Seen| seen.keyed && !seen.one_series;
        let (group, rows) = of_level(chunks, taken, level, shared);
        let (among, rows_among) = of_level(chunks, taken, level, |seen| {
            shared(seen) && common((seen.min_time, seen.max_time)) > 0
        });
        if rows * GROWTH > new && among.is_empty() {
            continue;
        }
        // Rows among older ones would have to stay without a key.
        let has_half =
            times(chunks, &among).is_some_and(|times| common(times) * 2 >= common(new_times));
        if rows * GROWTH <= new {
            new += rows;
            all.extend(group);
        } else if new * GROWTH >= rows_among && has_half {
            new += rows_among;
            all.extend(among);
        } else {
            break;
        }
    }
    all
}

/// How many chunks of a group have rows of one key, at the most.
pub fn key_overlap(chunks: &[Seen], group: &[usize]) -> usize {
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
fn small_neighbours(chunks: &[Seen], series: &[usize], windows: &Windows) -> Vec<usize> {
    let live = |at: &usize| u64::from(chunks[*at].live);
    let fits = |at: &usize| {
        let seen = &chunks[*at];
        seen.settled && !seen.damaged && seen.small && seen.level < MOST_MERGED
    };
    let mut all = Vec::new();
    for mut run in series.split(|at| !fits(at)) {
        while let Some(&first) = run.first() {
            // No longer than retention wants chunks to be.
            let start = chunks[first].min_time;
            let is_short =
                |at: &&usize| windows.is_kept(chunks[**at].max_time.saturating_sub(start));
            let count = run.iter().take_while(is_short).count().max(1);
            let (together, rest) = run.split_at(count);
            run = rest;
            let rows: u64 = together.iter().map(live).sum();
            let largest = together.iter().map(live).max().unwrap_or(0);
            if together.len() > 1 && (rows - largest) * GROWTH >= largest {
                all.extend_from_slice(together);
            }
        }
    }
    all
}

/// Splits chunks that are sorted by first key where no key range goes on.
fn key_ranges(chunks: &[Seen], sorted: &[usize]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut end: Option<&[u8]> = None;
    for &at in sorted {
        let seen = &chunks[at];
        // A chunk of another layout can hold any key.
        let apart = seen.in_layout && end.is_some_and(|end| *seen.first_key > *end);
        if parts.is_empty() || apart {
            parts.push(Vec::new());
            end = Some(&seen.last_key);
        }
        parts.last_mut().expect("BUG: no part").push(at);
        end = end.map(|end| end.max(&seen.last_key));
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
