//! `varve.stats(table)`: what takes how much space, as a whole and by column.

use super::chunks::header_bytes;
use super::codecs::Mix;
use super::subject;
use crate::chunk::inspect;
use crate::chunk::read::Damage;
use crate::chunk::reader::Reader;
use crate::chunk::tuple_kind::TupleKind;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{self, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::{Oid, BLCKSZ};
use pgrx::iter::TableIterator;
use pgrx::prelude::*;
use std::collections::BTreeMap;

type Row = (
    String,
    Option<String>,
    i64,
    i64,
    Option<f64>,
    Option<String>,
);

#[derive(Default)]
struct ColumnStats {
    values: i64,
    bytes: i64,
    codecs: Mix,
}

#[derive(Default)]
struct Stats {
    tail_rows: i64,
    tail_bytes: i64,
    chunks: i64,
    chunk_rows: i64,
    header_bytes: i64,
    payload_bytes: i64,
    /// Live rows and bytes of chunks by the version of their format.
    formats: BTreeMap<u8, (i64, i64)>,
    columns: Vec<ColumnStats>,
}

/// `varve.stats(regclass)`
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "the columns of the SQL function")]
fn varve_stats(
    table: Oid,
) -> TableIterator<
    'static,
    (
        name!(part, String),
        name!(name, Option<String>),
        name!(rows, i64),
        name!(bytes, i64),
        name!(bytes_per_row, Option<f64>),
        name!(codecs, Option<String>),
    ),
> {
    let table = subject::open(table, LockMode::AccessShare);
    subject::check_select(&table);
    let mut stats = Stats::default();
    // SAFETY: the table is open, and the statement's snapshot active.
    let rows = unsafe {
        let snapshot = Snapshot::active();
        inspect::visible_tuples(table.rel(), snapshot, |found, item| {
            if found == TupleKind::Row {
                stats.tail_rows += 1;
                stats.tail_bytes += i64::from(item.bytes());
            }
        });
        inspect::chunks(table.rel(), snapshot, |_, result| {
            let counted = result.and_then(|reader| {
                stats.add(&reader)?;
                Ok(reader)
            });
            if let Err(damage) = counted {
                crate::pg::error::warning(
                    crate::pg::error::Code::ERRCODE_DATA_CORRUPTED,
                    format!("varve.stats leaves out a chunk: {damage}"),
                );
            }
        });
        stats.rows(table.rel())
    };
    TableIterator::new(rows)
}

impl Stats {
    fn add(&mut self, reader: &Reader) -> Result<(), Damage> {
        let chunk = &reader.chunk;
        self.chunks += 1;
        self.chunk_rows += i64::from(chunk.header.rows - chunk.header.deleted);
        self.header_bytes += header_bytes(reader);
        let format = self.formats.entry(chunk.format()).or_default();
        format.0 += i64::from(chunk.header.rows - chunk.header.deleted);
        format.1 += header_bytes(reader);
        if chunk.rows_with_payload() == 0 {
            return Ok(());
        }
        self.payload_bytes += i64::from(chunk.statics.payload.len);
        format.1 += i64::from(chunk.statics.payload.len);
        let columns = chunk.columns.columns();
        if self.columns.len() < columns.len() {
            self.columns
                .resize_with(columns.len(), ColumnStats::default);
        }
        for (at, column) in columns.iter().enumerate() {
            let stats = &mut self.columns[at];
            stats.values += i64::from(column.count());
            stats.bytes += i64::from(column.blocks.end - column.directory.start);
            for block in chunk.directory(at)?.blocks() {
                stats.codecs.count(block.codec);
            }
        }
        Ok(())
    }

    /// One row for the table, the tail, the chunks and their headers, each format version, and each column.
    fn rows(self, table: Table<'_>) -> Vec<Row> {
        let (size, attributes) = (
            i64::from(table.blocks()) * i64::from(BLCKSZ),
            table.attributes(),
        );
        let row = |part: &str, name: Option<String>, rows: i64, bytes: i64, codecs| {
            let each = (rows > 0).then(|| bytes as f64 / rows as f64);
            (part.to_string(), name, rows, bytes, each, codecs)
        };
        let mut mix = Mix::default();
        self.columns
            .iter()
            .for_each(|column| mix.add(&column.codecs));
        let stored = self.header_bytes + self.payload_bytes;
        let mut out = vec![
            row("table", None, self.tail_rows + self.chunk_rows, size, None),
            row("tail", None, self.tail_rows, self.tail_bytes, None),
            row(
                "chunks",
                None,
                self.chunk_rows,
                stored,
                Some(mix.to_string()),
            ),
            row("headers", None, self.chunks, self.header_bytes, None),
        ];
        for (version, (rows, bytes)) in self.formats {
            out.push(row(
                "varve.format",
                Some(version.to_string()),
                rows,
                bytes,
                None,
            ));
        }
        for (column, attribute) in self.columns.iter().zip(attributes) {
            if attribute.attisdropped {
                continue;
            }
            let name = relation::attribute_name(attribute);
            let codecs = Some(column.codecs.to_string());
            out.push(row(
                "column",
                Some(name),
                column.values,
                column.bytes,
                codecs,
            ));
        }
        out
    }
}
