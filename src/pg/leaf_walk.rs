//! Walks along the leaf pages that have a range of entries, to the first entry with a TID of some kind. Of a page that is all within the range its first
//! and its last item are compared, and the TIDs of all looked at: a scan compares, copies and returns each.

use super::error;
use super::leaf_range::{Range, Wanted};
use super::leaves::{check_age, Item, Special, IGNORED, LEAF};
use super::page::{Page, PageCursor};
use super::relation::Index;
use super::snapshot::Snapshot;
use super::tid::Tid;
use pgrx::pg_sys;
use std::cmp::Ordering;

/// What a walk has met.
pub enum Met {
    /// No entry of the range has such a TID.
    Nothing,
    /// The first one that has it, with this value in the column of the span.
    Entry(pg_sys::Datum),
}

/// What a page says.
enum Said {
    Met(Met),
    /// All depends on this page and those behind it.
    Next(u32),
}

/// The first entry of a range with a span of values, which are passed by value, that has a TID which `is_it` accepts. None where the pages do not tell: a scan
/// does. Serializable transactions get no answer for what they read: a scan notes which pages that were.
///
/// # Safety
/// `index` must be open, and have nbtree's pages; `range` of its columns. A snapshot is null, or valid: that of the reading which the answer is
/// for. One that is no later than what is looked for is held.
pub unsafe fn first_with(
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    range: Range,
    is_it: impl Fn(Tid) -> bool,
) -> Option<Met> {
    // SAFETY: by contract.
    unsafe {
        let notes_reads = pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32;
        if notes_reads && !snapshot.is_none() {
            return None;
        }
        let wanted = Wanted::new(index, range)?;
        let mut cursor = PageCursor::new(index);
        let look = |page: &Page| (page.changed(), wanted.look(page, &is_it));
        let (_, (mut changed, mut said)) = wanted.descend(&mut cursor, look)?;
        let (mut blocks, mut pages) = (index.blocks(), 0);
        loop {
            check_age(index, snapshot, changed);
            let block = match said? {
                Said::Met(met) => return Some(met),
                Said::Next(0) => return Some(Met::Nothing),
                Said::Next(block) => block,
            };
            error::check_interrupts();
            pages += 1;
            if block >= blocks || pages > blocks {
                blocks = index.blocks();
                // A damaged chain could be a circle.
                if block >= blocks || pages > blocks {
                    return None;
                }
            }
            cursor.go(block);
            (changed, said) = cursor.locked(look);
        }
    }
}

impl Wanted<'_> {
    /// What a page that is locked says. None where it cannot be read.
    fn look(&self, page: &Page, is_it: impl Fn(Tid) -> bool) -> Option<Said> {
        let special = Special::of(page);
        if special.flags & IGNORED != 0 {
            return Some(Said::Next(special.next));
        }
        if special.flags & LEAF == 0 {
            return None;
        }
        let (start, last) = (special.first(), page.line_pointers());
        let is_begun = start <= last && self.order(page, start)? != Ordering::Less;
        let first = match is_begun {
            true => start,
            false => self.first_not_before(page, start)?,
        };
        let goes_on = first > last || self.order(page, last)? == Ordering::Equal;
        let end = match goes_on {
            true => last.saturating_add(1),
            false => self.first_that(page, first, |order| order == Ordering::Greater)?,
        };
        for at in first..end {
            if page.is_dead(at) && !self.also_dead {
                continue;
            }
            if Item::of(page.stored(at)?)?.tids().any(&is_it) {
                return Some(Said::Met(Met::Entry(self.value_of_span(page, at)??)));
            }
        }
        Some(match goes_on {
            true => Said::Next(special.next),
            false => Said::Met(Met::Nothing),
        })
    }
}
