//! The rows of notes that this transaction has decoded, by their bytes. Notes of a transaction in progress are read again by each of its
//! commands, since their places tell nothing: it may roll one back and write another there. The bytes tell everything.

use crate::pg::transaction::{Access, PerTransaction};
use std::rc::Rc;
use varve_columns::tuple::header::FormatError;
use varve_columns::tuple::note::{self, Run};

/// Bytes of a note that is worth a look: shorter ones are decoded in less time.
const LEAST_BYTES: usize = 64;
/// Notes that are kept: those of a large chunk.
const MOST_KEPT: usize = 16;
/// Runs of all of them, of twenty bytes each.
const MOST_RUNS: usize = 65_536;

struct Decoded {
    body: Box<[u8]>,
    chunk_rows: u32,
    runs: Rc<[Run]>,
}

thread_local! {
    /// In the order in which they were decoded.
    static DECODED: PerTransaction<Vec<Decoded>> = PerTransaction::default();
}

/// The rows of the note `body` of a chunk of `chunk_rows` rows, as `note::decode` returns them.
pub fn decode(body: &[u8], chunk_rows: u32) -> Result<Rc<[Run]>, FormatError> {
    if body.len() < LEAST_BYTES {
        return note::decode(body, chunk_rows).map(Rc::from);
    }
    let is_it = |one: &&Decoded| one.chunk_rows == chunk_rows && *one.body == *body;
    let known = DECODED.with_borrow(|all| all.iter().find(is_it).map(|one| Rc::clone(&one.runs)));
    if let Some(runs) = known {
        return Ok(runs);
    }
    let runs: Rc<[Run]> = note::decode(body, chunk_rows)?.into();
    DECODED.with_borrow_mut(|all| keep(all, body, chunk_rows, &runs));
    Ok(runs)
}

fn keep(all: &mut Vec<Decoded>, body: &[u8], chunk_rows: u32, runs: &Rc<[Run]>) {
    let kept: usize = all.iter().map(|one| one.runs.len()).sum();
    if all.len() == MOST_KEPT || kept + runs.len() > MOST_RUNS {
        all.remove(0);
    }
    all.push(Decoded {
        body: body.into(),
        chunk_rows,
        runs: Rc::clone(runs),
    });
}
