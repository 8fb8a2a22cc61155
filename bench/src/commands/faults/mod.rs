//! Seeded faults: files of a stopped server are changed so that all checksums are right again, or not, and `varve.verify`
//! must find each of them, name it rightly, and find nothing in a table that was left alone.

mod flips;
mod pages;

use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use pages::{File, LinePointer, PIECE_DATA_AT, TUPLE_BODY_AT};
use postgres::Client;
use std::path::Path;
use std::sync::Arc;
use varve_columns::chunk::{ChunkHeader, ColumnHeader};
use varve_columns::summary::{Bound, Sum};
use varve_columns::tuple::header::{slots_start, Header, Section};
use varve_columns::tuple::statics::Statics;

/// A fault: table, whether its index is changed instead of it, what to do, and the kind and the words that verify must
/// report.
struct Fault {
    table: &'static str,
    in_index: bool,
    seed: fn(&mut File) -> Result<()>,
    kind: &'static str,
    words: &'static str,
}

const FAULTS: [Fault; 13] = [
    Fault {
        table: "payload_byte",
        in_index: false,
        seed: payload_byte,
        kind: "payload",
        words: "checksum",
    },
    Fault {
        table: "lost_piece",
        in_index: false,
        seed: lost_piece,
        kind: "pieces",
        words: "the header names",
    },
    Fault {
        table: "wrong_sum",
        in_index: false,
        seed: wrong_sum,
        kind: "summary",
        words: "wrong sum",
    },
    Fault {
        table: "wrong_max",
        in_index: false,
        seed: wrong_max,
        kind: "summary",
        words: "wrong max",
    },
    Fault {
        table: "wrong_order",
        in_index: false,
        seed: wrong_order,
        kind: "order",
        words: "sorts before",
    },
    Fault {
        table: "header_byte",
        in_index: false,
        seed: header_byte,
        kind: "header",
        words: "checksum",
    },
    Fault {
        table: "header_slot",
        in_index: false,
        seed: header_slot,
        kind: "header",
        words: "slot of a header",
    },
    Fault {
        table: "lost_magic",
        in_index: false,
        seed: lost_magic,
        kind: "header",
        words: "magic",
    },
    Fault {
        table: "later_tuple",
        in_index: false,
        seed: later_tuple,
        kind: "header",
        words: "newer than this varve",
    },
    Fault {
        table: "later_columns",
        in_index: false,
        seed: later_columns,
        kind: "header",
        words: "newer than this varve",
    },
    Fault {
        table: "missing_entry",
        in_index: true,
        seed: missing_entry,
        kind: "index",
        words: "no entry",
    },
    Fault {
        table: "dangling_entry",
        in_index: true,
        seed: dangling_entry,
        kind: "index",
        words: "not there",
    },
    Fault {
        table: "tail_and_chunk",
        in_index: false,
        seed: row_comes_back,
        kind: "tail and chunk",
        words: "moved it into a chunk",
    },
];

/// `flips`: tables of which one byte each is flipped.
pub fn run(tree: &Arc<Tree>, report: &mut Report, flips: usize, seed: u64) -> Result<()> {
    seeded(tree, report)?;
    flips::run(tree, report, flips, seed)
}

fn seeded(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let mut cluster = Cluster::create(tree, &["autovacuum = off"])?;
    let mut client = cluster.database("faults")?;
    let mut files = Vec::new();
    create(&cluster, &mut client, "untouched")?;
    for fault in &FAULTS {
        create(&cluster, &mut client, fault.table)?;
        let relation = match fault.in_index {
            true => format!("{}_host_time_idx", fault.table),
            false => fault.table.to_string(),
        };
        let path = "SELECT pg_relation_filepath($1::text::regclass)";
        let path: String = client.query_one(path, &[&relation])?.get(0);
        files.push(cluster.data().join(path));
    }
    drop(client);
    cluster.stop()?;
    for (fault, path) in FAULTS.iter().zip(&files) {
        seed(fault, path)?;
    }
    cluster.start()?;
    let mut client = cluster.connect("faults")?;
    for fault in &FAULTS {
        report.check(
            &format!("faults/{}", fault.table),
            found(&mut client, fault),
        );
    }
    report.check("faults/untouched", nothing_found(&mut client));
    for (table, code) in [
        ("lost_magic", "XX001"),
        ("later_tuple", "0A000"),
        ("later_columns", "0A000"),
    ] {
        let outcome = refused(&mut client, table, code);
        report.check(&format!("faults/query of {table}"), outcome);
    }
    Ok(())
}

/// Three long series in chunks, ten rows in the tail; and three rows that were sealed while somebody could still see them in
/// the tail, so that they are there yet.
fn create(cluster: &Cluster, client: &mut Client, table: &str) -> Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE {table} (time timestamptz NOT NULL, host text NOT NULL, value int) USING varve;
         CREATE INDEX ON {table} USING varve (host, time);
         ALTER TABLE {table} ADD UNIQUE (host, time);
         INSERT INTO {table} SELECT '2026-01-01'::timestamptz + i * interval '1 s', 'h' || i % 3, hashint4(i) & 1023
         FROM generate_series(1, 9000) AS i"
    ))?;
    client.batch_execute(&format!("CALL varve.compact('{table}')"))?;
    client.batch_execute(&format!(
        "INSERT INTO {table} SELECT '2026-02-01'::timestamptz + i * interval '1 s', 'h1', i FROM generate_series(1, 3) AS i"
    ))?;
    let mut reader = cluster.connect("faults")?;
    let mut old = reader
        .build_transaction()
        .isolation_level(postgres::IsolationLevel::RepeatableRead)
        .start()?;
    old.query(&format!("SELECT count(*) FROM {table}"), &[])?;
    client.batch_execute(&format!("CALL varve.compact('{table}')"))?;
    old.commit()?;
    Ok(client.batch_execute(&format!(
        "INSERT INTO {table} SELECT '2026-03-01'::timestamptz + i * interval '1 s', 'h2', i FROM generate_series(1, 10) AS i"
    ))?)
}

fn seed(fault: &Fault, path: &Path) -> Result<()> {
    let mut file = File::read(path)?;
    (fault.seed)(&mut file).map_err(|error| format!("{}: {error}", fault.table))?;
    file.write(path)
}

fn found(client: &mut Client, fault: &Fault) -> Result<()> {
    let query = format!(
        "SELECT kind, detail, v::text FROM varve.verify('{}') AS v",
        fault.table
    );
    let rows = client.query(&query, &[])?;
    let named = rows.iter().any(|row| {
        row.get::<_, &str>(0) == fault.kind && row.get::<_, &str>(1).contains(fault.words)
    });
    if named {
        return Ok(());
    }
    let all: Vec<String> = rows.iter().map(|row| row.get(2)).collect();
    Err(format!(
        "expected {} ({}), verify says {all:?}",
        fault.kind, fault.words
    )
    .into())
}

fn nothing_found(client: &mut Client) -> Result<()> {
    let rows = client.query("SELECT v::text FROM varve.verify('untouched') AS v", &[])?;
    match rows.first() {
        None => Ok(()),
        Some(row) => Err(row.get::<_, String>(0).into()),
    }
}

/// A query must end with an error of this SQLSTATE that has a hint, and compact must leave the chunk out.
fn refused(client: &mut Client, table: &str, code: &str) -> Result<()> {
    let error = match client.query(&format!("SELECT sum(value) FROM {table}"), &[]) {
        Ok(_) => return Err("the query succeeds".into()),
        Err(error) => error,
    };
    let server = error.as_db_error().ok_or("the server is gone")?;
    if server.code().code() != code || server.hint().is_none() {
        return Err(crate::errors::describe(&error).into());
    }
    Ok(client.batch_execute(&format!("CALL varve.compact('{table}')"))?)
}

/// A piece that can no longer be told from a row without columns by its first bytes.
fn lost_magic(file: &mut File) -> Result<()> {
    let piece = file.find(|tuple| tuple.is_payload())?;
    file.tuple_mut(piece)[TUPLE_BODY_AT] ^= 1;
    Ok(())
}

/// A header of a later version, with a checksum that this version cannot know.
fn later_tuple(file: &mut File) -> Result<()> {
    let header = file.find(|tuple| tuple.is_header())?;
    let tuple = file.tuple_mut(header);
    tuple[TUPLE_BODY_AT + 4] += 1;
    tuple[TUPLE_BODY_AT + 40] ^= 1;
    Ok(())
}

fn later_columns(file: &mut File) -> Result<()> {
    change_statics(file, |statics, _| {
        statics.columns[4] += 1;
        Ok(())
    })
}

fn payload_byte(file: &mut File) -> Result<()> {
    let piece = file.find(|tuple| tuple.is_payload())?;
    let byte = PIECE_DATA_AT + 40;
    file.tuple_mut(piece)[byte] ^= 0x40;
    Ok(())
}

fn lost_piece(file: &mut File) -> Result<()> {
    let piece = file.find(|tuple| tuple.is_payload())?;
    file.set_unused(piece);
    Ok(())
}

fn header_byte(file: &mut File) -> Result<()> {
    let header = file.find(|tuple| tuple.is_header())?;
    let body = file.body_mut(header);
    let last = slots_start(body) - 8;
    body[last] ^= 1;
    Ok(())
}

fn header_slot(file: &mut File) -> Result<()> {
    let header = file.find(|tuple| tuple.is_header())?;
    let body = file.body_mut(header);
    let last = body.len() - 8;
    body[last] ^= 1;
    Ok(())
}

fn wrong_sum(file: &mut File) -> Result<()> {
    change_value_column(file, |column, by| {
        if let Sum::Int(sum) = &mut column.summary.sum {
            *sum += i128::from(by);
        }
    })
}

fn wrong_max(file: &mut File) -> Result<()> {
    change_value_column(file, |column, by| {
        if let Bound::Int(max) = &mut column.summary.max {
            *max += by;
        }
    })
}

/// Rewrites the header of column `value` of a large chunk so that it has its old length and all checksums are right.
fn change_value_column(file: &mut File, change: impl Fn(&mut ColumnHeader, i64)) -> Result<()> {
    change_statics(file, |statics, by| {
        let old = ChunkHeader::parse(&statics.columns)?;
        let mut columns = old.columns().to_vec();
        change(&mut columns[2], by);
        statics.columns = ChunkHeader::write(old.rows(), &columns, old.area());
        Ok(())
    })
}

/// The chunk says that it is sorted by `value`.
fn wrong_order(file: &mut File) -> Result<()> {
    change_statics(file, |statics, _| {
        statics.keys = vec![3];
        Ok(())
    })
}

fn change_statics(file: &mut File, change: impl Fn(&mut Statics, i64) -> Result<()>) -> Result<()> {
    let at = file.find(|tuple| tuple.header().is_some_and(|header| header.rows >= 1000))?;
    let header = file.tuple(at).header().ok_or("no header")?;
    let Section::Inline(bytes) = &header.statics else {
        return Err("the static section is not in the header".into());
    };
    let length = header.encode().len();
    for by in [-1, -2, -3, 1, 2, 3] {
        let mut statics = Statics::decode(bytes).map_err(|error| error.to_string())?;
        change(&mut statics, by)?;
        let changed = Header {
            statics: Section::Inline(statics.encode()),
            ..header.clone()
        };
        let body = changed.encode();
        if body.len() == length {
            file.set_body(at, &body);
            return Ok(());
        }
    }
    Err("no change keeps the length of the header".into())
}

/// The last entries are those of chunks that are gone; before them come the rows of the tail.
fn missing_entry(file: &mut File) -> Result<()> {
    let leaf = file.rightmost_leaf()?;
    (0..4).for_each(|_| file.drop_last_entry(leaf));
    Ok(())
}

fn dangling_entry(file: &mut File) -> Result<()> {
    let leaf = file.rightmost_leaf()?;
    let last = LinePointer {
        page: leaf,
        number: file.line_pointers(leaf),
    };
    // The first four bytes of an index tuple are the block number that it names, high half first.
    file.tuple_mut(last)[2..4].copy_from_slice(&9999u16.to_le_bytes());
    Ok(())
}

fn row_comes_back(file: &mut File) -> Result<()> {
    let row = file.find(|tuple| tuple.is_moved_row())?;
    file.revive(row);
    Ok(())
}
