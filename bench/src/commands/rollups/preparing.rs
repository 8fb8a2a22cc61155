//! A reader of a rollup while another transaction is being prepared, which is listed twice then: as many transactions are running as
//! before one of them has been committed, and the rollup shows that one all the same. PREPARE waits there for a standby that never comes.

use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::waiting::await_true;
use crate::Result;
use postgres::Client;
use std::sync::Arc;
use std::thread;

const SETTINGS: [&str; 4] = [
    "varve.worker = off",
    "max_prepared_transactions = 1",
    "synchronous_standby_names = 'nobody'",
    "synchronous_commit = local",
];
const NEW_ROW: &str = "INSERT INTO cpu VALUES ('2026-03-01', 'h9', 1)";
const DIFFERENCES: &str = "SELECT count(*) FROM (TABLE hourly EXCEPT ALL SELECT time_bucket('1 hour', time), host, count(*) FROM cpu GROUP BY 1, 2) x";

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    report.check("rollups/while another is being prepared", read(tree));
    Ok(())
}

fn read(tree: &Arc<Tree>) -> Result<()> {
    let cluster = Cluster::create(tree, &SETTINGS)?;
    let mut client = cluster.database("preparing")?;
    client.batch_execute(
        "CREATE TABLE cpu (time timestamptz NOT NULL, host text NOT NULL, n int) USING varve;
         INSERT INTO cpu SELECT '2026-01-01'::timestamptz + i * interval '10 minutes', 'h' || i % 7, i FROM generate_series(0, 1999) i;
         SELECT varve.create_rollup('hourly', $$ SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows FROM cpu
             GROUP BY bucket, host $$)",
    )?;
    client.batch_execute("CALL varve.refresh_rollup('hourly')")?;
    let connect = || cluster.connect("preparing");
    let (mut oldest, mut changing, mut preparing) = (connect()?, connect()?, connect()?);
    // The oldest and the newest transaction are the same for both looks.
    oldest.batch_execute(&format!("BEGIN; {NEW_ROW}"))?;
    changing.batch_execute("BEGIN; DELETE FROM cpu WHERE host = 'h5' AND time < '2026-01-02'")?;
    preparing.batch_execute(&format!(
        "SET synchronous_commit = on; SET application_name = 'preparing'; BEGIN; {NEW_ROW}"
    ))?;
    client.batch_execute(NEW_ROW)?;
    let mut reader = connect()?;
    reader.batch_execute("BEGIN")?;
    expect_equal(&mut reader, "before")?;
    let prepare = thread::spawn(move || preparing.batch_execute("PREPARE TRANSACTION 'preparing'"));
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'preparing' AND wait_event = 'SyncRep')";
    let what = "a PREPARE that waits for a standby";
    let seen = await_true(&mut client, what, waits).and_then(|()| {
        changing.batch_execute("COMMIT")?;
        expect_equal(&mut reader, "meanwhile")
    });
    let cancel =
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'preparing'";
    client.batch_execute(cancel)?;
    prepare.join().expect("BUG: the thread has panicked")?;
    client.batch_execute("ROLLBACK PREPARED 'preparing'")?;
    seen
}

fn expect_equal(reader: &mut Client, when: &str) -> Result<()> {
    match reader.query_one(DIFFERENCES, &[])?.get::<_, i64>(0) {
        0 => Ok(()),
        lines => Err(format!("{when}: {lines} buckets are too many").into()),
    }
}
