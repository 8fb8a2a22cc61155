//! The way from the root of an index with nbtree's pages to the leaf where a range of entries begins, or to the one where it ends.

use super::leaf_range::Wanted;
use super::leaves::{Special, IGNORED, LEAF, ROOT_AT};
use super::page::{Page, PageCursor};
use super::tid;
use std::cmp::Ordering;
use std::ops::Range;

/// The line pointer of the high key, on all pages but the last of a level.
pub(super) const HIGH_KEY: u16 = 1;
/// No index is so high, nor are so many pages split at once.
const MOST_STEPS: usize = 64;

/// A step on the way to the leaf.
enum Step<R> {
    To(u32),
    Leaf(R),
    /// The pages do not hang together.
    Lost,
}

impl Wanted<'_> {
    /// Finds the leaf that has the first of the entries if there are any, and shows it, locked, to `look`. None where none is sure to be it.
    pub fn descend<R>(
        &self,
        cursor: &mut PageCursor,
        look: impl FnMut(&Page) -> R,
    ) -> Option<(u32, R)> {
        self.go_down(cursor, |order| order != Ordering::Less, look)
    }

    /// The same of the leaf that has the last of them, and what comes behind, if that is not on the next page.
    pub fn descend_to_end<R>(
        &self,
        cursor: &mut PageCursor,
        look: impl FnMut(&Page) -> R,
    ) -> Option<(u32, R)> {
        self.go_down(cursor, |order| order == Ordering::Greater, look)
    }

    /// To the leaf that has the last item whose order is not one that `holds`, which it does for all that are behind.
    fn go_down<R>(
        &self,
        cursor: &mut PageCursor,
        holds: impl Fn(Ordering) -> bool + Copy,
        mut look: impl FnMut(&Page) -> R,
    ) -> Option<(u32, R)> {
        // SAFETY: the index is open.
        unsafe {
            if !self.index.has_block(0) {
                return None;
            }
            cursor.go(0);
            // SAFETY: within the meta page.
            let mut block = cursor.locked(|page| {
                let at = page.as_ptr().cast::<u8>().add(ROOT_AT);
                at.cast::<u32>().read_unaligned()
            });
            for _ in 0..MOST_STEPS {
                // No root is page 0.
                if block == 0 || !self.index.has_block(block) {
                    return None;
                }
                cursor.go(block);
                match cursor.locked(|page| self.step(page, holds, &mut look)) {
                    Step::To(next) => block = next,
                    Step::Leaf(seen) => return Some((block, seen)),
                    Step::Lost => return None,
                }
            }
            None
        }
    }

    /// Where the way goes on from a page that is locked.
    fn step<R>(
        &self,
        page: &Page,
        holds: impl Fn(Ordering) -> bool,
        look: impl FnOnce(&Page) -> R,
    ) -> Step<R> {
        let special = Special::of(page);
        if special.flags & IGNORED != 0 {
            return Step::To(special.next);
        }
        let ends_before = |order| !holds(order);
        let is_behind = special.next != 0 && self.order(page, HIGH_KEY).is_some_and(ends_before);
        if is_behind {
            return Step::To(special.next);
        }
        if special.flags & LEAF != 0 {
            return Step::Leaf(look(page));
        }
        // The first item of an inner page has no columns, and comes before everything.
        let child = self
            .first_that(page, special.first(), &holds)
            .filter(|&behind| behind > special.first())
            .and_then(|behind| page.tuple(behind - 1));
        // SAFETY: an index tuple starts with its TID, which names the child page.
        child.map_or(Step::Lost, |item| unsafe {
            Step::To(tid::read(item.header().cast()).block)
        })
    }

    /// The first item from `start` on that does not come before the entries; one more than there are where all do.
    pub fn first_not_before(&self, page: &Page, start: u16) -> Option<u16> {
        self.first_that(page, start, |order| order != Ordering::Less)
    }

    /// The same, looked for around `guess`, if that is a place on the page: entries that came before it have moved it by a few.
    pub fn first_not_before_near(&self, page: &Page, start: u16, guess: u16) -> Option<u16> {
        let end = page.line_pointers().checked_add(1)?;
        let is_before = |at: u16| Some(self.order(page, at)? == Ordering::Less);
        let (mut low, mut high, mut step) = (start, end, 1);
        if !(start..=end).contains(&guess) {
            return self.first_not_before(page, start);
        }
        if guess < end && is_before(guess)? {
            low = guess + 1;
            while high - low > step {
                if !is_before(low + step)? {
                    high = low + step;
                    break;
                }
                low += step + 1;
                step *= 2;
            }
        } else {
            high = guess;
            while high - low >= step {
                if is_before(high - step)? {
                    low = high - step + 1;
                    break;
                }
                high -= step;
                step *= 2;
            }
        }
        self.first_within(page, low..high, |order| order != Ordering::Less)
    }

    /// The first item that comes behind the entries, from one on that does not come before them: looked for near that, since they are few as a rule.
    pub fn first_behind(&self, page: &Page, from: u16) -> Option<u16> {
        let end = page.line_pointers().checked_add(1)?;
        let is_behind = |at: u16| Some(self.order(page, at)? == Ordering::Greater);
        let (mut low, mut step) = (from, 1);
        while low < end {
            let at = low.saturating_add(step - 1).min(end - 1);
            if is_behind(at)? {
                return self.first_within(page, low..at, |order| order == Ordering::Greater);
            }
            (low, step) = (at + 1, step * 2);
        }
        Some(end)
    }

    /// The first item from `start` on whose order is one that holds for it and for all behind it.
    pub fn first_that(
        &self,
        page: &Page,
        start: u16,
        holds: impl Fn(Ordering) -> bool,
    ) -> Option<u16> {
        let end = page.line_pointers().checked_add(1)?;
        self.first_within(page, start..end, holds)
    }

    /// The same of some items; the end of these where it holds for none.
    fn first_within(
        &self,
        page: &Page,
        items: Range<u16>,
        holds: impl Fn(Ordering) -> bool,
    ) -> Option<u16> {
        let Range {
            start: mut low,
            end: mut high,
        } = items;
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self.order(page, middle)?) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }
}
