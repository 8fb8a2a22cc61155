//! Random statements over the table `t`. None of them depends on the physical order of rows.

use super::schema::Table;
use crate::random::Random;
use std::fmt;

pub enum Step {
    Sql(String),
    Copy { statement: String, text: String },
    Compact,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Step::Sql(text) => out.write_str(text),
            Step::Copy { statement, text } => {
                write!(out, "{statement} -- {} rows", text.lines().count())
            }
            Step::Compact => out.write_str("CALL varve.compact('t')"),
        }
    }
}

pub fn random(random: &mut Random, table: &mut Table) -> Step {
    match random.integer(0, 100) {
        0..=4 if table.is_keyed => Step::Sql(enter_again(random, table)),
        0..=14 => Step::Sql(insert(random, table)),
        15..=22 => {
            let rows = random.integer(1, 3_000);
            Step::Sql(format!("INSERT INTO t {}", table.bulk(random, rows)))
        }
        23..=28 => copy(random, table),
        29..=38 => Step::Sql(format!(
            "DELETE FROM t WHERE {}{}",
            predicate(random, table),
            returning(random)
        )),
        39..=49 => Step::Sql(format!(
            "UPDATE t SET {} WHERE {}{}",
            assignment(random, table),
            predicate(random, table),
            returning(random)
        )),
        50..=52 => Step::Sql(merge(random, table)),
        53..=72 => Step::Sql(select(random, table)),
        73..=76 => Step::Sql(cursor(random, table)),
        77..=88 => transaction(random, table),
        89..=92 => outside(table, Step::Compact),
        93..=95 => {
            let statement = *random.pick(&[
                "VACUUM t",
                "VACUUM FULL t",
                "ANALYZE t",
                "VACUUM FREEZE t",
                "REINDEX TABLE t",
            ]);
            outside(table, Step::Sql(statement.into()))
        }
        96 => Step::Sql(if random.one_in(4) {
            "TRUNCATE t".into()
        } else {
            "SELECT count(*) FROM t".into()
        }),
        _ if table.in_transaction => outside(table, Step::Compact),
        _ => Step::Sql(alter(random, table)),
    }
}

/// What cannot run in a transaction block is replaced by its end.
fn outside(table: &mut Table, step: Step) -> Step {
    if std::mem::take(&mut table.in_transaction) {
        table.savepoints = 0;
        return Step::Sql("COMMIT".into());
    }
    step
}

fn insert(random: &mut Random, table: &mut Table) -> String {
    let rows: Vec<String> = (0..random.integer(1, 20))
        .map(|_| table.row(random))
        .collect();
    let conflict = if random.one_in(4) {
        " ON CONFLICT DO NOTHING"
    } else {
        ""
    };
    format!(
        "INSERT INTO t VALUES {}{conflict}{}",
        rows.join(", "),
        returning(random)
    )
}

/// Keys that are there are entered once more: that is an error, does nothing, or updates their rows.
fn enter_again(random: &mut Random, table: &Table) -> String {
    let conflict = match random.integer(0, 4) {
        0 => "",
        1 => "ON CONFLICT DO NOTHING",
        _ => &format!(
            "ON CONFLICT (device, id, time) DO UPDATE SET {}",
            assignment(random, table)
        ),
    };
    format!(
        "INSERT INTO t SELECT * FROM t WHERE {} {conflict}{}",
        predicate(random, table),
        returning(random)
    )
}

/// The rows of the COPY are made by the server's text output of the same kinds, so only simple columns are named.
fn copy(random: &mut Random, table: &mut Table) -> Step {
    let mut text = String::new();
    for _ in 0..random.integer(1, 2_000) {
        let id = table.next_id;
        table.next_id += 1;
        let time = crate::generate::timestamp(1_767_225_600 + 10 * id);
        text.push_str(&format!("{id}\t{time}\td{}\n", random.integer(0, 8)));
    }
    Step::Copy {
        statement: "COPY t (id, time, device) FROM STDIN".into(),
        text,
    }
}

fn predicate(random: &mut Random, table: &Table) -> String {
    let (a, b) = (random.integer(0, table.next_id + 1), random.integer(1, 400));
    match random.integer(0, 7) {
        0 => format!("id = {a}"),
        1 => format!("id BETWEEN {a} AND {}", a + b),
        2 => format!("device = 'd{}' AND id % {b} = 1", random.integer(0, 8)),
        3 => format!("time >= '2026-01-01'::timestamptz + {} * interval '1 s' AND time < '2026-01-01'::timestamptz + {} * interval '1 s'", 10 * a, 10 * (a + b)),
        4 => format!("id % {b} = {}", random.integer(0, b)),
        5 => match table.columns.first() {
            Some(column) => format!("{} IS NULL AND id % 3 = 0", column.name),
            None => "false".into(),
        },
        _ => format!("device IN ('d1', 'd{}') AND id > {}", random.integer(2, 6), table.next_id - b),
    }
}

fn assignment(random: &mut Random, table: &Table) -> String {
    if table.columns.is_empty() || random.one_in(4) {
        return (*random.pick(&[
            // Never to the time of another row: which of them an UPDATE meets first must not matter to a key.
            "time = t.time + interval '370 ms'",
            "device = t.device || 'x'",
            "id = t.id",
            "device = NULL",
        ]))
        .into();
    }
    let column = random.pick(&table.columns);
    let value = column.kind.literal(random);
    format!("{} = {value}", column.name)
}

fn returning(random: &mut Random) -> &'static str {
    if random.one_in(5) {
        " RETURNING *"
    } else {
        ""
    }
}

fn merge(random: &mut Random, table: &mut Table) -> String {
    let (a, n) = (random.integer(1, table.next_id + 1), random.integer(1, 200));
    let assignment = assignment(random, table);
    format!(
        "MERGE INTO t USING (SELECT g AS sid FROM generate_series({a}::bigint, {}) g) s ON t.id = s.sid
         WHEN MATCHED AND sid % 3 = 0 THEN DELETE
         WHEN MATCHED THEN UPDATE SET {assignment}
         WHEN NOT MATCHED THEN INSERT (id, time, device) VALUES (sid, '2026-01-01'::timestamptz + sid * interval '10 s', 'merged')",
        a + n
    )
}

fn select(random: &mut Random, table: &Table) -> String {
    let predicate = predicate(random, table);
    let limit = random.integer(1, 30);
    match random.integer(0, 11) {
        0 => "SELECT count(*), min(id), max(id), min(time), max(time), sum(id), count(DISTINCT device) FROM t".into(),
        1 => format!("SELECT t FROM t WHERE {predicate}"),
        2 => format!("SELECT device, count(*), max(time), sum(id) FROM t WHERE {predicate} GROUP BY device"),
        3 => format!("SELECT id, device, time FROM t WHERE {predicate} ORDER BY device, time DESC, id LIMIT {limit}"),
        4 => format!("SELECT time, device, id FROM t WHERE device = 'd{}' ORDER BY time DESC, id LIMIT {limit}", random.integer(0, 8)),
        5 => format!("SELECT count(*) FROM (SELECT id FROM t WHERE {predicate} FOR UPDATE) l"),
        6 => format!("SELECT date_trunc('hour', time), count(*), min(id) FROM t WHERE {predicate} GROUP BY 1"),
        7 => "SELECT DISTINCT ON (device) device, time, id FROM t ORDER BY device, time DESC, id".into(),
        8 => format!("SELECT count(*), sum(a.id) FROM t a JOIN t b USING (id) WHERE b.device = 'd1' AND a.id > {}", table.next_id - 500),
        9 => match table.columns.last() {
            Some(column) => format!("SELECT {0}::text, count(*) FROM t GROUP BY 1", column.name),
            None => "SELECT count(*) FROM t".into(),
        },
        _ => format!("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t o WHERE o.id = t.id + 1 AND o.device = t.device) AND {predicate}"),
    }
}

/// A cursor that changes some of the rows it walks over.
fn cursor(random: &mut Random, table: &Table) -> String {
    let change = if random.one_in(2) {
        "DELETE FROM t"
    } else {
        "UPDATE t SET device = 'cursor'"
    };
    let (from, fetches) = (random.integer(0, table.next_id + 1), random.integer(1, 6));
    format!(
        "DO $$ DECLARE c CURSOR FOR SELECT id FROM t WHERE id > {from} ORDER BY id, time, device FOR UPDATE; n bigint; BEGIN OPEN c;
         FOR i IN 1..{fetches} LOOP FETCH c INTO n; EXIT WHEN NOT FOUND; {change} WHERE CURRENT OF c; END LOOP; CLOSE c; END $$"
    )
}

fn transaction(random: &mut Random, table: &mut Table) -> Step {
    let statement = match (table.in_transaction, random.integer(0, 6)) {
        (false, level) => {
            table.in_transaction = true;
            [
                "BEGIN",
                "BEGIN ISOLATION LEVEL REPEATABLE READ",
                "BEGIN ISOLATION LEVEL SERIALIZABLE",
            ][level as usize % 3]
                .into()
        }
        (true, 0..=2) => {
            table.savepoints += 1;
            format!("SAVEPOINT s{}", table.savepoints)
        }
        (true, 3..=4) if table.savepoints > 0 => {
            let number = random.integer(1, table.savepoints as i64 + 1) as usize;
            if random.one_in(3) {
                table.savepoints = number - 1;
                format!("RELEASE s{number}")
            } else {
                table.savepoints = number;
                format!("ROLLBACK TO s{number}")
            }
        }
        (true, end) => {
            table.in_transaction = false;
            table.savepoints = 0;
            if end == 3 { "ROLLBACK" } else { "COMMIT" }.into()
        }
    };
    Step::Sql(statement)
}

/// Only outside transactions: a rolled back ALTER would leave us with columns that are not there.
fn alter(random: &mut Random, table: &mut Table) -> String {
    match random.integer(0, 4) {
        0 if !table.columns.is_empty() => {
            let position = random.integer(0, table.columns.len() as i64) as usize;
            format!(
                "ALTER TABLE t DROP COLUMN {}",
                table.columns.remove(position).name
            )
        }
        1 => match table.columns.iter().find(|c| c.kind.name == "varchar(20)") {
            Some(column) => format!("ALTER TABLE t ALTER {} TYPE text", column.name),
            None => "ALTER TABLE t ALTER id TYPE bigint".into(),
        },
        2 => {
            let column = table.add_column(random);
            let default = column.kind.literal(random);
            format!(
                "ALTER TABLE t ADD {} {} DEFAULT {default}",
                column.name, column.kind.name
            )
        }
        _ => {
            let column = table.add_column(random);
            format!("ALTER TABLE t ADD {} {}", column.name, column.kind.name)
        }
    }
}
