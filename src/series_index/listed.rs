//! What a session knows, from one statement to the next, of the chunks that are entered under one first key of an index, if all of them can wait: that there are
//! none, or their headers and what these say of their rows. It holds as long as the page of the index that says so is what it was. An entry goes before the
//! place of its header is used again, so the headers are the same too. Whether a snapshot sees one is asked when its turn comes, as with all that can wait.

use super::spans::Span;
use crate::pg::leaf_probe::PageState;
use crate::pg::relation::Index;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::Oid;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;

/// Where chunks are entered: index and its file, and the first key, or NULL.
pub type Section = (Oid, Oid, Option<usize>);

/// Sections that are remembered, and chunks in each.
const MOST_SECTIONS: usize = 4096;
const MOST_CHUNKS: usize = 64;

/// The chunks of a section, and the page of the index that says so.
#[derive(Clone)]
pub struct Listed {
    pub page: PageState,
    pub chunks: Rc<[(Tid, Span)]>,
}

thread_local! {
    static KNOWN: RefCell<FxHashMap<Section, Listed>> = RefCell::default();
}

/// The section of an index that a first key, or NULL, names.
pub fn section(index: Index<'_>, first: Option<usize>) -> Section {
    (index.oid(), index.file_number(), first)
}

/// The chunks of a section of `index`, if they are known and its page is still as it was.
pub fn recall(section: Section, index: Index<'_>, snapshot: Snapshot<'_>) -> Option<Listed> {
    let known = KNOWN.with_borrow(|all| all.get(&section).cloned());
    known.filter(|known| known.page.is_same(index, snapshot))
}

/// These are all chunks of a section, by its page as it is now. False: they are too many.
pub fn remember(
    section: Section,
    page: PageState,
    chunks: impl Iterator<Item = (Tid, Span)>,
) -> bool {
    let chunks: Rc<[_]> = chunks.collect();
    if chunks.len() > MOST_CHUNKS {
        return false;
    }
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MOST_SECTIONS && !known.contains_key(&section) {
            known.clear();
        }
        known.insert(section, Listed { page, chunks });
    });
    true
}

/// Has a snapshot that sees no chunk at a header that was listed look anew the next time: its entry may be dead.
pub fn forget(index: Index<'_>) {
    let (oid, file) = (index.oid(), index.file_number());
    KNOWN.with_borrow_mut(|known| known.retain(|section, _| (section.0, section.1) != (oid, file)));
}

/// The pages of an index that have told which chunks there are; None as soon as something else was asked.
pub struct Pages(Option<PageStates>);

/// Pages as they were.
pub type PageStates = SmallVec<[PageState; 4]>;

impl Default for Pages {
    fn default() -> Pages {
        Pages(Some(PageStates::new()))
    }
}

impl Pages {
    /// With one more that was asked.
    pub fn and(self, page: Option<PageState>) -> Pages {
        let all = self.0.zip(page).map(|(mut pages, page)| {
            pages.push(page);
            pages
        });
        Pages(all)
    }

    pub fn all(self) -> Option<PageStates> {
        self.0
    }
}
