//! Logical replication: varve tables whose subscribers are heaps, and heaps whose subscribers are varve tables, with keys and
//! without, stay equal through bulk loads, DML, compact on both sides, and kill -9 of either. Those with a key are published
//! under every kind of replica identity in turn.

use crate::heap_pair;
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::io::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A table of the source and its copy at the target, of which one is varve's.
#[derive(Clone, Copy)]
struct Published {
    name: &'static str,
    is_varve_at_source: bool,
    has_key: bool,
}

const fn published(name: &'static str, is_varve_at_source: bool, has_key: bool) -> Published {
    Published {
        name,
        is_varve_at_source,
        has_key,
    }
}

const OUT: Published = published("out", true, false);
const IN: Published = published("inward", false, false);
const KEYED_OUT: Published = published("keyed_out", true, true);
const KEYED_IN: Published = published("keyed_inward", false, true);
const TABLES: [Published; 4] = [OUT, IN, KEYED_OUT, KEYED_IN];

impl Published {
    /// What makes it in a cluster. Without a key of its own a row is sent whole, and a heap at the target finds it by `seq`.
    fn definition(self, at_source: bool) -> String {
        let Self { name, .. } = self;
        let is_varve = self.is_varve_at_source == at_source;
        let method = if is_varve {
            &heap_pair::access_method()
        } else {
            "heap"
        };
        let key = match (self.has_key, at_source || is_varve) {
            (true, _) => ", PRIMARY KEY (device, time, seq)",
            (false, true) => "",
            (false, false) => ", PRIMARY KEY (seq)",
        };
        let mut text = format!(
            "CREATE TABLE {name}(time timestamptz NOT NULL, device int, seq bigint NOT NULL, value float8, reading numeric, state text{key})
             USING {method};"
        );
        if self.has_key && method == "varve" {
            text += &format!("CREATE INDEX ON {name} USING varve (device, time);");
        }
        if !self.has_key && at_source {
            text += &format!("ALTER TABLE {name} REPLICA IDENTITY FULL;");
        }
        text
    }
}

const DATABASE: &str = "logical";
const CATCH_UP_SECONDS: u64 = 90;
const TRANSACTIONS_PER_ROUND: usize = 12;

pub fn run(tree: &Arc<Tree>, report: &mut Report, rounds: u64, seed: u64) -> Result<()> {
    println!("logical: seed {seed}");
    let mut pair = Pair::create(tree, Random::new(seed))?;
    report.check("logical/initial synchronisation", pair.expect_equal());
    for round in 1..=rounds {
        let outcome = pair.round(round);
        let broken = outcome.is_err();
        report.check(&format!("logical/round {round}"), outcome);
        if broken {
            println!(
                "logical:\n{}\n{}",
                pair.source.log_end()?,
                pair.target.log_end()?
            );
            return Ok(());
        }
    }
    report.check("logical/an ordinary index at the target", pair.index());
    super::pglogical::run(tree, report)
}

/// SQL for a text of 4,800 characters that compression cannot shorten: it is stored out of line.
fn long(seed: &str) -> String {
    format!("(SELECT string_agg(md5(({seed} * i)::text), '') FROM generate_series(1, 150) i)")
}

struct Pair {
    source: Cluster,
    target: Cluster,
    random: Random,
    seq: i64,
}

impl Pair {
    fn create(tree: &Arc<Tree>, random: Random) -> Result<Self> {
        let source = Cluster::create(tree, &["wal_level = logical"])?;
        let target = Cluster::create(tree, &["wal_retrieve_retry_interval = '200ms'"])?;
        let mut pair = Self {
            source,
            target,
            random,
            seq: 0,
        };
        let mut at_source = pair.source.database(DATABASE)?;
        let mut at_target = pair.target.database(DATABASE)?;
        for table in TABLES {
            at_source.batch_execute(&table.definition(true))?;
            at_target.batch_execute(&table.definition(false))?;
            // Compressed before anybody reads its changes.
            pair.load(&mut at_source, table)?;
        }
        for table in [OUT, KEYED_OUT] {
            heap_pair::compact(&mut at_source, table.name)?;
        }
        at_source.batch_execute("CREATE PUBLICATION everything FOR ALL TABLES")?;
        // A target that is killed while it copies may otherwise forget that it has done so, and look for a slot which is gone.
        at_target.batch_execute(&format!(
            "CREATE SUBSCRIPTION everything CONNECTION '{}' PUBLICATION everything WITH (synchronous_commit = on)",
            pair.source.conninfo(DATABASE)
        ))?;
        Ok(pair)
    }

    fn round(&mut self, number: u64) -> Result<()> {
        let mut client = self.source.connect(DATABASE)?;
        for Published { name, .. } in [KEYED_OUT, KEYED_IN] {
            let by_index = format!("USING INDEX {name}_pkey");
            let identity = ["DEFAULT", "FULL", &by_index][number as usize % 3];
            client.batch_execute(&format!("ALTER TABLE {name} REPLICA IDENTITY {identity}"))?;
        }
        for _ in 0..TRANSACTIONS_PER_ROUND {
            let table = *self.random.pick(&TABLES);
            self.transaction(&mut client, table)?;
            if self.random.one_in(6) {
                let table = *self.random.pick(&[OUT, KEYED_OUT]);
                heap_pair::compact(&mut client, table.name)?;
            }
            if self.random.one_in(6) {
                let table = *self.random.pick(&[IN, KEYED_IN]);
                heap_pair::compact(&mut self.target.connect(DATABASE)?, table.name)?;
            }
        }
        match number % 3 {
            1 => {
                self.target.kill()?;
                self.target.start()?;
            }
            2 => {
                drop(client);
                self.source.kill()?;
                self.source.start()?;
            }
            _ => {}
        }
        self.expect_equal()?;
        let mut target = self.target.connect(DATABASE)?;
        target.batch_execute("ALTER SUBSCRIPTION everything SET (synchronous_commit = off)")?;
        Ok(())
    }

    fn transaction(&mut self, client: &mut Client, table: Published) -> Result<()> {
        client.batch_execute("BEGIN")?;
        for _ in 0..self.random.integer(1, 4) {
            if self.random.one_in(4) {
                client.batch_execute("SAVEPOINT s")?;
                self.change(client, table)?;
                let undone = self.random.one_in(2);
                client.batch_execute(if undone { "ROLLBACK TO s" } else { "RELEASE s" })?;
            } else {
                self.change(client, table)?;
            }
        }
        let undone = self.random.one_in(8);
        Ok(client.batch_execute(if undone { "ROLLBACK" } else { "COMMIT" })?)
    }

    /// A change of many rows by INSERT, of few by anything else: a target without a key looks for each of them.
    fn change(&mut self, client: &mut Client, table: Published) -> Result<()> {
        let Published { name, has_key, .. } = table;
        let (start, n) = (
            self.random.integer(0, self.seq + 1),
            self.random.integer(1, 12),
        );
        let few = format!("seq >= {start} AND seq < {}", start + n);
        let statement = match self.random.integer(0, if has_key { 12 } else { 9 }) {
            0 => return self.load(client, table),
            1 => {
                self.seq += n;
                format!(
                    "INSERT INTO {name} SELECT '2026-01-01'::timestamptz + g * interval '7 s', g % 5, g, NULL, g / 4.0, {}
                     FROM generate_series({}, {}) g", long("g"), self.seq - n + 1, self.seq
                )
            }
            2 => format!("UPDATE {name} SET value = value + 0.25 WHERE {few}"),
            3 => format!(
                "UPDATE {name} SET state = {}, reading = NULL WHERE {few}",
                long("seq")
            ),
            4 => format!(
                "UPDATE {name} SET time = time + interval '1 s', device = {} WHERE {few}",
                if has_key { "device + 1" } else { "NULL" }
            ),
            5 => format!("UPDATE {name} SET state = state WHERE {few}"),
            6 => format!("DELETE FROM {name} WHERE {few}"),
            // An old key is free for its new row only when the delete has arrived before it.
            7 => format!(
                "WITH gone AS (DELETE FROM {name} WHERE {few} RETURNING *)
                 INSERT INTO {name} SELECT time, device, seq, value, 1.5, 'again' FROM gone"
            ),
            9 => format!("INSERT INTO {name} SELECT * FROM {name} WHERE {few} ON CONFLICT DO NOTHING"),
            10 | 11 => format!(
                "INSERT INTO {name} AS t SELECT time, device, seq, value, 0, 'again' FROM {name} WHERE {few}
                 ON CONFLICT (device, time, seq) DO UPDATE SET value = t.value + 1, reading = EXCLUDED.reading"
            ),
            _ => format!("SELECT count(*) FROM (SELECT 1 FROM {name} WHERE {few} FOR UPDATE) l"),
        };
        Ok(client.batch_execute(&statement)?)
    }

    fn load(&mut self, client: &mut Client, table: Published) -> Result<()> {
        let mut writer = client.copy_in(&format!(
            "COPY {} (time, device, seq, value, reading, state) FROM STDIN",
            table.name
        ))?;
        for _ in 0..self.random.integer(500, 2_000) {
            self.seq += 1;
            writeln!(
                writer,
                "{}\t{}\t{}\t{:?}\t{}\tup",
                crate::generate::timestamp(1_767_225_600 + self.seq),
                self.seq % 5,
                self.seq,
                self.random.uniform(-1e3, 1e3),
                self.seq as f64 / 8.0
            )?;
        }
        writer.finish()?;
        Ok(())
    }

    /// From version 16 on the target would look for rows by an index that does not have them all: it says so, and goes on
    /// when the index is dropped.
    fn index(&mut self) -> Result<()> {
        let mut source = self.source.connect(DATABASE)?;
        let mut target = self.target.connect(DATABASE)?;
        let Published { name, .. } = IN;
        // Whatever the rounds have left, there is a row to look for, and it is compressed.
        self.load(&mut source, IN)?;
        self.expect_equal()?;
        heap_pair::compact(&mut target, name)?;
        target.batch_execute(&format!("CREATE INDEX by_seq ON {name} (seq)"))?;
        let changed = source.execute(
            &format!("UPDATE {name} SET value = 7 WHERE seq = $1"),
            &[&self.seq],
        )?;
        if changed != 1 {
            return Err(format!("changed {changed} rows for one").into());
        }
        let version: i32 = target
            .query_one("SELECT current_setting('server_version_num')::int", &[])?
            .get(0);
        if version >= 160_000 && heap_pair::access_method() == "varve" {
            let deadline = Instant::now() + Duration::from_secs(CATCH_UP_SECONDS);
            while !self.target.log_end()?.contains("cannot find rows of table") {
                if Instant::now() > deadline {
                    return Err("the target does not complain".into());
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
        target.batch_execute("DROP INDEX by_seq")?;
        self.expect_equal()
    }

    /// Waits until the target has everything, and compares.
    fn expect_equal(&self) -> Result<()> {
        let mut source = self.source.connect(DATABASE)?;
        let mut target = self.target.connect(DATABASE)?;
        let deadline = Instant::now() + Duration::from_secs(CATCH_UP_SECONDS);
        let written: String = source
            .query_one("SELECT pg_current_wal_insert_lsn()::text", &[])?
            .get(0);
        let there = format!(
            "SELECT coalesce(min(confirmed_flush_lsn) >= '{written}', false) FROM pg_replication_slots WHERE plugin = 'pgoutput'"
        );
        let synchronised =
            "SELECT count(*) = 4 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel";
        loop {
            if target.query_one(synchronised, &[])?.get(0) && source.query_one(&there, &[])?.get(0)
            {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("not caught up within {CATCH_UP_SECONDS} s").into());
            }
            // What is written only now makes the target confirm what came before.
            source.batch_execute("SELECT pg_logical_emit_message(false, 'varve', '')")?;
            thread::sleep(Duration::from_millis(50));
        }
        for Published { name, .. } in TABLES {
            let (here, yonder) = (
                heap_pair::digest(&mut source, name)?,
                heap_pair::digest(&mut target, name)?,
            );
            if here != yonder {
                return Err(
                    format!("table {name}: {here} at the source, {yonder} at the target").into(),
                );
            }
        }
        for table in TABLES {
            let client = if table.is_varve_at_source {
                &mut source
            } else {
                &mut target
            };
            heap_pair::expect_verified(client, table.name)?;
        }
        Ok(())
    }
}
