//! Finds the last entries that an index with nbtree's pages has in a range, on the page where the range ends: who reads backward begins with them. That page is
//! the one whose first item does not come behind the range, and whose high key does, unless it is the last page.

use super::leaf_descent::HIGH_KEY;
use super::leaf_probe::{Guess, PageState};
use super::leaf_range::{Range, Wanted};
use super::leaves::{check_age, Item, Special, IGNORED, LEAF};
use super::page::{Page, PageCursor};
use super::relation::Index;
use super::snapshot::Snapshot;
use super::tid::Tid;
use pgrx::pg_sys;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Entries: the value of the range's span, if it is not null, and the TID, as it is stored.
pub type Entries = SmallVec<[(Option<pg_sys::Datum>, Tid); 8]>;

/// The end of a range.
pub struct End {
    /// In the order of the index. There may be more than were asked for: all of a list.
    pub entries: Entries,
    /// There are no others in the range.
    pub is_whole: bool,
    /// None where changes of the page are not logged. As long as it is the same, these are the last entries.
    pub page: Option<PageState>,
}

/// The last entries of a range with a span of values that are passed by value, of those that `is_wanted` accepts: `most` of them, or all that their page has. None
/// where the page is not found: a scan tells. It is no reading in the sense of serializable transactions.
///
/// # Safety
/// `index` must be open, and have nbtree's pages; `range` of its columns. The snapshot is null, or valid: that of the reading which the answer is for.
pub unsafe fn of(
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    range: Range,
    most: usize,
    is_wanted: impl Fn(Option<pg_sys::Datum>, Tid) -> bool,
) -> Option<End> {
    // SAFETY: by contract.
    let wanted = unsafe { Wanted::new(index, range)? };
    let mut guess = Guess::of(wanted.hash(most).wrapping_add(1).max(1));
    let mut cursor = PageCursor::new(index);
    let look = |page: &Page| wanted.end(page, most, &is_wanted);
    let guessed = guess.go(&mut cursor).then(|| cursor.locked(look)).flatten();
    let found = guessed.or_else(|| {
        let (block, found) = wanted.descend_to_end(&mut cursor, look)?;
        guess.is_at(block, &cursor);
        found
    });
    guess.keep();
    let Found {
        entries,
        is_whole,
        changed,
    } = found?;
    check_age(index, snapshot, changed);
    let page = index.needs_wal().then(|| guess.state(changed));
    Some(End {
        entries,
        is_whole,
        page,
    })
}

/// What a page has.
struct Found {
    entries: Entries,
    is_whole: bool,
    /// The position in the log behind which the page was not changed.
    changed: u64,
}

impl Wanted<'_> {
    /// The last entries, by a page that is locked; None where it is not the one that has them.
    fn end(
        &self,
        page: &Page,
        most: usize,
        is_wanted: impl Fn(Option<pg_sys::Datum>, Tid) -> bool,
    ) -> Option<Found> {
        let special = Special::of(page);
        if special.flags & (LEAF | IGNORED) != LEAF {
            return None;
        }
        if special.next != 0 && self.order(page, HIGH_KEY)? != Ordering::Greater {
            return None;
        }
        let start = special.first();
        let behind = self.first_that(page, start, |order| order == Ordering::Greater)?;
        if behind == start {
            return None;
        }
        let mut entries = Entries::new();
        let mut is_whole = special.previous == 0;
        for at in (start..behind).rev() {
            if self.order(page, at)? == Ordering::Less {
                is_whole = true;
                break;
            }
            if entries.len() >= most {
                is_whole = false;
                break;
            }
            if page.is_dead(at) && !self.also_dead {
                continue;
            }
            // Those of a list are in order.
            let value = self.value_of_span(page, at)?;
            let item = Item::of(page.stored(at)?)?;
            let from = entries.len();
            let all = item.tids().map(|tid| (value, tid));
            entries.extend(all.filter(|&(value, tid)| is_wanted(value, tid)));
            entries[from..].reverse();
        }
        entries.reverse();
        Some(Found {
            entries,
            is_whole,
            changed: page.changed(),
        })
    }
}
