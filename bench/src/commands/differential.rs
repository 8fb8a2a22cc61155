//! The same random statements in two sessions, one whose tables are heaps and one whose tables are varve's: each statement
//! must return the same rows or fail with the same SQLSTATE, and the tables must stay equal.

mod schema;
mod statement;

use crate::errors::describe;
use crate::heap_pair;
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::{Client, SimpleQueryMessage};
use schema::Table;
use statement::Step;
use std::io::Write;
use std::sync::Arc;

/// Statements bring chunks: any, those of some rows, COPY at most.
const BATCH_ROWS: [u32; 3] = [1, 10, 500];

/// What a statement did, in a form that does not depend on the order of rows.
type Outcome = std::result::Result<Vec<String>, String>;

struct Worlds {
    heap: Client,
    varve: Client,
}

pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    rounds: u64,
    steps: usize,
    seed: u64,
) -> Result<()> {
    println!("differential: seed {seed}");
    let cluster = Cluster::create(tree, &["statement_timeout = '60s'"])?;
    drop(cluster.database("differential")?);
    let mut random = Random::new(seed);
    for round in 1..=rounds {
        let mut random = Random::new(random.bits());
        let mut worlds = Worlds::open(&cluster, *random.pick(&BATCH_ROWS))?;
        report.check(
            &format!("differential/round {round}"),
            one_table(&mut worlds, &mut random, steps),
        );
    }
    Ok(())
}

fn one_table(worlds: &mut Worlds, random: &mut Random, steps: usize) -> Result<()> {
    let mut table = Table::random(random);
    let mut history = Vec::new();
    for statement in table.definition() {
        worlds.same(&Step::Sql(statement), &mut history)?;
    }
    for number in 1..=steps {
        let step = statement::random(random, &mut table);
        worlds.same(&step, &mut history)?;
        if number % 20 == 0 {
            worlds.end_transaction(&mut table, &mut history)?;
            worlds.same(&Step::Sql("SELECT t::text FROM t".into()), &mut history)?;
            heap_pair::expect_verified(&mut worlds.varve, "t")?;
        }
    }
    worlds.end_transaction(&mut table, &mut history)
}

impl Worlds {
    /// `batch_rows`: from how many rows on a statement writes chunks.
    fn open(cluster: &Cluster, batch_rows: u32) -> Result<Self> {
        let world = |schema: &str, method: &str| -> Result<Client> {
            let mut client = cluster.connect("differential")?;
            client.batch_execute(&format!(
                "DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; SET search_path = {schema}, public;
                 SET default_table_access_method = {method}"
            ))?;
            Ok(client)
        };
        let mut heap = world("heap_world", "heap")?;
        // Its answers count, not its plans: some joins would outlast the timeout.
        heap.batch_execute("SET enable_nestloop = off")?;
        let mut varve = world("varve_world", &heap_pair::access_method())?;
        if heap_pair::access_method() == "varve" {
            varve.batch_execute(&format!("SET varve.batch_rows = {batch_rows}"))?;
        }
        Ok(Self { heap, varve })
    }

    /// Takes one step in both worlds; an error tells how they differ and what led there.
    fn same(&mut self, step: &Step, history: &mut Vec<String>) -> Result<()> {
        history.push(step.to_string());
        let (heap, varve) = (
            take(&mut self.heap, step, false)?,
            take(&mut self.varve, step, true)?,
        );
        if heap == varve {
            return Ok(());
        }
        let last = &history[history.len().saturating_sub(HISTORY)..];
        Err(format!(
            "{}\n  heap:  {}\n  varve: {}\n  after: {}",
            step,
            show(&heap, &varve),
            show(&varve, &heap),
            last.join(";\n         ")
        )
        .into())
    }

    fn end_transaction(&mut self, table: &mut Table, history: &mut Vec<String>) -> Result<()> {
        if std::mem::take(&mut table.in_transaction) {
            self.same(&Step::Sql("COMMIT".into()), history)?;
        }
        Ok(())
    }
}

const HISTORY: usize = 25;

fn take(client: &mut Client, step: &Step, is_varve: bool) -> Result<Outcome> {
    let outcome = match step {
        Step::Sql(text) => client.simple_query(text).map(rows),
        Step::Copy { statement, text } => client.copy_in(statement).and_then(|mut writer| {
            writer.write_all(text.as_bytes()).ok();
            writer.finish().map(|count| vec![format!("{count} rows")])
        }),
        Step::Compact if is_varve => {
            return Ok(heap_pair::compact(client, "t")
                .map(|()| Vec::new())
                .map_err(|e| describe(e.as_ref())))
        }
        Step::Compact => return Ok(Ok(Vec::new())),
    };
    match outcome {
        Ok(rows) => Ok(Ok(rows)),
        Err(error) => match error.code() {
            Some(code) => Ok(Err(format!(
                "{} {}",
                code.code(),
                error.as_db_error().map_or("", |e| e.message())
            ))),
            None => Err(error.into()),
        },
    }
}

/// Every row as text, sorted, and the number of rows that a change reports.
fn rows(messages: Vec<SimpleQueryMessage>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let values: Vec<&str> = (0..row.len())
                    .map(|i| row.get(i).unwrap_or("NULL"))
                    .collect();
                rows.push(values.join("|"));
            }
            SimpleQueryMessage::CommandComplete(count) => rows.push(format!("{count} rows")),
            _ => {}
        }
    }
    rows.sort_unstable();
    rows
}

/// An outcome cut to what the other one does not have.
fn show(outcome: &Outcome, other: &Outcome) -> String {
    const MOST: usize = 3;
    match (outcome, other) {
        (Ok(rows), Ok(others)) => {
            let odd: Vec<String> = rows
                .iter()
                .filter(|r| others.binary_search(r).is_err())
                .take(MOST)
                .map(|r| r.chars().take(400).collect())
                .collect();
            format!("{} rows; only here: {}", rows.len(), odd.join(" / "))
        }
        (Ok(rows), Err(_)) => format!("{} rows", rows.len()),
        (Err(error), _) => format!("error {error}"),
    }
}
