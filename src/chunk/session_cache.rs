//! What a session keeps of header versions from one transaction to the next: their content, and what has been decoded of it. That
//! does not depend on who sees a header, or when. Who is to see it looks at its tuple first, so what is kept is asked for with the
//! bytes of a tuple that is visible, and is the content of those bytes or not found. Chunk ids are random, so no other chunk has them.
//!
//! Where there is more than fits, what was used longest ago goes first. Where a scan comes upon more, bytes that were read go before what was decoded of them, and both before
//! what was read of headers, and of what it has come upon itself what it used last: who reads the same again finds what he begins with.

use super::read::{Content, Damage};
use super::reader::Decoded;
use crate::guc;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::Oid;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use varve_columns::tuple::header::{self, FLAG_ONE_SERIES};

/// Where a header is: table, file and place.
pub type Place = (Oid, Oid, Tid);

/// The content of a header version with what has been decoded of it.
#[derive(Clone)]
pub struct Opened {
    pub content: Rc<Content>,
    pub decoded: Rc<Decoded>,
}

impl Opened {
    fn is_sound(&self) -> bool {
        self.content.is_sound() && self.decoded.is_sound()
    }

    /// Lets go of what is on pages still.
    fn forget_bytes(&self) {
        self.content.forget_bytes();
    }

    /// Lets go of that, and of decoded values.
    fn forget_values(&self) {
        self.content.forget_values();
        self.decoded.forget_blocks();
    }

    fn bytes(&self) -> usize {
        self.content.bytes() + self.content.kept_bytes() + self.decoded.bytes()
    }
}

/// How the table hands out a column: type, length, by value, dropped.
type Form = (Oid, i16, bool, bool);

/// Those of the columns that a chunk has.
fn forms<'a>(table: Table<'a>, content: &Content) -> impl Iterator<Item = Form> + use<'a> {
    let attributes: &'a [_] = table.attributes();
    let of_chunk = attributes
        .iter()
        .take(usize::from(content.statics.attributes));
    of_chunk.map(|column| {
        let by_value = column.attbyval;
        (
            column.atttypid,
            column.attlen,
            by_value,
            column.attisdropped,
        )
    })
}

struct Kept {
    opened: Opened,
    /// Datums are made for columns as they were then.
    forms: Box<[Form]>,
    /// What it took when the last transaction that used it ended.
    bytes: usize,
    /// When it was used last, by the count of uses.
    used: u64,
}

#[derive(Default)]
struct Session {
    kept: FxHashMap<Place, Kept>,
    /// Where the version of each chunk is that was kept last, by table, file and chunk id.
    latest: FxHashMap<(Oid, Oid, u64), Tid>,
    uses: u64,
    bytes: usize,
    /// A scan that has filled it with as many headers as are kept: what it comes upon next would go first.
    filled_by: Option<Began>,
    /// A scan that has had to let go of pieces of its own: those of what it leaves go at once, as the last ones go first.
    crowded_by: Option<Began>,
}

/// Header versions that are kept, however small.
const MOST_KEPT: usize = 1024;

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
}

/// When a scan began that comes upon one chunk after the other.
#[derive(Clone, Copy, PartialEq)]
pub struct Began(u64);

impl Began {
    pub fn now() -> Began {
        Began(SESSION.with_borrow(|session| session.uses))
    }
}

/// Who opens headers.
#[derive(Clone, Copy)]
pub struct Visit {
    /// A scan that began then.
    pub scan: Option<Began>,
    /// The process comes to a chunk of a single series this once, and to none of them in a later query.
    pub is_only: bool,
}

/// What is kept of the header at `place` whose bytes are `body`.
pub fn find(table: Table<'_>, place: Place, body: &[u8]) -> Option<Opened> {
    SESSION.with_borrow_mut(|session| {
        session.uses += 1;
        let kept = session.kept.get_mut(&place)?;
        let opened = &kept.opened;
        let fits = opened.content.is_of(body)
            && opened.is_sound()
            && forms(table, &opened.content).eq(kept.forms.iter().copied());
        if !fits {
            session.remove(place);
            return None;
        }
        kept.used = session.uses;
        Some(opened.clone())
    })
}

/// What is kept of the header at `place`, whatever its bytes are now.
pub fn content(place: Place) -> Option<Rc<Content>> {
    SESSION.with_borrow_mut(|session| {
        session.uses += 1;
        let kept = session.kept.get_mut(&place)?;
        kept.used = session.uses;
        Some(Rc::clone(&kept.opened.content))
    })
}

/// Reads the content of the header at `place` whose bytes are `body`, and keeps it in the place of another version of the chunk: what
/// of the payload has been decoded is the same to both.
pub fn open(table: Table<'_>, place: Place, body: &[u8], visit: Visit) -> Result<Opened, Damage> {
    let key = (place.0, place.1, header::chunk_id(body));
    let earlier = SESSION.with_borrow(|session| {
        let at = *session.latest.get(&key)?;
        let kept = session.kept.get(&(key.0, key.1, at))?;
        let is_sound = kept.opened.is_sound();
        is_sound.then(|| (at, kept.opened.clone(), kept.forms.clone()))
    });
    let known = earlier.as_ref().map(|(_, opened, _)| &*opened.content);
    let content = Content::read(table, body, known)?;
    let same = earlier.filter(|(_, opened, of_columns)| {
        opened.content.has_payload_of(&content)
            && forms(table, &content).eq(of_columns.iter().copied())
    });
    let decoded = match same {
        Some((at, opened, _)) => {
            SESSION.with_borrow_mut(|session| session.remove((key.0, key.1, at)));
            opened.decoded
        }
        None => Rc::new(Decoded::new(content.columns.columns().len())),
    };
    let content = Rc::new(content);
    let opened = Opened { content, decoded };
    if !visit.is_only || !opened.content.header_as_written().has(FLAG_ONE_SERIES) {
        keep(table, place, &opened, visit.scan);
    }
    Ok(opened)
}

/// Keeps what has been opened of the header at `place`.
fn keep(table: Table<'_>, place: Place, opened: &Opened, scan: Option<Began>) {
    let is_filled = || SESSION.with_borrow(|session| scan.is_some() && scan == session.filled_by);
    if guc::session_cache_bytes() == 0 || is_filled() {
        return;
    }
    let forms = forms(table, &opened.content).collect();
    SESSION.with_borrow_mut(|session| {
        session.remove(place);
        let key = (place.0, place.1, opened.content.chunk_id());
        session.latest.insert(key, place.2);
        let kept = Kept {
            opened: opened.clone(),
            forms,
            bytes: opened.bytes(),
            used: session.uses,
        };
        session.bytes += kept.bytes;
        session.kept.insert(place, kept);
        session.make_room(scan);
    });
}

/// The transaction, or a scan that says when it began, has no readers any more of the headers at some places: counts what is kept of them anew.
/// Raises no error.
pub fn settle(places: impl Iterator<Item = Place>, scan: Option<Began>) {
    // A session that ends may have lost it already.
    let _ = SESSION.try_with(|session| {
        let Ok(mut session) = session.try_borrow_mut() else {
            return;
        };
        let is_crowded = scan.is_some() && scan == session.crowded_by;
        places.for_each(|place| session.settle(place, is_crowded));
        session.make_room(scan);
    });
}

impl Session {
    fn remove(&mut self, place: Place) {
        if let Some(gone) = self.kept.remove(&place) {
            self.bytes -= gone.bytes;
            let key = (place.0, place.1, gone.opened.content.chunk_id());
            if self.latest.get(&key) == Some(&place.2) {
                self.latest.remove(&key);
            }
        }
    }

    fn settle(&mut self, place: Place, is_crowded: bool) {
        let Some(kept) = self.kept.get_mut(&place) else {
            return;
        };
        if !kept.opened.is_sound() {
            return self.remove(place);
        }
        if is_crowded {
            kept.opened.forget_bytes();
        }
        kept.opened.decoded.settle();
        self.bytes -= kept.bytes;
        kept.bytes = kept.opened.bytes();
        self.bytes += kept.bytes;
    }

    /// Has a header that nobody has open let go of something.
    fn relieve(&mut self, place: Place, forget: fn(&Opened)) {
        let is_unused = |kept: &&mut Kept| {
            Rc::strong_count(&kept.opened.content) == 1 && kept.opened.is_sound()
        };
        if let Some(kept) = self.kept.get_mut(&place).filter(is_unused) {
            forget(&kept.opened);
            self.bytes -= kept.bytes;
            kept.bytes = kept.opened.bytes();
            self.bytes += kept.bytes;
        }
    }

    /// Lets go of what was not used longest, an eighth more than has to go, so that the next ones find room.
    fn make_room(&mut self, scan: Option<Began>) {
        let most = guc::session_cache_bytes();
        if self.bytes <= most && self.kept.len() <= MOST_KEPT {
            return;
        }
        let order = |used: u64| match scan {
            Some(Began(began)) if used > began => (true, u64::MAX - used),
            _ => (false, used),
        };
        let of_entry = |(&place, kept): (&Place, &Kept)| (order(kept.used), place);
        let mut next: Vec<_> = self.kept.iter().map(of_entry).collect();
        next.sort_unstable_by_key(|&(order, _)| order);
        let few_bytes = most - most / 8;
        let few_kept = MOST_KEPT - MOST_KEPT / 8;
        let are_many = self.kept.len() > MOST_KEPT;
        for forget in [Opened::forget_bytes, Opened::forget_values] {
            // What is left may stay where it fits, even if there is little room besides.
            if scan.is_none() || self.bytes <= most {
                break;
            }
            for &((is_own, _), place) in &next {
                if self.bytes <= few_bytes {
                    break;
                }
                if is_own {
                    self.crowded_by = scan;
                }
                self.relieve(place, forget);
            }
        }
        if self.bytes <= most && !are_many {
            return;
        }
        for ((is_own, _), place) in next {
            if self.bytes <= few_bytes && self.kept.len() <= few_kept {
                break;
            }
            if is_own && are_many {
                self.filled_by = scan;
            }
            self.remove(place);
        }
    }
}
