//! Which keyed chunks of several series to merge because a window of time has many of them. A window is merged once newer rows have
//! come than it can have, so each row is rewritten once for each length of window that counts; or once it has twice as many.

use super::plan::{key_overlap, FAN_OUT, GROWTH};
use super::seen::Seen;
use super::windows::{Window, Windows, FEW_ROWS};
use crate::pg::error;
use rustc_hash::{FxHashMap, FxHashSet};

/// The chunks of each window that is to be merged, shorter windows first. None is in two of them.
pub fn full_windows(
    chunks: &[Seen],
    windows: &Windows,
    candidates: &[usize],
) -> Vec<(Window, Vec<usize>)> {
    let Some(newest) = newest(chunks) else {
        return Vec::new();
    };
    let mut left = candidates.to_vec();
    let mut full: Vec<(Window, Vec<usize>)> = Vec::new();
    for &length in windows.lengths() {
        error::check_interrupts();
        if left.len() < FAN_OUT {
            break;
        }
        let mut of_window: FxHashMap<i64, Vec<usize>> = FxHashMap::default();
        for &at in &left {
            let seen = &chunks[at];
            let extent = i128::from(seen.max_time) - i128::from(seen.min_time);
            if extent <= i128::from(length) {
                let window = Window::of(seen.min_time, length);
                of_window.entry(window.number).or_default().push(at);
            }
        }
        let end = Window::of(newest, length).number;
        // What is merged in a shorter window belongs to the longer one afterwards.
        let waits: FxHashSet<i64> = full
            .iter()
            .flat_map(|(_, group)| group)
            .map(|&at| Window::of(chunks[at].min_time, length).number)
            .collect();
        let mut found: Vec<(i64, Vec<usize>)> = of_window
            .into_iter()
            .filter(|(number, _)| !waits.contains(number))
            .map(|(number, group)| {
                let is_over = number < end;
                let least = if is_over { FAN_OUT } else { 2 * FAN_OUT };
                (number, full_levels(chunks, group, least))
            })
            .filter(|(_, group)| !group.is_empty())
            .filter(|(_, group)| windows.is_kept(length) || has_few_rows(chunks, group))
            .filter(|(_, group)| group.iter().all(|&at| chunks[at].settled))
            .collect();
        found.sort_unstable();
        let groups = found.iter().flat_map(|(_, group)| group.iter().copied());
        let merged: FxHashSet<usize> = groups.collect();
        left.retain(|at| !merged.contains(at));
        let of_length = |(number, group)| (Window { length, number }, group);
        full.extend(found.into_iter().map(of_length));
    }
    full
}

/// The greatest time of chunks that have more than a few rows, if there are such: single rows may be of times to come, or of none.
fn newest(chunks: &[Seen]) -> Option<i64> {
    let of_rows = |least: u32| {
        let timed = chunks
            .iter()
            .filter(|seen| seen.in_layout && !seen.tombstone && seen.live >= least)
            .map(|seen| seen.max_time);
        timed.filter(|&time| time < i64::MAX).max()
    };
    of_rows(FEW_ROWS as u32).or_else(|| of_rows(0))
}

/// Has a window chunks of few rows?
fn has_few_rows(chunks: &[Seen], group: &[usize]) -> bool {
    let rows: u64 = group.iter().map(|&at| u64::from(chunks[at].live)).sum();
    rows < FEW_ROWS * group.len() as u64
}

/// The chunks of a window up to the highest level of which `least` share a key, or `least` and three quarters are small, or that has few
/// rows beside those below. Some small ones among large ones are what a merge has left over, and would leave over again.
fn full_levels(chunks: &[Seen], group: Vec<usize>, least: usize) -> Vec<usize> {
    if group.len() < least {
        return Vec::new();
    }
    let top = group.iter().map(|&at| chunks[at].level).max().unwrap_or(0);
    let mut below = 0;
    let mut full = None;
    for level in 1..=top {
        let of_level: Vec<usize> = group
            .iter()
            .copied()
            .filter(|&at| chunks[at].level == level)
            .collect();
        if of_level.is_empty() {
            continue;
        }
        let rows: u64 = of_level.iter().map(|&at| u64::from(chunks[at].live)).sum();
        let is_few = full.is_some() && rows * GROWTH <= below;
        let small = of_level.iter().filter(|&&at| chunks[at].small).count();
        let are_small = small >= least && small * 4 >= of_level.len() * 3;
        if is_few || are_small || key_overlap(chunks, &of_level) >= least {
            full = Some(level);
        }
        below += rows;
    }
    match full {
        None => Vec::new(),
        Some(level) => group
            .into_iter()
            .filter(|&at| chunks[at].level <= level)
            .collect(),
    }
}
