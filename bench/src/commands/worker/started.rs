//! How workers come and go.

use super::{await_true, await_worker};
use crate::measure::total_size;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

const TABLE: &str =
    "CREATE TABLE t(time timestamptz NOT NULL, host text NOT NULL, value float8, PRIMARY KEY (host, time)) USING varve;
     CREATE TABLE twin(time timestamptz, host text, value float8)";
/// Old enough for any rule.
const OLD: &str = "INSERT INTO t SELECT '2001-01-01'::timestamptz + g * interval '1 s', 'old', g FROM generate_series(1, 3000) g";
const COMPRESSED: &str =
    "SELECT (SELECT rows < 500 FROM varve.stats('t') WHERE part = 'tail')
     AND NOT EXISTS (SELECT FROM varve.jobs WHERE due) AND EXISTS (SELECT FROM varve.jobs WHERE runs > 0)";
/// And no run is in between.
const SEALED: &str =
    "SELECT (SELECT rows < 500 FROM varve.stats('t') WHERE part = 'tail') AND NOT EXISTS (SELECT FROM varve.progress)";
/// What keeps dead rows, and what keeps empty pages and indexes.
const HELD: [(&str, &str); 2] = [
    (
        "a snapshot",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t",
    ),
    ("a lock", "BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE"),
];
const UNNAMED: &str =
    "SELECT NOT EXISTS (SELECT FROM pg_stat_activity
                        WHERE backend_type = 'varve worker' AND datname = current_database() AND application_name <> '')";

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let settings = [
        "varve.worker = on",
        "varve.seal_after = '1 s'",
        "synchronous_commit = off",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    report.check("worker/small inserts get compressed", compressed(&cluster));
    report.check("worker/an analysed table is compressed", analysed(&cluster));
    for (number, (what, statements)) in HELD.into_iter().enumerate() {
        report.check(
            &format!("worker/space that {what} has held comes back"),
            given_back(&cluster, &format!("held_{number}"), statements),
        );
    }
    report.check("worker/off for a database", off(&cluster));
    report.check("worker/an error concerns no other job", failing(&cluster));
    report.check("worker/limits meant for clients", limited(&cluster));
    report.check(
        "worker/a database can be dropped and copied",
        dropped(&cluster),
    );
    report.check("worker/sigterm", terminated(&cluster));
    drop(cluster);
    let preloaded = ["varve.worker = on", "shared_preload_libraries = 'varve'"];
    let mut cluster = Cluster::create(tree, &preloaded)?;
    report.check(
        "worker/retention where nobody writes",
        preloaded_retention(&mut cluster),
    );
    drop(cluster);
    let kinds = [
        ("", "shared_preload_libraries = ''"),
        (", preloaded", "shared_preload_libraries = 'varve'"),
    ];
    for (kind, preload) in kinds {
        let settings = [
            "varve.worker = on",
            "varve.max_workers = 1",
            "varve.seal_rows = 1000",
            "varve.seal_after = '1 s'",
            "synchronous_commit = off",
            preload,
        ];
        let cluster = Cluster::create(tree, &settings)?;
        report.check(
            &format!("worker/databases take turns{kind}"),
            turns(&cluster),
        );
    }
    Ok(())
}

/// Transactions of a row, and statements of some.
fn small_inserts(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "DO $$ BEGIN FOR i IN 1..12000 LOOP
             INSERT INTO t VALUES ('2026-01-01'::timestamptz + i * interval '1 s', 'h' || i % 20, i / 10.0); COMMIT;
         END LOOP; END $$",
    )?;
    for i in 0..200 {
        client.batch_execute(&format!(
            "INSERT INTO t SELECT '2026-02-01'::timestamptz + ({i} * 40 + g) * interval '1 s', 'h' || g % 20, g FROM generate_series(1, 40) g"
        ))?;
    }
    Ok(())
}

fn compressed(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.database("small")?;
    client.batch_execute(TABLE)?;
    small_inserts(&mut client)?;
    client.batch_execute("INSERT INTO twin TABLE t")?;
    await_true(&mut client, "compressed", COMPRESSED)?;
    await_true(&mut client, "an idle worker names no job", UNNAMED)?;
    crate::heap_pair::expect_equal(&mut client, "t", "twin")?;
    crate::heap_pair::expect_verified(&mut client, "t")?;
    let failures: i64 = client
        .query_one("SELECT sum(failures)::bigint FROM varve.jobs", &[])?
        .get(0);
    if failures > 0 {
        return Err("a job has failed".into());
    }
    Ok(())
}

/// Space cannot be given back while somebody is at the table. When nothing is due any more after that one has gone, what small inserts leave is
/// about as large as what one large INSERT leaves. Nobody writes meanwhile.
fn given_back(cluster: &Cluster, database: &str, hold: &str) -> Result<()> {
    let mut client = cluster.database(database)?;
    client.batch_execute(TABLE)?;
    let mut holder = cluster.connect(database)?;
    holder.batch_execute(hold)?;
    small_inserts(&mut client)?;
    client.batch_execute("ANALYZE t")?;
    await_true(&mut client, "sealed", SEALED)?;
    // In the catalog each index has as many entries as the table has rows then.
    client.batch_execute("ANALYZE t")?;
    let runs: i64 = client.query_one("SELECT runs FROM varve.jobs", &[])?.get(0);
    // What the next run moves down the file leaves a few tuples behind at its end.
    holder.batch_execute("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
    let another = format!("SELECT runs > {runs} OR NOT due FROM varve.jobs");
    await_true(&mut client, "another run", &another)?;
    holder.batch_execute("COMMIT")?;
    await_true(&mut client, "nothing is due", COMPRESSED)?;
    client.batch_execute(
        "CREATE TABLE bulk (LIKE t INCLUDING ALL) USING varve; INSERT INTO bulk TABLE t",
    )?;
    crate::heap_pair::compact(&mut client, "bulk")?;
    let sizes = [
        total_size(&mut client, "t")?,
        total_size(&mut client, "bulk")?,
    ];
    match sizes[0] as f64 <= 1.3 * sizes[1] as f64 {
        true => Ok(()),
        false => Err(format!("{} bytes, those of a bulk load are {}", sizes[0], sizes[1]).into()),
    }
}

/// A session that loads and goes leaves it to ANALYZE to start the worker.
fn analysed(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.database("visited")?;
    client.batch_execute(TABLE)?;
    small_inserts(&mut client)?;
    drop(client);
    let mut client = cluster.connect("visited")?;
    client.batch_execute("ANALYZE t")?;
    await_true(&mut client, "compressed", COMPRESSED)
}

fn off(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.database("off")?;
    client.batch_execute(TABLE)?;
    client.batch_execute("ALTER DATABASE off SET varve.worker = off")?;
    drop(client);
    let mut client = cluster.connect("off")?;
    small_inserts(&mut client)?;
    client.batch_execute("ANALYZE t; SELECT pg_sleep(2)")?;
    let row = client.query_one(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'varve worker' AND datname = 'off'",
        &[],
    )?;
    match row.get::<_, i64>(0) {
        0 => Ok(()),
        _ => Err("there is a worker all the same".into()),
    }
}

/// A rule that cannot be kept is recorded and tried again; the table is compacted and another one's rule kept.
fn failing(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.database("failing")?;
    client.batch_execute(TABLE)?;
    client.batch_execute(
        "CREATE TABLE bad(time timestamptz NOT NULL, host text NOT NULL) USING varve;
         INSERT INTO bad VALUES ('2001-01-01', 'a');
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
         CREATE TRIGGER refuse BEFORE DELETE ON bad FOR EACH ROW EXECUTE FUNCTION refuse();
         SELECT varve.set_retention('bad', '1 year')",
    )?;
    client.batch_execute(OLD)?;
    client.batch_execute("SELECT varve.set_retention('t', '1 year'); ANALYZE t")?;
    await_true(
        &mut client,
        "failed twice, recorded",
        "SELECT bool_or(failures > 1 AND last_sqlstate = 'P0001' AND last_error = 'not this one') FROM varve.jobs",
    )?;
    await_true(&mut client, "expired", "SELECT count(*) = 0 FROM t")?;
    let row = client.query_one("SELECT count(*) FROM bad", &[])?;
    match row.get::<_, i64>(0) {
        1 => Ok(()),
        _ => Err("a row is gone that its trigger keeps".into()),
    }
}

/// A database whose clients are to read, and not for long: rows with a trigger expire all the same, one by one.
fn limited(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.database("limited")?;
    client.batch_execute(
        "ALTER DATABASE limited SET default_transaction_read_only = on;
         DO $$ BEGIN IF current_setting('server_version_num')::int >= 170000 THEN
             ALTER DATABASE limited SET transaction_timeout = '5ms';
         END IF; END $$",
    )?;
    client.batch_execute(TABLE)?;
    client.batch_execute(
        "CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN old; END $$;
         CREATE TRIGGER pass BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION pass()",
    )?;
    client.batch_execute(OLD)?;
    client.batch_execute("SELECT varve.set_retention('t', '1 year'); ANALYZE t")?;
    await_true(&mut client, "expired", "SELECT count(*) = 0 FROM t")?;
    let jobs = client.query_one(
        "SELECT coalesce(string_agg(last_error, '; '), '') FROM varve.jobs",
        &[],
    )?;
    match jobs.get::<_, &str>(0) {
        "" => Ok(()),
        error => Err(format!("a job has failed: {error}").into()),
    }
}

fn dropped(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.database("brief")?;
    client.batch_execute(TABLE)?;
    small_inserts(&mut client)?;
    await_worker(&mut client)?;
    drop(client);
    let mut admin = cluster.connect("postgres")?;
    admin.batch_execute("CREATE DATABASE copy TEMPLATE brief")?;
    let mut client = cluster.connect("brief")?;
    client.batch_execute("ANALYZE t")?;
    await_worker(&mut client)?;
    drop(client);
    admin.batch_execute("DROP DATABASE brief")?;
    Ok(admin.batch_execute("DROP DATABASE copy")?)
}

/// It goes when it is told to, and comes again.
fn terminated(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.database("told")?;
    client.batch_execute(TABLE)?;
    small_inserts(&mut client)?;
    let worker = await_worker(&mut client)?;
    client.execute("SELECT pg_terminate_backend($1)", &[&worker])?;
    await_true(
        &mut client,
        "gone",
        &format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {worker}"),
    )?;
    drop(client);
    let mut client = cluster.connect("told")?;
    client.batch_execute("ANALYZE t")?;
    await_true(&mut client, "compressed", COMPRESSED)
}

fn preloaded_retention(cluster: &mut Cluster) -> Result<()> {
    let mut client = cluster.database("quiet")?;
    client.batch_execute(TABLE)?;
    client.batch_execute(OLD)?;
    client.batch_execute("SELECT varve.set_retention('t', '1 year')")?;
    drop(client);
    cluster.stop()?;
    cluster.start()?;
    let mut client = cluster.connect("quiet")?;
    await_true(&mut client, "expired", "SELECT count(*) = 0 FROM t")?;
    drop(client);
    let mut admin = cluster.connect("postgres")?;
    admin.batch_execute("DROP DATABASE quiet")?;
    Ok(())
}

/// More databases than workers: what one that is always busy and many idle ones leave to the last one's table.
fn turns(cluster: &Cluster) -> Result<()> {
    for number in 0..6 {
        cluster.database(&format!("idle_{number}"))?;
    }
    let mut busy = cluster.database("busy")?;
    busy.batch_execute(TABLE)?;
    let mut last = cluster.database("last")?;
    last.batch_execute(TABLE)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> std::result::Result<(), postgres::Error> {
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                busy.batch_execute(&format!(
                    "INSERT INTO t SELECT '2026-01-01'::timestamptz + ({number} * 400 + g) * interval '1 s', 'h' || g % 20, g
                     FROM generate_series(1, 400) g"
                ))?;
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        });
        let outcome = await_worker(&mut cluster.connect("busy")?)
            .and_then(|_| small_inserts(&mut last))
            .and_then(|()| await_true(&mut last, "compressed", COMPRESSED));
        is_over.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer has panicked")??;
        outcome
    })?;
    let mut busy = cluster.connect("busy")?;
    busy.batch_execute("ANALYZE t")?;
    await_true(&mut busy, "compressed", COMPRESSED)
}
