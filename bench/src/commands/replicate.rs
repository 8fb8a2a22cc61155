//! A streaming standby, a base backup and a dump hold what their source holds.

use crate::heap_pair::{self, HEAP, VARVE};
use crate::random::Random;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::waiting::await_true;
use crate::workload::Workload;
use crate::Result;
use postgres::Client;
use std::process::Stdio;
use std::sync::Arc;

const CYCLES: usize = 10;

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let cluster = Cluster::create(tree, &[])?;
    let mut client = cluster.database("replicate")?;
    heap_pair::create(&mut client)?;
    client.batch_execute(&keyed_tables(&heap_pair::access_method()))?;
    let mut workload = Workload::new(Random::fresh_seed(), 0, 20);
    report.check(
        "standby/equals its primary over ten cycles",
        standby(&cluster, &mut client, &mut workload),
    );
    report.check(
        "standby/keeps what its snapshots see, and writes once promoted",
        feedback_and_promotion(&cluster, &mut client, &mut workload),
    );
    report.check(
        "pg_basebackup/holds what the source holds",
        base_backup(&cluster, &mut client),
    );
    report.check(
        "pg_dump/restores equal tables with their access method",
        dump_and_restore(&cluster, &mut client, &[]),
    );
    let inserts = ["--inserts", "--rows-per-insert=100"];
    report.check(
        "pg_dump/restores from INSERT statements",
        dump_and_restore(&cluster, &mut client, &inserts),
    );
    Ok(())
}

fn standby(primary: &Cluster, client: &mut Client, workload: &mut Workload) -> Result<()> {
    let mut standby = primary.base_backup(true)?;
    standby.start()?;
    let mut reader = standby.connect("replicate")?;
    for cycle in 0..CYCLES {
        transaction(client, workload)?;
        if cycle % 3 == 2 {
            heap_pair::compact(client, VARVE)?;
        }
        if cycle == CYCLES / 2 {
            standby.kill()?;
            standby.start()?;
            reader = standby.connect("replicate")?;
        }
        wait_for_replay(client, &mut reader)?;
        for table in [HEAP, VARVE] {
            expect_same(
                &format!("{table} in cycle {cycle}"),
                heap_pair::digest(client, table)?,
                heap_pair::digest(&mut reader, table)?,
            )?;
        }
        heap_pair::expect_verified(&mut reader, VARVE)?;
    }
    heap_pair::expect_equal(&mut reader, HEAP, VARVE)
}

/// With hot_standby_feedback an old snapshot on the standby sees its rows whatever the primary deletes, compacts and vacuums, as long
/// as that cuts off and rebuilds no file: locks for it end queries of a standby, on a heap too. Promoted, the standby is a server like any other.
fn feedback_and_promotion(
    primary: &Cluster,
    client: &mut Client,
    workload: &mut Workload,
) -> Result<()> {
    client.batch_execute(&format!(
        "ALTER TABLE {VARVE} SET (vacuum_truncate = false)"
    ))?;
    let mut standby = primary.base_backup(true)?;
    standby.configure(&[
        "hot_standby_feedback = on",
        "wal_receiver_status_interval = '1s'",
        "log_recovery_conflict_waits = on",
    ])?;
    standby.start()?;
    old_snapshot(&standby, client, workload)
        .map_err(|error| format!("{error}\n{}", standby.log_end().unwrap_or_default()).into())
}

fn old_snapshot(standby: &Cluster, client: &mut Client, workload: &mut Workload) -> Result<()> {
    let (mut reader, mut other) = (standby.connect("replicate")?, standby.connect("replicate")?);
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let before = heap_pair::digest(&mut reader, VARVE)?;
    wait_for_feedback(client)?;
    for _ in 0..3 {
        transaction(client, workload)?;
        heap_pair::both(
            client,
            "DELETE FROM {t} WHERE seq % 7 = 3; UPDATE {t} SET seq = seq + 1 WHERE seq % 9 = 4",
        )?;
        heap_pair::compact(client, VARVE)?;
        client.batch_execute(&format!("VACUUM {VARVE}"))?;
    }
    wait_for_replay(client, &mut other)?;
    expect_same(
        "the old snapshot",
        before,
        heap_pair::digest(&mut reader, VARVE)?,
    )?;
    reader.batch_execute("COMMIT")?;
    expect_same(
        "a new snapshot",
        heap_pair::digest(client, VARVE)?,
        heap_pair::digest(&mut reader, VARVE)?,
    )?;
    if !other
        .query_one("SELECT pg_promote()", &[])?
        .get::<_, bool>(0)
    {
        return Err("the standby was not promoted".into());
    }
    for _ in 0..3 {
        transaction(&mut other, workload)?;
        heap_pair::compact(&mut other, VARVE)?;
        heap_pair::expect_equal(&mut other, HEAP, VARVE)?;
    }
    heap_pair::expect_verified(&mut other, VARVE)
}

/// Until the primary knows which rows the standby still sees.
fn wait_for_feedback(primary: &mut Client) -> Result<()> {
    let known = "SELECT count(*) > 0 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL";
    await_true(primary, "feedback of the standby", known)
}

fn transaction(client: &mut Client, workload: &mut Workload) -> Result<()> {
    client.batch_execute("BEGIN")?;
    workload.changes(client)?;
    Ok(client.batch_execute("COMMIT")?)
}

fn wait_for_replay(primary: &mut Client, standby: &mut Client) -> Result<()> {
    let written: String = primary
        .query_one("SELECT pg_current_wal_lsn()::text", &[])?
        .get(0);
    let reached = format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{written}', false)");
    await_true(standby, &format!("replay of {written}"), &reached)
}

fn base_backup(source: &Cluster, client: &mut Client) -> Result<()> {
    let mut copy = source.base_backup(false)?;
    copy.start()?;
    let mut reader = copy.connect("replicate")?;
    expect_same(
        VARVE,
        heap_pair::digest(client, VARVE)?,
        heap_pair::digest(&mut reader, VARVE)?,
    )?;
    heap_pair::expect_verified(&mut reader, VARVE)
}

fn dump_and_restore(cluster: &Cluster, client: &mut Client, options: &[&str]) -> Result<()> {
    client.batch_execute("DROP DATABASE IF EXISTS restored")?;
    client.batch_execute("CREATE DATABASE restored")?;
    let at = |program: &str, database: &str| {
        let mut command = cluster.tree.program(program);
        command
            .args(["--username=postgres", "-d", database])
            .arg("-h")
            .arg(cluster.host());
        command
    };
    let mut dump = at("pg_dump", "replicate")
        .args(options)
        .stdout(Stdio::piped())
        .spawn()?;
    let text = dump.stdout.take().ok_or("pg_dump has no output")?;
    server::run(
        at("psql", "restored")
            .args(["-qX", "-v", "ON_ERROR_STOP=1"])
            .stdin(text)
            .stdout(Stdio::null()),
    )?;
    if !dump.wait()?.success() {
        return Err("pg_dump failed".into());
    }
    let mut reader = cluster.connect("restored")?;
    // pg_dump --inserts writes the float -0 as a number that reads back as 0, from a heap too: only the twins are equal then.
    if options.is_empty() {
        expect_same(
            VARVE,
            heap_pair::digest(client, VARVE)?,
            heap_pair::digest(&mut reader, VARVE)?,
        )?;
    }
    heap_pair::expect_equal(&mut reader, HEAP, VARVE)?;
    expect_same(
        "constraints",
        constraints(client)?,
        constraints(&mut reader)?,
    )?;
    expect_same("indexes", indexes(client)?, indexes(&mut reader)?)?;
    let method = "SELECT amname::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = $1::text::regclass";
    expect_same(
        "access method",
        heap_pair::access_method(),
        reader.query_one(method, &[&VARVE])?.get(0),
    )?;
    heap_pair::expect_verified(&mut reader, VARVE)
}

/// Tables with keys. A dump has them without any, then their rows, and then keys before other indexes and foreign keys.
fn keyed_tables(method: &str) -> String {
    let rows = "'2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 3000) g";
    format!(
        "CREATE TABLE by_series(device int, time timestamptz, value int, PRIMARY KEY (device, time)) USING {method};
         CREATE INDEX ON by_series USING {method} (device, time);
         INSERT INTO by_series SELECT g % 5, {rows};
         CREATE TABLE by_key(device int, time timestamptz, value int, PRIMARY KEY (device, time)) USING {method};
         INSERT INTO by_key SELECT g % 5, {rows};
         CREATE TABLE by_index(device int, time timestamptz, value int) USING {method};
         INSERT INTO by_index SELECT g % 5, {rows};
         CREATE UNIQUE INDEX ON by_index(time, device);
         CREATE TABLE by_btree(device int, time timestamptz, value int) USING {method};
         CREATE INDEX ON by_btree (device, time DESC);
         CREATE INDEX ON by_btree (value);
         INSERT INTO by_btree SELECT g % 5, {rows};
         CREATE TABLE by_late_btree(device int, time timestamptz, value int) USING {method};
         CREATE INDEX zz ON by_late_btree (device, time DESC);
         ALTER INDEX IF EXISTS zz_series RENAME TO aa;
         INSERT INTO by_late_btree SELECT g % 5, {rows};
         CREATE TABLE by_id(id int PRIMARY KEY, time timestamptz, value int UNIQUE) USING {method};
         INSERT INTO by_id SELECT g, {rows};
         CREATE TABLE referring(id int REFERENCES by_id, time timestamptz, value int) USING {method};
         INSERT INTO referring SELECT g, {rows};"
    )
    .replace("USING heap (", "USING btree (")
}

/// The constraints of the tables with keys, which the restored ones must obey.
fn constraints(client: &mut Client) -> Result<String> {
    let insert =
        |table: &str| format!("INSERT INTO {table} SELECT * FROM {table} WHERE value = 77");
    for statement in [
        insert("by_series"),
        insert("by_key"),
        insert("by_index"),
        insert("by_id"),
        "INSERT INTO referring VALUES (-1)".into(),
    ] {
        if client.batch_execute(&statement).is_ok() {
            return Err(format!("accepted: {statement}").into());
        }
    }
    let named = "SELECT string_agg(conrelid::regclass || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname)
                 FROM pg_constraint WHERE conrelid::regclass::text IN ('by_series', 'by_key', 'by_id', 'referring')";
    Ok(client.query_one(named, &[])?.get(0))
}

/// All indexes of the tables with keys, each with the indexes that it goes with.
fn indexes(client: &mut Client) -> Result<String> {
    let defined = "SELECT string_agg(pg_get_indexdef(indexrelid) || coalesce(' with ' || (
                       SELECT string_agg(refobjid::regclass::text, ', ') FROM pg_depend
                       WHERE classid = 'pg_class'::regclass AND objid = indexrelid AND refclassid = 'pg_class'::regclass
                       AND deptype = 'a' AND refobjid <> indrelid), ''), '; ' ORDER BY indexrelid::regclass::text)
                   FROM pg_index WHERE indrelid IN ('by_series'::regclass, 'by_key'::regclass, 'by_index'::regclass, 'by_id'::regclass,
                   'by_btree'::regclass, 'by_late_btree'::regclass)";
    Ok(client.query_one(defined, &[])?.get(0))
}

fn expect_same(what: &str, left: String, right: String) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(format!("{what}: {left} here, {right} there").into())
}
