//! Why the rows of a table cannot be compressed, in words for its owner, and what can be done about it. The rule itself is
//! `seal::is_allowed`; here is which part of it says no. Told by compact, and by DDL where it is known then.

use super::seal;
use crate::catalog::layout;
use crate::pg::citus;
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{self, Index, Table};

pub struct Obstacle {
    /// Goes on where "rows stay uncompressed: " ends.
    pub reason: String,
    pub remedy: String,
}

/// What keeps the rows of a table in its tail; `None` where they can be compressed.
pub fn of(table: Table<'_>) -> Option<Obstacle> {
    // SAFETY: the table is open.
    unsafe {
        let layout = layout::of(table);
        let name = table.qualified_name();
        if citus::is_distributed(table.oid()) {
            return Some(Obstacle {
                reason: "Citus keeps them in shards, which are tables of their own".into(),
                remedy: format!(
                    "SELECT run_command_on_shards('{}', $$CALL varve.compact('%s')$$);",
                    name.replace('\'', "''")
                ),
            });
        }
        if seal::is_allowed(table, &layout) {
            return None;
        }
        let of_index = table
            .index_oids()
            .into_iter()
            .map(|oid| OpenIndex::open(oid, LockMode::AccessShare))
            .find_map(|index| of_index(table, index.rel()));
        if let Some(obstacle) = of_index {
            return Some(obstacle);
        }
        if layout::loses_unique_index(table) {
            return Some(Obstacle {
                reason: "a unique index is just being dropped".into(),
                remedy: format!(
                    "CALL varve.compact('{}') again later.",
                    name.replace('\'', "''")
                ),
            });
        }
        Some(Obstacle {
            reason: "there is no time column".into(),
            remedy: "Rows are compressed in the order of a timestamptz, timestamp or date column, or of a last column of a series index: CREATE INDEX … USING varve (…, number).".into(),
        })
    }
}

/// Tells the owner of a table why its rows stay in the tail, if they do.
pub fn tell(table: Table<'_>) {
    if let Some(obstacle) = of(table) {
        let name = table.name();
        error::notice(
            format!(
                "rows of table \"{name}\" stay uncompressed: {}",
                obstacle.reason
            ),
            &obstacle.remedy,
        );
    }
}

/// What an index has against chunks.
fn of_index(table: Table<'_>, index: Index<'_>) -> Option<Obstacle> {
    let form = index.form();
    let name = index.name();
    if form.indisexclusion {
        return Some(Obstacle {
            reason: format!("exclusion constraint \"{name}\" cannot look into chunks"),
            remedy: "Do without the constraint.".into(),
        });
    }
    let series = layout::series_indexes(table);
    if !form.indisunique || layout::series_index_of_key(index, &series).is_some() {
        return None;
    }
    if !layout::is_plain_key(index) {
        return Some(Obstacle {
                reason: format!(
                    "unique index \"{name}\" has a predicate, an expression or NULLS NOT DISTINCT, and cannot look into chunks"
                ),
                remedy: "Make the key one of plain columns with the time column among them.".into(),
            });
    }
    let stated = layout::of(table);
    let lacking: Vec<String> = columns_of(table, &stated)
        .into_iter()
        .filter(|(number, _)| !layout::index_columns(index).contains(number))
        .map(|(_, name)| format!("\"{name}\""))
        .collect();
    if stated.time.is_none() || lacking.is_empty() {
        return Some(Obstacle {
            reason: format!("key \"{name}\" has no series index of its columns"),
            remedy: "CREATE INDEX … USING varve (series, time), of columns of the key.".into(),
        });
    }
    Some(Obstacle {
            reason: format!(
                "key \"{name}\" lacks {}, by which rows of chunks are found",
                lacking.join(", ")
            ),
            remedy: "Put the series and the time column into the key, as in PRIMARY KEY (series, time), or do without it.".into(),
        })
}

/// Numbers and names of the layout's columns.
fn columns_of(table: Table<'_>, layout: &layout::Layout) -> Vec<(u16, String)> {
    let attributes = table.attributes();
    let numbers = layout.keys.iter().chain(layout.time.iter());
    numbers
        .map(|&number| {
            let attribute = &attributes[usize::from(number) - 1];
            (number, relation::attribute_name(attribute))
        })
        .collect()
}
