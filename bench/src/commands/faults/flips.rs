//! One flipped byte per table, in any part of a chunk, while the server is stopped and pages have no checksums. Whatever is
//! then done with the table answers rightly or with XX001 that names the chunk (and the column, where a column is hit); the
//! server goes on; what could be read before a compact or a rewrite can be read after it; and `varve.verify` knows of
//! whatever raised an error.

use super::pages::{File, LinePointer, TUPLE_BODY_AT};
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_columns::chunk::ChunkHeader;
use varve_columns::tuple::header::{Header, Section, BODY_BYTES, PIECE_BYTES};
use varve_columns::tuple::statics::Statics;

/// Where a byte is flipped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Region {
    /// The header tuple: first the fixed part, then the rest, with summaries and the delete map.
    HeaderHead,
    HeaderBody,
    /// The first bytes of a piece, which say what it is.
    PieceHead,
    Directory,
    Block,
    /// Pieces of a delete map or of column headers that do not fit into the header tuple.
    Section,
}

const REGIONS: [Region; 6] = [
    Region::HeaderHead,
    Region::HeaderBody,
    Region::PieceHead,
    Region::Directory,
    Region::Block,
    Region::Section,
];
const HEADER_HEAD: usize = 45;
const PIECE_HEAD: usize = 24;

/// A byte of a tuple's body, and what it belongs to.
#[derive(Clone, Debug)]
struct Spot {
    region: Region,
    at: LinePointer,
    byte: usize,
    chunk: u64,
    column: Option<usize>,
}

/// The columns that the table has, and how the original's are called.
const COLUMNS: [&str; 7] = ["time", "host", "n", "f", "note", "amount", "doc"];

pub fn run(tree: &Arc<Tree>, report: &mut Report, tables: usize, seed: u64) -> Result<()> {
    println!("flips: seed {seed}");
    let mut random = Random::new(seed);
    let mut cluster = Cluster::create(tree, &["autovacuum = off", "statement_timeout = '30s'"])?;
    let mut client = cluster.database("flips")?;
    create(&mut client, "original")?;
    let original = paths(&cluster, &mut client, "original")?;
    let mut copies = Vec::new();
    for number in 0..tables {
        let name = format!("flipped_{number}");
        create(&mut client, &name)?;
        copies.push((paths(&cluster, &mut client, &name)?, name));
    }
    // Only now: the copies may hold no older transaction ids than they know of.
    fill(&mut client)?;
    let truth = Truth::read(&mut client)?;
    drop(client);
    cluster.stop()?;
    let pristine = File::read(&original[0])?;
    let spots = Spots::find(&pristine)?;
    let mut tried = Vec::new();
    for (number, (paths, name)) in copies.into_iter().enumerate() {
        let spot = spots.pick(REGIONS[number % REGIONS.len()], &mut random)?;
        let flip = random.integer(1, 256) as u8;
        let mut file = File::read(&original[0])?;
        file.tuple_mut(spot.at)[TUPLE_BODY_AT + spot.byte] ^= flip;
        file.write(&paths[0])?;
        std::fs::copy(&original[1], &paths[1])?;
        tried.push((name, spot, flip));
    }
    cluster.start()?;
    for region in REGIONS {
        let mut outcome = Ok(());
        for (name, spot, flip) in tried.iter().filter(|(_, spot, _)| spot.region == region) {
            let what =
                |error| format!("{spot:?} ^ {flip:#04x}: {}", crate::errors::describe(error));
            let result = examine(&cluster, name, spot, &truth);
            if let (Err(error), true) = (result, outcome.is_ok()) {
                outcome = Err(what(error.as_ref()).into());
            }
        }
        report.check(&format!("flips/{region:?}"), outcome);
    }
    Ok(())
}

fn create(client: &mut Client, table: &str) -> Result<()> {
    Ok(client.batch_execute(&format!(
        "CREATE TABLE {table} (time timestamptz NOT NULL, host text, n int, f float8, note text, amount numeric, doc jsonb)
             USING varve;
         CREATE INDEX {table}_series ON {table} USING varve (host, time)"
    ))?)
}

/// Long series in chunks of their own, one of them with a delete map that is too long for its header; short series that share
/// a chunk; fresh chunks; rows of the tail.
fn fill(client: &mut Client) -> Result<()> {
    let rows = "'2026-01-01'::timestamptz + i * interval '10 s', {host}, nullif(i % 50, 7), sqrt(i)::float8, md5(i::text),
                (i % 97) / 8.0, jsonb_build_object('i', i % 5, 'even', i % 2 = 0)";
    let insert = |host: &str, count: usize| {
        let rows = rows.replace("{host}", host);
        format!("INSERT INTO original SELECT {rows} FROM generate_series(1, {count}) AS i")
    };
    client.batch_execute(&insert("'long ' || i % 3", 9_000))?;
    client.batch_execute(&insert("'short ' || i / 20", 1_500))?;
    client.batch_execute("CALL varve.compact('original')")?;
    client.batch_execute(&format!(
        "UPDATE original SET n = n + 1 WHERE host = 'long 1' AND hashfloat8(f) % 3 = 0;
         DELETE FROM original WHERE host = 'long 2' AND hashfloat8(f) % 7 = 0;
         {}; INSERT INTO original VALUES ('2026-03-01', 'long 0', 1)",
        insert("'fresh ' || i % 2", 1_200)
    ))?;
    Ok(())
}

/// Table and index.
fn paths(cluster: &Cluster, client: &mut Client, table: &str) -> Result<[std::path::PathBuf; 2]> {
    let query = "SELECT pg_relation_filepath($1::text::regclass), pg_relation_filepath(($1 || '_series')::regclass)";
    let row = client.query_one(query, &[&table])?;
    let path = |at: usize| cluster.data().join(row.get::<_, String>(at));
    Ok([path(0), path(1)])
}

/// The bytes that can be flipped.
struct Spots<'a> {
    file: &'a File,
    headers: Vec<(LinePointer, Header)>,
    /// Pieces of payload: chunk, place, number; and those of sections.
    payload: BTreeMap<(u64, u32), LinePointer>,
    sections: Vec<(u64, LinePointer)>,
}

impl<'a> Spots<'a> {
    fn find(file: &'a File) -> Result<Self> {
        let mut spots = Spots {
            file,
            headers: Vec::new(),
            payload: BTreeMap::new(),
            sections: Vec::new(),
        };
        for at in file.live_tuples() {
            let tuple = file.tuple(at);
            if let Some(header) = tuple.header() {
                spots.headers.push((at, header));
            } else if let Some((chunk, number)) = tuple.piece() {
                if number < 0x4000_0000 {
                    spots.payload.insert((chunk, number), at);
                } else {
                    spots.sections.push((chunk, at));
                }
            }
        }
        if spots.headers.len() < 5 || spots.sections.is_empty() {
            return Err("the table does not have what is to be damaged".into());
        }
        Ok(spots)
    }

    fn pick(&self, region: Region, random: &mut Random) -> Result<Spot> {
        let (at, header) = random.pick(&self.headers);
        let mut byte = |from: usize, to: usize| random.integer(from as i64, to as i64) as usize;
        let spot = |at: LinePointer, byte, chunk, column| Spot {
            region,
            at,
            byte,
            chunk,
            column,
        };
        let length = |at: LinePointer| self.file.tuple(at).bytes() - TUPLE_BODY_AT;
        Ok(match region {
            Region::HeaderHead => spot(*at, byte(0, HEADER_HEAD), header.chunk, None),
            Region::HeaderBody => {
                let end = length(*at).min(BODY_BYTES);
                spot(*at, byte(HEADER_HEAD, end), header.chunk, None)
            }
            Region::PieceHead => {
                let pieces: Vec<_> = self.payload.iter().collect();
                let (&(chunk, _), &at) = pieces[byte(0, pieces.len())];
                spot(at, byte(0, PIECE_HEAD), chunk, None)
            }
            Region::Section => {
                let (chunk, at) = self.sections[byte(0, self.sections.len())];
                spot(at, byte(PIECE_HEAD, length(at)), chunk, None)
            }
            Region::Directory | Region::Block => {
                let columns = self.columns(header)?;
                let wanted = |at: &usize| {
                    let column = &columns.columns()[*at];
                    match region {
                        Region::Directory => !column.directory.is_empty(),
                        _ => !column.blocks.is_empty(),
                    }
                };
                let usable: Vec<usize> = (0..columns.columns().len()).filter(wanted).collect();
                if usable.is_empty() {
                    return self.pick(region, random);
                }
                let column = usable[byte(0, usable.len())];
                let range = match region {
                    Region::Directory => columns.columns()[column].directory.clone(),
                    _ => columns.columns()[column].blocks.clone(),
                };
                let place = byte(range.start as usize, range.end as usize);
                let number = (place / PIECE_BYTES) as u32;
                let piece = self.payload.get(&(header.chunk, number));
                let piece = *piece.ok_or("a piece is not there")?;
                let byte = PIECE_HEAD + place % PIECE_BYTES;
                spot(piece, byte, header.chunk, Some(column))
            }
        })
    }

    /// The column headers of a chunk.
    fn columns(&self, header: &Header) -> Result<ChunkHeader> {
        let Section::Inline(bytes) = &header.statics else {
            return Err("the static section is not in the header".into());
        };
        let statics = Statics::decode(bytes).map_err(|error| error.to_string())?;
        Ok(ChunkHeader::parse(&statics.columns)?)
    }
}

/// What the undamaged table answers.
struct Truth {
    all: String,
    hosts: BTreeMap<String, String>,
    columns: Vec<String>,
    /// Chunks of one series that the index finds by their key, and the host.
    own: BTreeMap<u64, String>,
}

const DIGEST: &str = "count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)";

fn digest_of_column(column: &str, table: &str) -> String {
    format!("SELECT count(*) || ' ' || coalesce(sum(hashtextextended({column}::text, 0)::numeric), 0) FROM {table} AS t")
}

impl Truth {
    fn read(client: &mut Client) -> Result<Truth> {
        let all = format!("SELECT {DIGEST} FROM original AS t");
        let hosts = format!("SELECT host, {DIGEST} FROM original AS t GROUP BY host");
        let own =
            "SELECT chunk, first_key FROM varve.chunks('original') WHERE keyed AND one_series";
        let mut columns = Vec::new();
        for column in COLUMNS {
            let sql = digest_of_column(column, "original");
            columns.push(client.query_one(&sql, &[])?.get(0));
        }
        let pairs = client.query(&hosts, &[])?;
        let own: Vec<(String, String)> = client
            .query(own, &[])?
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .collect();
        Ok(Truth {
            all: client.query_one(&all, &[])?.get(0),
            hosts: pairs.iter().map(|row| (row.get(0), row.get(1))).collect(),
            columns,
            own: own
                .into_iter()
                .map(|(chunk, key)| Ok((u64::from_str_radix(&chunk, 16)?, key)))
                .collect::<Result<_>>()?,
        })
    }
}

/// How a statement on a damaged table ended.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Right,
    Refused,
}

struct Examination<'a> {
    client: Client,
    table: &'a str,
    spot: &'a Spot,
    refusals: usize,
    /// What the server said to the last of them.
    refusal: String,
}

fn examine(cluster: &Cluster, table: &str, spot: &Spot, truth: &Truth) -> Result<()> {
    let mut examination = Examination {
        client: cluster.connect("flips")?,
        table,
        spot,
        refusals: 0,
        refusal: String::new(),
    };
    examination.reads(truth)?;
    let before = examination.hosts(truth)?;
    examination.readable_series(truth, &before)?;
    examination.changes()?;
    examination.inspections()?;
    for rewrite in [
        "CALL varve.compact('{t}')",
        "VACUUM FULL {t}",
        "CLUSTER {t} USING {t}_series",
    ] {
        let is_compact = rewrite.starts_with("CALL");
        if examination.statement(rewrite)? == Outcome::Refused && is_compact {
            let said = &examination.refusal;
            return Err(format!("compact does not leave out what is damaged: {said}").into());
        }
        let after = examination.hosts(truth)?;
        if let Some(host) = before.iter().find(|host| !after.contains(host)) {
            return Err(format!("{host} can no longer be read after {rewrite}").into());
        }
    }
    Ok(())
}

impl Examination<'_> {
    /// Notes an error, which must be one that is allowed.
    fn refused(&mut self, error: &postgres::Error, what: &str) -> Result<Outcome> {
        let describe = || format!("{what}: {}", crate::errors::describe(error));
        let Some(server) = error.as_db_error() else {
            return Err(describe().into());
        };
        if !["XX001", "0A000"].contains(&server.code().code()) {
            return Err(describe().into());
        }
        let chunk = format!("{:016x}", self.spot.chunk);
        if matches!(
            self.spot.region,
            Region::Block | Region::Directory | Region::Section
        ) && !server.message().contains(&chunk)
        {
            return Err(format!("{} does not name chunk {chunk}", describe()).into());
        }
        if let Some(column) = self.spot.column {
            let name = format!("column \"{}\"", COLUMNS[column]);
            if !server.message().contains(&name) {
                return Err(format!("{} does not name {name}", describe()).into());
            }
        }
        self.refusals += 1;
        self.refusal = describe();
        Ok(Outcome::Refused)
    }

    fn statement(&mut self, sql: &str) -> Result<Outcome> {
        let sql = sql.replace("{t}", self.table);
        match self.client.batch_execute(&sql) {
            Ok(()) => Ok(Outcome::Right),
            Err(error) => self.refused(&error, &sql),
        }
    }

    /// A query whose one value must be `expected`.
    fn answer(&mut self, sql: &str, expected: &str) -> Result<Outcome> {
        let sql = sql.replace("{t}", self.table);
        match self.client.query_one(&sql, &[]) {
            Ok(row) if row.get::<_, &str>(0) == expected => Ok(Outcome::Right),
            Ok(row) => Err(format!(
                "{sql} answers {} instead of {expected}",
                row.get::<_, &str>(0)
            )
            .into()),
            Err(error) => self.refused(&error, &sql),
        }
    }

    fn reads(&mut self, truth: &Truth) -> Result<()> {
        self.answer(&format!("SELECT {DIGEST} FROM {{t}} AS t"), &truth.all)?;
        let count = truth.all.split(' ').next().unwrap_or_default();
        self.answer("SELECT count(*)::text FROM {t}", count)?;
        for (at, column) in COLUMNS.iter().enumerate() {
            let hit = self.answer(&digest_of_column(column, "{t}"), &truth.columns[at])?;
            let other = self.spot.column.is_some_and(|damaged| damaged != at);
            if other && hit == Outcome::Refused {
                return Err(format!("column {column} cannot be read").into());
            }
        }
        self.statement("COPY {t} TO '/dev/null'")?;
        Ok(())
    }

    /// The hosts that can be read through the series index.
    fn hosts(&mut self, truth: &Truth) -> Result<Vec<String>> {
        self.client.batch_execute("SET enable_seqscan = off")?;
        let mut readable = Vec::new();
        for (host, expected) in &truth.hosts {
            let sql = format!("SELECT {DIGEST} FROM {{t}} AS t WHERE host = '{host}'");
            if self.answer(&sql, expected)? == Outcome::Right {
                readable.push(host.clone());
            }
        }
        self.client.batch_execute("RESET enable_seqscan")?;
        Ok(readable)
    }

    /// Damage of a chunk that has a series to itself must not touch other series.
    fn readable_series(&self, truth: &Truth, readable: &[String]) -> Result<()> {
        let Some(owner) = truth.own.get(&self.spot.chunk) else {
            return Ok(());
        };
        match truth
            .hosts
            .keys()
            .find(|host| *host != owner && !readable.contains(host))
        {
            Some(host) => Err(format!("{host} cannot be read, only {owner} is damaged").into()),
            None => Ok(()),
        }
    }

    fn changes(&mut self) -> Result<()> {
        for change in [
            "DELETE FROM {t}",
            "DELETE FROM {t} WHERE n % 10 = 1",
            "UPDATE {t} SET n = n + 1",
            "UPDATE {t} SET f = 0 WHERE host = 'long 1'",
            "DELETE FROM {t} WHERE host LIKE 'short 3%'",
            "SELECT * FROM {t} WHERE host = 'long 2' FOR UPDATE",
        ] {
            self.client.batch_execute("BEGIN")?;
            self.statement(change)?;
            self.client.batch_execute("ROLLBACK")?;
        }
        Ok(())
    }

    fn inspections(&mut self) -> Result<()> {
        for statement in [
            "ANALYZE {t}",
            "VACUUM {t}",
            "SELECT * FROM varve.chunks('{t}')",
            "SELECT * FROM varve.stats('{t}')",
            "SELECT * FROM {t} TABLESAMPLE SYSTEM (50)",
            "CREATE INDEX again ON {t} USING varve (host, time); DROP INDEX again",
        ] {
            self.statement(statement)?;
        }
        let verify = format!("SELECT count(*) FROM varve.verify('{}')", self.table);
        let found: i64 = self.client.query_one(&verify, &[])?.get(0);
        if found == 0 && self.refusals > 0 {
            return Err("varve.verify finds nothing wrong".into());
        }
        if found == 0 && matches!(self.spot.region, Region::Block | Region::Section) {
            return Err("varve.verify does not notice".into());
        }
        Ok(())
    }
}
