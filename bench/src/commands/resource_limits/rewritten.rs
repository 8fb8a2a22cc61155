//! Rewrites that write pages past the buffer manager (src/chunk/raw.rs): the server is killed as soon as one has
//! committed, with and without the WAL's help. Pages must carry checksums, and the WAL alone must be able to make the file.

use super::{check, create_twins};
use crate::heap_pair::VARVE;
use crate::report::Report;
use crate::server::{run as run_program, Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::fs;
use std::sync::Arc;

const REWRITES: [(&str, &str); 6] = [
    ("vacuum full", "VACUUM FULL samples_varve"),
    ("cluster", "CLUSTER samples_varve USING samples_varve_device_time_idx"),
    ("set tablespace", "ALTER TABLE samples_varve SET TABLESPACE other"),
    ("alter type", "ALTER TABLE samples_varve ALTER seq TYPE numeric; ALTER TABLE samples_heap ALTER seq TYPE numeric"),
    ("add column", "ALTER TABLE samples_varve ADD late int DEFAULT 7; ALTER TABLE samples_heap ADD late int DEFAULT 7; VACUUM FULL samples_varve"),
    ("unlogged and back", "ALTER TABLE samples_varve SET UNLOGGED; ALTER TABLE samples_varve SET LOGGED"),
];

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    for level in ["replica", "minimal"] {
        let level_setting = format!("wal_level = {level}");
        let settings = [
            level_setting.as_str(),
            "max_wal_senders = 0",
            "full_page_writes = on",
            "fsync = on",
            "autovacuum = off",
        ];
        let mut cluster = Cluster::create_with(tree, &["--data-checksums"], &settings)?;
        for (name, rewrite) in REWRITES {
            // Under minimal the file itself is synced, and the WAL has no pages to make it from.
            for lose_file in [false, true] {
                if lose_file && level == "minimal" {
                    continue;
                }
                let how = if lose_file { ", file lost" } else { "" };
                let outcome = one(&mut cluster, rewrite, lose_file);
                report.check(
                    &format!("resource-limits/{name}, then kill -9 ({level}{how})"),
                    outcome,
                );
            }
        }
        report.check(
            &format!("resource-limits/checksums of pages ({level})"),
            checksums(&mut cluster),
        );
    }
    Ok(())
}

fn one(cluster: &mut Cluster, rewrite: &str, lose_file: bool) -> Result<()> {
    let mut client = fresh(cluster)?;
    create_twins(&mut client)?;
    client.batch_execute("CHECKPOINT")?;
    for statement in rewrite.split("; ") {
        client.batch_execute(statement)?;
    }
    let path = "SELECT pg_relation_filepath($1::text::regclass)";
    let path: String = client.query_one(path, &[&VARVE])?.get(0);
    cluster.kill()?;
    if lose_file {
        fs::File::create(cluster.data().join(path))?;
    }
    cluster.start()?;
    let mut client = cluster.connect("hazards")?;
    check(&mut client)?;
    client.batch_execute(&format!("CALL varve.compact('{VARVE}')"))?;
    check(&mut client)
}

/// A new database, and an empty tablespace.
fn fresh(cluster: &Cluster) -> Result<Client> {
    let mut client = cluster.connect("postgres")?;
    client.batch_execute("DROP DATABASE IF EXISTS hazards")?;
    client.batch_execute("DROP TABLESPACE IF EXISTS other")?;
    client.batch_execute("SET allow_in_place_tablespaces = on")?;
    client.batch_execute("CREATE TABLESPACE other LOCATION ''")?;
    drop(client);
    cluster.database("hazards")
}

fn checksums(cluster: &mut Cluster) -> Result<()> {
    cluster.stop()?;
    let mut program = cluster.tree.program_as_server("pg_checksums");
    let outcome = run_program(
        program
            .arg("--check")
            .arg("-D")
            .arg(cluster.data())
            .stdout(std::process::Stdio::null()),
    );
    cluster.start()?;
    outcome
}
