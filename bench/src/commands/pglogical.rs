//! pglogical's subscriber: it looks rows up and locks them by the table AM's callbacks, takes heap tuples out of the slots, and
//! deletes by heap's own function, which a trigger has to stand in for.

use crate::heap_pair;
use crate::report::Report;
use crate::server::{pg_config, Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const CATCH_UP_SECONDS: u64 = 90;
const TABLE: &str = "CREATE TABLE readings(host int, time timestamptz, value float8, note text, PRIMARY KEY (host, time))";
/// As docs/clients.md has it.
const DELETES: &str = "
    CREATE FUNCTION delete_reading() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF pg_trigger_depth() > 1 THEN
            RETURN OLD;
        END IF;
        DELETE FROM readings WHERE host = OLD.host AND time = OLD.time;
        RETURN NULL;
    END $$;
    CREATE TRIGGER delete_reading BEFORE DELETE ON readings FOR EACH ROW EXECUTE FUNCTION delete_reading();
    ALTER TABLE readings ENABLE REPLICA TRIGGER delete_reading;";
const CHANGES: [&str; 6] = [
    "UPDATE readings SET value = value + 1, note = NULL WHERE host = 1",
    "UPDATE readings SET host = 7 WHERE host = 2 AND value < 1000",
    "DELETE FROM readings WHERE host = 3",
    "INSERT INTO readings SELECT 3, '2026-01-01'::timestamptz + g * interval '1 s', -g FROM generate_series(1, 500) g",
    "UPDATE readings SET value = value + 1 WHERE host IN (1, 7)",
    "BEGIN; DELETE FROM readings WHERE host = 7; UPDATE readings SET note = 'x' WHERE host = 4; COMMIT",
];

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let name = "logical/a subscriber of pglogical";
    let share = pg_config("--sharedir")?;
    if Path::new(&share)
        .join("extension/pglogical.control")
        .exists()
    {
        report.check(name, replicate(tree));
    } else {
        report.skip(name, "pglogical is not installed");
    }
    Ok(())
}

fn replicate(tree: &Arc<Tree>) -> Result<()> {
    let settings = [
        "wal_level = logical",
        "track_commit_timestamp = on",
        "max_worker_processes = 16",
        "shared_preload_libraries = 'pglogical'",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    trust_plugin(&mut cluster.connect("postgres")?)?;
    let mut source = node(&cluster, "source", "heap")?;
    source.batch_execute("SELECT pglogical.replication_set_add_table('default', 'readings')")?;
    let mut target = node(&cluster, "target", &heap_pair::access_method())?;
    target.batch_execute(&format!(
        "SELECT pglogical.create_subscription('everything', '{}', synchronize_structure => false, synchronize_data => false)",
        cluster.conninfo("source")
    ))?;
    await_subscription(&cluster, &mut target)?;
    source.batch_execute(
        "INSERT INTO readings SELECT g % 5, '2026-01-01'::timestamptz + g * interval '1 s', g, 'n' || g FROM generate_series(1, 5000) g",
    )?;
    expect_equal(&cluster, &mut source, &mut target)?;
    if heap_pair::access_method() == "varve" {
        delete_without_trigger(&cluster, &mut source, &mut target)?;
    }
    target.batch_execute(DELETES)?;
    expect_equal(&cluster, &mut source, &mut target)?;
    for change in CHANGES {
        heap_pair::compact(&mut target, "readings")?;
        source.batch_execute(change)?;
        expect_equal(&cluster, &mut source, &mut target)?;
    }
    heap_pair::expect_verified(&mut target, "readings")
}

/// The first DELETE of a compressed row stops the subscription, of which the log has been told why, until there is a trigger.
fn delete_without_trigger(
    cluster: &Cluster,
    source: &mut Client,
    target: &mut Client,
) -> Result<()> {
    heap_pair::compact(target, "readings")?;
    source.batch_execute("UPDATE readings SET value = value + 1 WHERE host = 0 AND value < 100")?;
    expect_equal(cluster, source, target)?;
    expect_logged(
        cluster,
        "pglogical cannot delete compressed rows of varve table",
    )?;
    source.batch_execute("DELETE FROM readings WHERE host = 0 AND value > 4900")?;
    expect_logged(cluster, "could not open file")
}

fn expect_logged(cluster: &Cluster, text: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(CATCH_UP_SECONDS);
    while !cluster.log()?.contains(text) {
        if Instant::now() > deadline {
            return Err(format!("the log lacks: {text}\n{}", cluster.log_end()?).into());
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Some packages of the server load output plugins of a list only.
fn trust_plugin(client: &mut Client) -> Result<()> {
    let setting = "output_plugin_libraries";
    let known = client.query("SELECT 1 FROM pg_settings WHERE name = $1", &[&setting])?;
    if !known.is_empty() {
        client.batch_execute(&format!(
            "ALTER SYSTEM SET {setting} = pgoutput, pglogical_output"
        ))?;
        client.batch_execute("SELECT pg_reload_conf()")?;
    }
    Ok(())
}

fn node(cluster: &Cluster, name: &str, method: &str) -> Result<Client> {
    let mut client = cluster.database(name)?;
    client.batch_execute(&format!(
        "CREATE EXTENSION pglogical;
         SELECT pglogical.create_node('{name}', '{}');
         {TABLE} USING {method}",
        cluster.conninfo(name)
    ))?;
    Ok(client)
}

fn await_subscription(cluster: &Cluster, target: &mut Client) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(CATCH_UP_SECONDS);
    let status = "SELECT status = 'replicating' FROM pglogical.show_subscription_status()";
    while !target.query_one(status, &[])?.get::<_, bool>(0) {
        if Instant::now() > deadline {
            return Err(format!("no replication:\n{}", cluster.log_end()?).into());
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn expect_equal(cluster: &Cluster, source: &mut Client, target: &mut Client) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(CATCH_UP_SECONDS);
    loop {
        let (here, yonder) = (
            heap_pair::digest(source, "readings")?,
            heap_pair::digest(target, "readings")?,
        );
        if here == yonder {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("the target differs:\n{}", cluster.log_end()?).into());
        }
        thread::sleep(Duration::from_millis(200));
    }
}
