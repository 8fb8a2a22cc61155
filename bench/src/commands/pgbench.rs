//! Stock pgbench on tables of the access method, eight clients: balances must equal history, also after kill -9.

use crate::heap_pair;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const SCRIPTS: [&str; 3] = ["tpcb-like", "simple-update", "select-only"];

/// `settings` are varve's, as `-c name=value`, for every session.
pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    scale: u32,
    seconds: u64,
    settings: &str,
) -> Result<()> {
    let mut cluster = Cluster::create(tree, &[])?;
    drop(cluster.database("pgbench")?);
    let options = format!(
        "-c default_table_access_method={} {settings}",
        heap_pair::access_method()
    );
    let title = |what: &str| format!("pgbench/{what} {settings}").trim_end().to_string();
    // A key without a time column is refused on compressed rows: where every row is one at once, keys come first.
    let steps = if settings.is_empty() {
        "dtgvp"
    } else {
        "dtpgv"
    };
    let initialize = ["-i", "-q", "-I", steps, &format!("-s{scale}")];
    report.check(
        &title("initialize"),
        server::run(pgbench(&cluster, &options).args(initialize)),
    );
    for script in SCRIPTS {
        let outcome = server::run(pgbench(&cluster, &options).args([
            "-n",
            "-c8",
            "-j2",
            "-b",
            script,
            &format!("-T{seconds}"),
        ]));
        report.check(
            &title(script),
            outcome.and_then(|()| {
                expect_balanced(&mut cluster.connect("pgbench")?, script == "tpcb-like")
            }),
        );
    }
    report.check(
        &title("prepared statements outlive changes of their table"),
        prepared_outlive_changes(&cluster),
    );
    report.check(
        &title("balanced after kill -9"),
        server::run(pgbench(&cluster, &options).args(initialize))
            .and_then(|()| killed(&mut cluster, &options, seconds)),
    );
    Ok(())
}

fn pgbench(cluster: &Cluster, options: &str) -> Command {
    let mut command = cluster.tree.program("pgbench");
    command
        .args(["-U", "postgres", "-h"])
        .arg(cluster.host())
        .env("PGDATABASE", "pgbench")
        .env("PGOPTIONS", options)
        .stdout(Stdio::null());
    command
}

/// Those without parameters are analyzed anew as texts are that are run at once: plans that are kept for these must do for them too.
fn prepared_outlive_changes(cluster: &Cluster) -> Result<()> {
    let (mut client, mut other) = (cluster.connect("pgbench")?, cluster.connect("pgbench")?);
    let of = |aid: i32| format!("SELECT aid FROM pgbench_accounts WHERE aid = {aid}");
    let prepared = [1, 2, 3].map(|aid| client.prepare(&of(aid)));
    for _ in 0..3 {
        for (statement, aid) in prepared.iter().zip(1..) {
            let statement = statement.as_ref().map_err(|error| error.to_string())?;
            let found: i32 = client.query_one(statement, &[])?.get(0);
            if found != aid {
                return Err(format!("{found} in place of {aid}").into());
            }
            client.simple_query(&of(aid))?;
        }
        other.batch_execute("ANALYZE pgbench_accounts")?;
    }
    Ok(())
}

/// Of tables that are new.
fn killed(cluster: &mut Cluster, options: &str, seconds: u64) -> Result<()> {
    let mut running = pgbench(cluster, options)
        .args(["-n", "-c8", "-j2", "-T600"])
        .stderr(Stdio::null())
        .spawn()?;
    thread::sleep(Duration::from_secs(seconds));
    cluster.kill()?;
    running.wait()?;
    cluster.start()?;
    let mut client = cluster.connect("pgbench")?;
    expect_balanced(&mut client, true)?;
    for table in [
        "pgbench_accounts",
        "pgbench_tellers",
        "pgbench_branches",
        "pgbench_history",
    ] {
        heap_pair::expect_verified(&mut client, table)?;
    }
    Ok(())
}

/// tpcb-like changes all three balances, simple-update only those of accounts: tellers and branches then stay behind.
fn expect_balanced(client: &mut Client, all: bool) -> Result<()> {
    let sums = "SELECT (SELECT coalesce(sum(delta), 0) FROM pgbench_history)::bigint, (SELECT sum(abalance) FROM pgbench_accounts)::bigint,
                       (SELECT sum(tbalance) FROM pgbench_tellers)::bigint, (SELECT sum(bbalance) FROM pgbench_branches)::bigint";
    let row = client.query_one(sums, &[])?;
    let [history, accounts, tellers, branches]: [i64; 4] = std::array::from_fn(|i| row.get(i));
    if history != accounts || tellers != branches || all && accounts != tellers {
        return Err(format!(
            "history {history}, accounts {accounts}, tellers {tellers}, branches {branches}"
        )
        .into());
    }
    Ok(())
}
