//! Random tables: `h`, a heap, and `v`, its varve twin, filled through a third one.

use crate::random::Random;
use crate::Result;
use postgres::Client;

#[derive(Clone)]
pub struct Column {
    pub name: String,
    pub typ: &'static str,
    pub not_null: bool,
}

pub struct Table {
    pub columns: Vec<Column>,
    /// Statements that made it what it is.
    pub history: Vec<String>,
    /// `v`, or its partitions that are varve tables.
    stored: Vec<&'static str>,
    is_partitionwise: bool,
    /// It has many series.
    by_ranges: bool,
    rows: i64,
    added: usize,
}

/// Partitions of `v`, by ranges of its rows' numbers; the other one has what is between the first and the last, and is a heap.
const PARTITIONS: [(&str, &str); 3] = [
    ("v_first", "FROM (MINVALUE) TO (1500)"),
    ("v_second", "FROM (1500) TO (4000)"),
    ("v_last", "FROM (5000) TO (MAXVALUE)"),
];

const TIME_TYPES: [&str; 4] = ["timestamptz", "timestamp", "bigint", "date"];
const KEY_TYPES: [&str; 3] = ["int", "text", "uuid"];
const VALUE_TYPES: [&str; 13] = [
    "smallint",
    "int",
    "bigint",
    "real",
    "float8",
    "float8",
    "float8",
    "numeric",
    "boolean",
    "text",
    "date",
    "timestamptz",
    "interval",
];

/// What a table is made for.
#[derive(Clone, Copy, PartialEq)]
pub enum Purpose {
    Any,
    Partitions,
    /// Several processes share the integers of its first key.
    Ranges,
}

impl Purpose {
    /// Of the table of this number, so that some of each are soon among them.
    pub fn of(number: u64) -> Purpose {
        match number % 6 {
            2 | 5 => Purpose::Partitions,
            4 => Purpose::Ranges,
            _ => Purpose::Any,
        }
    }
}

impl Table {
    pub fn create(client: &mut Client, random: &mut Random, purpose: Purpose) -> Result<Table> {
        let is_partitioned = purpose == Purpose::Partitions;
        let by_ranges = purpose == Purpose::Ranges;
        let time = *random.pick(&TIME_TYPES);
        let mut columns = vec![
            Column {
                name: "id".into(),
                typ: "int",
                not_null: false,
            },
            Column {
                name: "t".into(),
                typ: time,
                not_null: random.one_in(2),
            },
        ];
        let keys = random.integer(i64::from(by_ranges), 3) as usize;
        for key in 0..keys {
            let typ = match by_ranges && key == 0 {
                true => "int",
                false => *random.pick(&KEY_TYPES),
            };
            columns.push(Column {
                name: format!("k{key}"),
                typ,
                not_null: false,
            });
        }
        for value in 0..random.integer(2, 7) {
            let typ = *random.pick(&VALUE_TYPES);
            columns.push(Column {
                name: format!("x{value}"),
                typ,
                not_null: false,
            });
        }
        let mut table = Table {
            columns,
            history: Vec::new(),
            stored: vec!["v"],
            is_partitionwise: false,
            by_ranges,
            rows: 0,
            added: 0,
        };
        let list: Vec<String> = table
            .columns
            .iter()
            .map(|c| {
                let rule = if c.not_null { " NOT NULL" } else { "" };
                format!("{} {}{rule}", c.name, c.typ)
            })
            .collect();
        let list = list.join(", ");
        let index: Vec<String> = (0..keys)
            .map(|key| format!("k{key}"))
            .chain(["t".into()])
            .collect();
        let chunk_rows = random.pick(&[7, 40, 300, 3000, 65536]);
        let zone = random.pick(&["UTC", "Europe/Berlin", "America/New_York"]);
        let memory = random.pick(&["64kB", "4MB"]);
        let workers = if by_ranges {
            2
        } else {
            *random.pick(&[0, 0, 2])
        };
        // Without these, processes finish groups wherever they can; what they cost would have everything compiled.
        let (finals, costs) = match by_ranges {
            true => (
                "off",
                "SET parallel_tuple_cost = 0; SET seq_page_cost = 0; SET cpu_tuple_cost = 1",
            ),
            false => (
                "on",
                "RESET parallel_tuple_cost; RESET seq_page_cost; RESET cpu_tuple_cost",
            ),
        };
        // A leader takes ranges from workers; without it these have all of them.
        let leader = if by_ranges {
            *random.pick(&["off", "on"])
        } else {
            "on"
        };
        let partitionwise = *random.pick(&["off", "on"]);
        table.is_partitionwise = is_partitioned && partitionwise == "on";
        let method = crate::heap_pair::access_method();
        table.run(client, &format!(
            "DROP TABLE IF EXISTS h, v, s, p; CREATE TABLE p (number int, wide bigint, series text, weight int);
             INSERT INTO p SELECT g % 5, g % 5, 'series ' || g % 5, g FROM generate_series(1, 8) g;
             INSERT INTO p VALUES (NULL, NULL, NULL, 40), (7, 7, 'series 7', 40), (-1, -1, 'nobody', 1); CREATE TABLE h ({list}); CREATE TABLE s ({list});
             SET timezone = '{zone}'; SET work_mem = '{memory}'; SET enable_partitionwise_aggregate = {partitionwise};
             SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET max_parallel_workers_per_gather = {workers};
             SET parallel_leader_participation = {leader};
             SET enable_hashagg = {finals}; SET enable_sort = {finals}; SET enable_gathermerge = {finals}; SET jit = {finals};
             {costs}"
        ))?;
        if is_partitioned {
            table.run(client, &format!("CREATE TABLE v ({list}) PARTITION BY RANGE (id); CREATE TABLE v_rest PARTITION OF v DEFAULT USING heap"))?;
            for (name, range) in PARTITIONS {
                table.run(
                    client,
                    &format!(
                        "CREATE TABLE {name} PARTITION OF v FOR VALUES {range} USING {method}"
                    ),
                )?;
            }
            table.stored = PARTITIONS.map(|(name, _)| name).to_vec();
        } else {
            table.run(client, &format!("CREATE TABLE v ({list}) USING {method}"))?;
        }
        if method == "varve" {
            table.run(client, &format!("SET varve.chunk_rows = {chunk_rows}"))?;
            if by_ranges || !random.one_in(4) {
                let index = index.join(", ");
                for name in table.stored.clone() {
                    let create = format!("CREATE INDEX ON {name} USING varve ({index})");
                    table.run(client, &create)?;
                }
            }
        }
        for _ in 0..random.integer(1, 4) {
            table.load(client, random, true)?;
        }
        Ok(table)
    }

    /// One that is there already.
    pub fn made(columns: Vec<Column>) -> Table {
        Table {
            columns,
            history: Vec::new(),
            is_partitionwise: false,
            by_ranges: false,
            stored: vec!["v"],
            rows: 0,
            added: 0,
        }
    }

    fn run(&mut self, client: &mut Client, statement: &str) -> Result<()> {
        self.history.push(statement.to_string());
        client
            .batch_execute(statement)
            .map_err(|error| format!("{statement}: {error:?}").into())
    }

    /// Changes both tables; true where the transaction stays open.
    pub fn change(&mut self, client: &mut Client, random: &mut Random) -> Result<bool> {
        match random.integer(0, 9) {
            0 | 1 => self.load(client, random, true)?,
            2 => self.load(client, random, false)?,
            3 => self.compact(client)?,
            4 => {
                self.compact(client)?;
                self.modify(client, random)?;
            }
            5 => self.modify(client, random)?,
            6 => self.alter(client, random)?,
            _ => {
                self.run(client, "BEGIN")?;
                self.modify(client, random)?;
                if random.one_in(2) {
                    let bulk = random.one_in(2);
                    self.load(client, random, bulk)?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Do several processes share the keys, where they can?
    pub fn is_by_ranges(&self) -> bool {
        self.by_ranges
    }

    /// Partitioned, and aggregated by partitions where core can.
    pub fn is_partitionwise(&self) -> bool {
        self.is_partitionwise
    }

    pub fn is_partitioned(&self) -> bool {
        self.stored.len() > 1
    }

    fn compact(&mut self, client: &mut Client) -> Result<()> {
        let is_varve = crate::heap_pair::access_method() == "varve";
        for name in self.stored.clone() {
            let statement = match is_varve {
                true => format!("CALL varve.compact('{name}')"),
                false => format!("VACUUM {name}"),
            };
            self.run(client, &statement)?;
        }
        Ok(())
    }

    /// Rows by a bulk statement, or one by one; in order, late, or twice.
    fn load(&mut self, client: &mut Client, random: &mut Random, bulk: bool) -> Result<()> {
        let most = if bulk { 4000 } else { 60 };
        let count = random.integer(1, most);
        let first = self.rows;
        self.rows += count;
        let start = random.integer(0, 20_000);
        let series = match self.by_ranges {
            true => random.integer(30, 80),
            false => random.integer(1, 12),
        };
        let step = random.pick(&[1, 60, 3600]);
        let values: Vec<String> = self
            .columns
            .iter()
            .map(|column| value(random, column, start, series, *step))
            .collect();
        let seed = random.unit();
        self.run(client, &format!(
            "SELECT setseed({seed}); TRUNCATE s; INSERT INTO s SELECT {} FROM generate_series({}, {}) i",
            values.join(", "), first, first + count - 1
        ))?;
        let again = if random.one_in(5) {
            " UNION ALL SELECT * FROM s WHERE id % 3 = 0"
        } else {
            ""
        };
        let batch = if bulk { 1 } else { 1_000_000 };
        if crate::heap_pair::access_method() == "varve" {
            self.run(client, &format!("SET varve.batch_rows = {batch}"))?;
        }
        for to in ["h", "v"] {
            self.run(client, &format!("INSERT INTO {to} SELECT * FROM s{again}"))?;
        }
        Ok(())
    }

    fn modify(&mut self, client: &mut Client, random: &mut Random) -> Result<()> {
        let modulus = random.integer(2, 40);
        let rest = random.integer(0, modulus);
        let what = match random.integer(0, 4) {
            0 => format!("DELETE FROM {{t}} WHERE id % {modulus} = {rest}"),
            1 => format!(
                "DELETE FROM {{t}} WHERE id BETWEEN {} AND {}",
                rest * 50,
                rest * 50 + modulus
            ),
            2 => format!("UPDATE {{t}} SET id = id + 0 WHERE id % {modulus} = {rest}"),
            _ => {
                let column = random.pick(&self.columns[2..]).name.clone();
                format!("UPDATE {{t}} SET {column} = NULL WHERE id % {modulus} = {rest}")
            }
        };
        for to in ["h", "v"] {
            self.run(client, &what.replace("{t}", to))?;
        }
        Ok(())
    }

    fn alter(&mut self, client: &mut Client, random: &mut Random) -> Result<()> {
        let values: Vec<usize> = (0..self.columns.len())
            .filter(|&at| self.columns[at].name.starts_with('x'))
            .collect();
        if random.one_in(3) && values.len() > 2 {
            let at = *random.pick(&values);
            let name = self.columns.remove(at).name;
            for table in ["h", "v", "s"] {
                self.run(client, &format!("ALTER TABLE {table} DROP COLUMN {name}"))?;
            }
            return Ok(());
        }
        self.added += 1;
        let name = format!("xa{}", self.added);
        let (typ, default) = *random.pick(&[
            ("int", ""),
            ("int", " DEFAULT 7"),
            ("float8", " DEFAULT 1.5"),
            ("text", " DEFAULT 'new'"),
            ("numeric", " DEFAULT 2.50"),
        ]);
        for table in ["h", "v", "s"] {
            self.run(
                client,
                &format!("ALTER TABLE {table} ADD COLUMN {name} {typ}{default}"),
            )?;
        }
        self.columns.push(Column {
            name,
            typ,
            not_null: false,
        });
        Ok(())
    }
}

/// An expression in `i` for the values of a column.
fn value(random: &mut Random, column: &Column, start: i64, series: i64, step: i64) -> String {
    if column.name == "id" {
        return "i".into();
    }
    let null = |text: String, one_in: i64| {
        format!("CASE WHEN random() * {one_in} < 1 THEN NULL ELSE {text} END")
    };
    if column.name == "t" {
        let seconds = format!("({start} + i / {series}) * {step}");
        let plain = match column.typ {
            "bigint" => format!("({seconds})::bigint"),
            "date" => format!("date '2024-01-01' + ({seconds}) / 3600"),
            typ => format!("({typ} '2024-03-30 12:00:00' + {seconds} * interval '1 second')"),
        };
        return match (random.integer(0, 8), column.typ) {
            (0, _) if !column.not_null => null(plain, 50),
            (1, "timestamptz" | "timestamp" | "date") => format!(
                "CASE WHEN random() < 0.01 THEN '{}infinity'::{} ELSE {plain} END",
                random.pick(&["", "-"]),
                column.typ
            ),
            _ => plain,
        };
    }
    if column.name.starts_with('k') {
        let number = format!("(i % {series})");
        let plain = match column.typ {
            "int" => number,
            "text" => format!("'series ' || {number}"),
            _ => format!("md5({number}::text)::uuid"),
        };
        return if random.one_in(5) {
            null(plain, 40)
        } else {
            plain
        };
    }
    let plain = match column.typ {
        "smallint" => "(random() * 200 - 100)::smallint".to_string(),
        "int" => "(random() * 20 - 10)::int".into(),
        "bigint" => (*random.pick(&[
            "(random() * 1000)::bigint",
            "(random() * 9e18)::bigint - 4000000000000000000",
            "i::bigint * 1000003",
        ]))
        .into(),
        "real" => "round(random() * 400)::real / 4".into(),
        "float8" => (*random.pick(&[
            "random() * 1000 - 500",
            "round((random() * 100)::numeric, 1)::float8",
            "CASE WHEN random() < 0.02 THEN 'NaN' ELSE random() * 10 END",
            "CASE WHEN random() < 0.01 THEN 'Infinity' ELSE random() * 10 END",
            "CASE WHEN random() < 0.5 THEN -0.0 ELSE round(random() * 3) END",
            "12.5",
            "(i / 100)::float8",
        ]))
        .into(),
        "numeric" => (*random.pick(&[
            "round((random() * 100)::numeric, 2)",
            "round((random() * 100)::numeric, (i % 4)::int)",
            "CASE WHEN random() < 0.01 THEN 'NaN' ELSE (random() * 1e6)::numeric END",
        ]))
        .into(),
        "boolean" => "random() < 0.7".into(),
        "text" => (*random.pick(&["'w' || (random() * 5)::int", "md5(i::text)", "'only'"])).into(),
        "date" => "date '2020-02-27' + (random() * 100)::int".into(),
        "timestamptz" => "timestamptz '2020-02-27 00:00:00' + random() * interval '9 days'".into(),
        _ => "random() * interval '40 hours'".into(),
    };
    match random.integer(0, 6) {
        0 => null(plain, 10),
        1 => null(plain, 2),
        2 if random.one_in(4) => "NULL".to_string() + "::" + column.typ,
        _ => plain,
    }
}
