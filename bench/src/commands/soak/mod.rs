//! What Telegraf and its like send, for minutes or days: batches of 1 to 1,000 rows of 200 series, some rows late, columns that come on
//! the way, corrections, retention of a sliding window, and readers all the time. Nobody calls anything: the background worker does
//! the rest. A heap twin gets the same statements, and at any moment the two must be equal within the window.

mod page;
mod reader;
mod writer;

use crate::errors::describe;
use crate::heap_pair;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use page::Sample;
use postgres::{Client, NoTls};
use reader::Queried;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use writer::Written;

const TABLE: &str = "soak";
const TWIN: &str = "soak_heap";
const SERIES: i64 = 200;
const WRITERS: i64 = 2;
const READERS: u64 = 2;
const FIRST_COLUMNS: usize = 2;
/// They come one by one in the first quarter of the time.
const MOST_COLUMNS: usize = 6;
/// The window is this part of the time.
const WINDOWS: u32 = 4;
const SAMPLE: Duration = Duration::from_secs(10);
const MOST_FILE_GROWTH: f64 = 1.5;
const MOST_MEMORY_GROWTH_BYTES: i64 = 64 << 20;
/// The worker rests between compactions of a table until four times varve.seal_rows wait; as many come while it looks and compacts.
const MOST_TAIL_ROWS: i64 = 8 * 16_384;

/// What the threads share.
struct Shared {
    conninfo: String,
    stop: AtomicBool,
    /// Columns of values that both tables have.
    columns: AtomicUsize,
    /// Whoever changes both tables shares it; who wants to see neither or both of such changes has it alone.
    pairs: RwLock<()>,
    keep: Duration,
}

type Ended<T> = std::result::Result<T, String>;

/// Seconds of each kind of statement: on the table, and on its twin.
type Seconds<const KINDS: usize> = [[Vec<f64>; 2]; KINDS];

/// Adds what another thread has measured.
fn add_seconds<const KINDS: usize>(to: &mut Seconds<KINDS>, from: Seconds<KINDS>) {
    let from = from.into_iter().flatten();
    for (mine, its) in to.iter_mut().flatten().zip(from) {
        mine.extend(its);
    }
}

/// What the threads have measured.
struct Measured {
    samples: Vec<Sample>,
    written: Written,
    queried: Queried,
    compared: u64,
}

pub fn run(tree: &Arc<Tree>, report: &mut Report, minutes: u64, page: &str) -> Result<()> {
    let settings = [
        "varve.worker = on",
        "autovacuum_naptime = '10s'",
        "synchronous_commit = off",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("soak")?;
    let time = Duration::from_secs(60 * minutes);
    let shared = Shared {
        conninfo: cluster.conninfo("soak"),
        stop: AtomicBool::new(false),
        columns: AtomicUsize::new(FIRST_COLUMNS),
        pairs: RwLock::new(()),
        keep: time / WINDOWS,
    };
    create(&mut client, shared.keep)?;
    let measured = work(&shared, report, &mut client, time)?;
    judge(report, &measured);
    await_worker(&mut client)?;
    report.check("soak/window is exact", expire(&mut client, &shared));
    let equal = compare(&mut client, &shared);
    report.check("soak/equal to a heap in the end", equal);
    let verified = heap_pair::expect_verified(&mut client, TABLE);
    report.check("soak/verified in the end", verified);
    let text = page::text(
        &measured,
        &page::sizes(&mut client)?,
        minutes,
        report.failures(),
    )?;
    std::fs::write(page, text)?;
    println!("written: {page}");
    Ok(())
}

fn create(client: &mut Client, keep: Duration) -> Result<()> {
    let columns: Vec<_> = (0..FIRST_COLUMNS).map(|n| format!("v{n} float8")).collect();
    let columns = format!(
        "(time timestamptz NOT NULL, host text NOT NULL, {})",
        columns.join(", ")
    );
    Ok(client.batch_execute(&format!(
        "CREATE TABLE {TABLE} {columns} USING varve; CREATE INDEX ON {TABLE} USING varve (host, time);
         CREATE TABLE {TWIN} {columns} USING heap; CREATE INDEX ON {TWIN} USING btree (host, time);
         CREATE INDEX ON {TWIN} USING btree (time);
         SELECT varve.set_retention('{TABLE}', '{} seconds')",
        keep.as_secs()
    ))?)
}

/// Lets all threads work for a while.
fn work(
    shared: &Shared,
    report: &mut Report,
    client: &mut Client,
    time: Duration,
) -> Result<Measured> {
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| scope.spawn(move || writer::write(shared, n)))
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|n| scope.spawn(move || reader::read(shared, n)))
            .collect();
        let columns = scope.spawn(|| add_columns(shared, time / WINDOWS));
        let twin = scope.spawn(|| expire_twin(shared));
        let comparer = scope.spawn(|| compare_until(shared));
        let ended = || {
            writers.iter().any(|w| w.is_finished())
                || readers.iter().any(|r| r.is_finished())
                || twin.is_finished()
                || comparer.is_finished()
        };
        let samples = watch(client, time, ended);
        shared.stop.store(true, Ordering::Relaxed);
        let mut measured = Measured {
            samples: samples?,
            written: Written::default(),
            queried: Queried::default(),
            compared: 0,
        };
        for writer in writers {
            let end = joined(writer).map(|written| measured.written.absorb(written));
            report.check("soak/a writer met no error", end);
        }
        for reader in readers {
            let end = joined(reader).map(|queried| measured.queried.absorb(queried));
            report.check("soak/a reader met no error", end);
        }
        report.check("soak/columns came on the way", joined(columns));
        report.check("soak/the twin was kept", joined(twin));
        let compared = joined(comparer).map(|compared| measured.compared = compared);
        report.check("soak/equal to a heap at any time", compared);
        Ok(measured)
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Ended<T>>) -> Result<T> {
    let end = thread
        .join()
        .unwrap_or_else(|_| Err("a thread panicked".into()));
    end.map_err(Into::into)
}

/// Repeats `step` until all threads stop.
fn repeat(
    shared: &Shared,
    every: Duration,
    mut step: impl FnMut(&mut Client) -> Result<()>,
) -> Ended<()> {
    let mut client = Client::connect(&shared.conninfo, NoTls).map_err(|e| e.to_string())?;
    while !shared.stop.load(Ordering::Relaxed) {
        step(&mut client).map_err(|e| describe(e.as_ref()))?;
        let due = Instant::now() + every;
        while Instant::now() < due && !shared.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10).min(every));
        }
    }
    Ok(())
}

/// Microseconds since 1970.
fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_micros() as i64)
}

/// A time as SQL.
fn timestamp(us: i64) -> String {
    let second = crate::generate::timestamp(us.div_euclid(1_000_000));
    let second = second.trim_end_matches('Z');
    format!("{second}.{:06}Z", us.rem_euclid(1_000_000))
}

fn add_columns(shared: &Shared, time: Duration) -> Ended<()> {
    let mut client = Client::connect(&shared.conninfo, NoTls).map_err(|e| e.to_string())?;
    let start = Instant::now();
    for number in FIRST_COLUMNS..MOST_COLUMNS {
        let due =
            time * (number - FIRST_COLUMNS + 1) as u32 / (MOST_COLUMNS - FIRST_COLUMNS) as u32;
        while start.elapsed() < due {
            if shared.stop.load(Ordering::Relaxed) {
                return Err(format!("there was time for {number} columns only"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        // The order of the tables is that of every other statement that has both.
        let statement = format!(
            "ALTER TABLE {TABLE} ADD COLUMN v{number} float8; ALTER TABLE {TWIN} ADD COLUMN v{number} float8"
        );
        client.batch_execute(&statement).map_err(|e| describe(&e))?;
        shared.columns.store(number + 1, Ordering::Relaxed);
    }
    Ok(())
}

/// What retention does to the table, a DELETE does to its twin.
fn expire_twin(shared: &Shared) -> Ended<()> {
    let statement = format!(
        "DELETE FROM {TWIN} WHERE time < now() - interval '{} seconds'",
        shared.keep.as_secs()
    );
    repeat(shared, shared.keep / 10, |client| {
        Ok(client.batch_execute(&statement)?)
    })
}

fn compare_until(shared: &Shared) -> Ended<u64> {
    let mut compared = 0;
    repeat(shared, SAMPLE, |client| {
        compare(client, shared)?;
        compared += 1;
        Ok(())
    })?;
    Ok(compared)
}

/// Number and contents of the rows that retention cannot have taken, in one snapshot.
fn compare(client: &mut Client, shared: &Shared) -> Result<()> {
    let alone = shared.pairs.write().map_err(|_| "a thread panicked")?;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
    let edge = timestamp(now_us() - shared.keep.as_micros() as i64);
    drop(alone);
    let digest = |table: &str| {
        format!(
            "(SELECT count(*) || ' rows, ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)
              FROM {table} t WHERE time >= '{edge}')"
        )
    };
    let row = client.query_one(&format!("SELECT {}, {}", digest(TABLE), digest(TWIN)), &[])?;
    client.batch_execute("COMMIT")?;
    let [table, twin]: [String; 2] = [row.get(0), row.get(1)];
    if table != twin {
        return Err(format!("{table} in the table, {twin} in its twin").into());
    }
    Ok(())
}

/// A sample now and then.
fn watch(client: &mut Client, time: Duration, ended: impl Fn() -> bool) -> Result<Vec<Sample>> {
    let (start, mut samples) = (Instant::now(), Vec::new());
    while start.elapsed() < time && !ended() {
        thread::sleep(SAMPLE);
        samples.push(Sample::take(client, start.elapsed())?);
    }
    Ok(samples)
}

fn judge(report: &mut Report, measured: &Measured) {
    let samples = &measured.samples;
    let file = bounded(
        samples,
        |s| s.bytes as f64,
        |first| first * MOST_FILE_GROWTH,
    );
    report.check("soak/file stays bounded", file);
    let memory = bounded(
        samples,
        |s| s.memory_bytes as f64,
        |first| first + MOST_MEMORY_GROWTH_BYTES as f64,
    );
    report.check("soak/memory stays bounded", memory);
    let tail = samples.iter().map(|s| s.tail_rows).max().unwrap_or(0);
    let short = match tail <= MOST_TAIL_ROWS {
        true => Ok(()),
        false => Err(format!("{tail} rows").into()),
    };
    report.check("soak/tail stays short", short);
}

/// The most in the second half of the time, against the most in the first, when the columns and the window have come.
fn bounded(
    samples: &[Sample],
    value: impl Fn(&Sample) -> f64,
    limit: impl Fn(f64) -> f64,
) -> Result<()> {
    let (warm, rest) = samples.split_at(samples.len().div_ceil(2));
    let most = |samples: &[Sample]| samples.iter().map(&value).fold(0.0, f64::max);
    if most(rest) > limit(most(warm)) {
        return Err(format!(
            "{:.0} bytes in the first half, {:.0} later",
            most(warm),
            most(rest)
        )
        .into());
    }
    Ok(())
}

/// Until nothing is due.
fn await_worker(client: &mut Client) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(120);
    client.batch_execute(&format!("ANALYZE {TABLE}"))?;
    while Instant::now() < deadline {
        let row = client.query_one(
            "SELECT EXISTS (SELECT FROM varve.jobs WHERE due AND kind = 'compact')",
            &[],
        )?;
        if !row.get::<_, bool>(0) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
    Err("the worker is not through in time".into())
}

/// Retention takes all that is older, and nothing else: the rest is compared.
fn expire(client: &mut Client, shared: &Shared) -> Result<()> {
    let edge = timestamp(now_us() - shared.keep.as_micros() as i64);
    client.batch_execute(&format!("CALL varve.expire('{TABLE}')"))?;
    let query = format!("SELECT count(*) FROM {TABLE} WHERE time < '{edge}'");
    match client.query_one(&query, &[])?.get::<_, i64>(0) {
        0 => Ok(()),
        rows => Err(format!("{rows} rows are older than the window").into()),
    }
}
