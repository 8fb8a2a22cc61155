//! Random queries with aggregates over a table.

use super::table::{Column, Table};
use crate::random::Random;

/// How values of an output column are compared.
#[derive(Clone, Copy, PartialEq)]
pub enum Compared {
    Exactly,
    /// As numbers: display scale and the sign of zero do not count.
    Number,
    /// But for the last bits.
    Nearly,
}

#[derive(Clone)]
pub struct Aggregate {
    pub text: String,
    pub compared: Compared,
}

/// What is made of the rows.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Groups,
    /// Groups of several sets of columns, in these words.
    Sets(&'static str),
    /// The rows themselves: `groups` are all that is asked for.
    Rows,
}

#[derive(Clone)]
pub struct Query {
    shape: Shape,
    pub groups: Vec<String>,
    pub aggregates: Vec<Aggregate>,
    conditions: Vec<String>,
    having: Option<String>,
    /// A join with the relation `p`, whose rows name series.
    join: Option<Join>,
    /// The first so many groups in their order.
    limit: Option<Limit>,
}

#[derive(Clone)]
struct Limit {
    descending: bool,
    count: u64,
}

#[derive(Clone)]
struct Join {
    /// `t`, the table, stands for its name.
    on: String,
    is_inner: bool,
}

impl Query {
    pub fn random(random: &mut Random, table: &Table) -> Query {
        let columns = &table.columns;
        if table.is_by_ranges() && random.one_in(2) {
            return Query::of_keys(random, columns);
        }
        let mut groups: Vec<String> = (0..random.integer(0, 4))
            .map(|_| group(random, columns))
            .collect();
        // A third is what has no partial states.
        let shape = match random.integer(0, 9) {
            0 => Shape::Rows,
            1 if !groups.is_empty() => {
                Shape::Sets(["ROLLUP", "CUBE"][random.integer(0, 2) as usize])
            }
            _ => Shape::Groups,
        };
        let mut aggregates: Vec<Aggregate> = (0..random.integer(1, 6))
            .map(|_| aggregate(random, columns))
            .collect();
        if random.one_in(6) {
            aggregates.push(whole_aggregate(random, columns));
        }
        if shape == Shape::Rows {
            aggregates.clear();
            groups.extend((0..random.integer(1, 4)).map(|_| of_row(random, columns)));
        }
        let conditions = (0..random.integer(0, 4))
            .map(|_| condition(random, columns))
            .collect();
        let having = (shape != Shape::Rows && random.one_in(6))
            .then(|| format!("count(*) > {}", random.integer(0, 20)));
        let join = random.one_in(5).then(|| join_of(random, columns)).flatten();
        let limit = (shape == Shape::Groups && random.one_in(4)).then(|| Limit {
            descending: random.one_in(2),
            count: random.integer(1, 12) as u64,
        });
        Query {
            shape,
            groups,
            aggregates,
            conditions,
            having,
            join,
            limit,
        }
    }

    /// One whose groups several processes may finish, each those of some keys.
    fn of_keys(random: &mut Random, columns: &[Column]) -> Query {
        let mut groups: Vec<String> = (0..random.integer(0, 3))
            .map(|_| group(random, columns))
            .collect();
        groups.push("k0".into());
        let mut functions = vec!["count(*)".to_string()];
        for _ in 0..random.integer(0, 4) {
            let column = random.pick(columns);
            let function = *match column.typ {
                "int" | "smallint" | "bigint" => {
                    random.pick(&["sum", "avg", "min", "max", "count"])
                }
                "timestamptz" | "timestamp" | "date" => random.pick(&["min", "max", "count"]),
                _ => &"count",
            };
            functions.push(format!("{function}({})", column.name));
        }
        let exactly = |text: String| Aggregate {
            text,
            compared: Compared::Exactly,
        };
        Query {
            shape: Shape::Groups,
            groups,
            aggregates: functions.into_iter().map(exactly).collect(),
            conditions: (0..random.integer(0, 3))
                .map(|_| condition(random, columns))
                .collect(),
            having: None,
            join: None,
            limit: None,
        }
    }

    pub fn text(&self, table: &str) -> String {
        let outputs = self
            .groups
            .iter()
            .chain(self.aggregates.iter().map(|own| &own.text));
        let mut text = format!("SELECT {} FROM {table}", join(outputs, ", "));
        let mut conditions = self.conditions.clone();
        match &self.join {
            Some(join) if join.is_inner => text += &format!(" JOIN p ON {}", join.on),
            Some(join) => conditions.push(format!("EXISTS (SELECT FROM p WHERE {})", join.on)),
            None => {}
        }
        if !conditions.is_empty() {
            text += &format!(" WHERE {}", join(conditions.iter(), " AND "));
        }
        let numbers: Vec<String> = (1..=self.groups.len()).map(|n| n.to_string()).collect();
        let numbers = numbers.join(", ");
        match self.shape {
            _ if self.groups.is_empty() => {}
            Shape::Rows => {}
            Shape::Groups => text += &format!(" GROUP BY {numbers}"),
            Shape::Sets(sets) => text += &format!(" GROUP BY {sets} ({numbers})"),
        }
        if let Some(having) = &self.having {
            text += &format!(" HAVING {having}");
        }
        if let Some(limit) = self.limit.as_ref().filter(|_| !self.groups.is_empty()) {
            let direction = if limit.descending { " DESC" } else { "" };
            let numbers = (1..=self.groups.len()).map(|n| format!("{n}{direction}"));
            let numbers: Vec<String> = numbers.collect();
            text += &format!(" ORDER BY {} LIMIT {}", numbers.join(", "), limit.count);
        }
        text
    }

    pub fn is_join(&self) -> bool {
        self.join.is_some()
    }

    /// The query without one of its parts.
    pub fn smaller(&self) -> Vec<Query> {
        let mut all = Vec::new();
        for at in 0..self.conditions.len() {
            let mut query = self.clone();
            query.conditions.remove(at);
            all.push(query);
        }
        for at in 0..self.groups.len() {
            let mut query = self.clone();
            query.groups.remove(at);
            all.push(query);
        }
        for at in 0..self.aggregates.len() {
            let mut query = self.clone();
            query.aggregates.remove(at);
            if !query.aggregates.is_empty() {
                all.push(query);
            }
        }
        if self.join.is_some() {
            all.push(Query {
                join: None,
                ..self.clone()
            });
        }
        if self.limit.is_some() {
            all.push(Query {
                limit: None,
                ..self.clone()
            });
        }
        if self.having.is_some() {
            all.push(Query {
                having: None,
                ..self.clone()
            });
        }
        all
    }
}

fn join<'a>(parts: impl Iterator<Item = &'a String>, with: &str) -> String {
    parts.map(String::as_str).collect::<Vec<_>>().join(with)
}

/// By a column of integers or texts; rows of `p` come once or more, and not all of them are series.
fn join_of(random: &mut Random, columns: &[Column]) -> Option<Join> {
    let keys: Vec<&Column> = columns
        .iter()
        .filter(|column| column.name.starts_with('k') || random.one_in(4))
        .filter(|column| matches!(column.typ, "int" | "smallint" | "bigint" | "text"))
        .collect();
    if keys.is_empty() {
        return None;
    }
    let column = random.pick(&keys);
    let value = match column.typ {
        "text" => "series",
        "int" => *random.pick(&["number", "wide"]),
        _ => "number",
    };
    let part = match random.integer(0, 3) {
        0 => " AND weight > 3",
        1 => " AND weight IN (1, 2, 40)",
        _ => "",
    };
    Some(Join {
        on: format!("p.{value} = {}{part}", column.name),
        is_inner: random.one_in(2),
    })
}

fn time(columns: &[Column]) -> &Column {
    &columns[1]
}

fn group(random: &mut Random, columns: &[Column]) -> String {
    let time = time(columns);
    if random.one_in(3) {
        let other = random.pick(columns);
        let name = &other.name;
        return match other.typ {
            "float8" | "real" | "interval" => format!("{name} IS NULL"),
            "int" | "smallint" | "bigint" if random.one_in(2) => format!("{name} % 7"),
            "numeric" => format!("trunc({name})"),
            "text" if random.one_in(3) => format!("length({name})"),
            "timestamptz" if name != "t" => format!("{name}::date"),
            "timestamptz" | "timestamp" | "date" => format!("extract(isodow FROM {name})"),
            _ => name.clone(),
        };
    }
    let width = random.pick(&[1, 5, 30, 60, 600, 3600, 86400]);
    match time.typ {
        "bigint" => match random.integer(0, 3) {
            0 => format!("time_bucket({width}::bigint, t)"),
            1 => format!("t / {width}"),
            _ => format!("(t / {width}) * {width} + 5"),
        },
        "date" => match random.integer(0, 3) {
            0 => format!("time_bucket('{} days', t)", random.integer(1, 40)),
            1 => "time_bucket('1 month', t)".into(),
            _ => "date_trunc('month', t)".into(),
        },
        typ => match random.integer(0, 7) {
            0 | 1 => format!("time_bucket('{width} seconds', t)"),
            2 => format!(
                "date_trunc('{}', t)",
                random.pick(&["minute", "hour", "day", "week", "month"])
            ),
            3 => format!("date_bin('{width} seconds', t, {typ} '2001-01-01')"),
            4 => format!("floor(extract(epoch FROM t) / {width}) * {width}"),
            5 if typ == "timestamptz" => {
                let zone = random.pick(&["Europe/Berlin", "Australia/Lord_Howe", "EST5EDT"]);
                let width = random.pick(&["1 minute", "3 hours", "1 day", "2 months"]);
                format!("time_bucket('{width}', t, '{zone}')")
            }
            5 => "t::date".into(),
            _ => format!("time_bucket('{width} seconds', t, {typ} '2020-01-01 00:00:07')"),
        },
    }
}

fn aggregate(random: &mut Random, columns: &[Column]) -> Aggregate {
    let column = random.pick(columns);
    let (name, typ) = (&column.name, column.typ);
    let is_float = matches!(typ, "float8" | "real");
    let is_number = is_float || matches!(typ, "int" | "smallint" | "bigint" | "numeric");
    let (mut text, compared) = match random.integer(0, 12) {
        0 => ("count(*)".to_string(), Compared::Exactly),
        1 => (format!("count({name})"), Compared::Exactly),
        2 | 3 if typ != "boolean" && typ != "uuid" => (
            format!("{}({name})", random.pick(&["min", "max"])),
            Compared::Number,
        ),
        4 if typ == "interval" => (format!("sum({name})"), Compared::Exactly),
        4 | 5 if is_float => (format!("sum({name})"), Compared::Nearly),
        4 | 5 if is_number => (format!("sum({name})"), Compared::Exactly),
        6 if is_float => (format!("avg({name})"), Compared::Nearly),
        6 if is_number => (format!("avg({name})"), Compared::Exactly),
        7 | 8 if is_number => {
            let function = random.pick(&["stddev", "variance", "var_pop", "stddev_pop"]);
            let compared = if is_float {
                Compared::Nearly
            } else {
                Compared::Exactly
            };
            (format!("{function}({name})"), compared)
        }
        9 if typ == "boolean" => (
            format!("{}({name})", random.pick(&["bool_and", "bool_or", "every"])),
            Compared::Exactly,
        ),
        9 if is_number && typ != "bigint" => (
            format!("sum({name} * 2 + 1)"),
            if is_float {
                Compared::Nearly
            } else {
                Compared::Exactly
            },
        ),
        10 if matches!(typ, "int" | "smallint") => (
            format!("{}({name})", random.pick(&["bit_and", "bit_or"])),
            Compared::Exactly,
        ),
        10 => (
            format!("max(coalesce({name}::text, 'none'))"),
            Compared::Exactly,
        ),
        11 => (
            "string_agg(id::text, ',' ORDER BY id)".into(),
            Compared::Exactly,
        ),
        _ => (format!("count({name})"), Compared::Exactly),
    };
    if random.one_in(6) {
        text = format!("{text} FILTER (WHERE {})", condition(random, columns));
    }
    Aggregate { text, compared }
}

/// An aggregate that needs all rows of a group at once.
fn whole_aggregate(random: &mut Random, columns: &[Column]) -> Aggregate {
    let column = random.pick(columns);
    let (name, typ) = (&column.name, column.typ);
    let is_whole = matches!(typ, "int" | "smallint" | "bigint");
    let is_float = matches!(typ, "float8" | "real");
    let (mut text, compared) = match random.integer(0, 7) {
        0 if is_whole => (format!("sum(DISTINCT {name})"), Compared::Exactly),
        1 if is_whole || matches!(typ, "text" | "date" | "boolean") => (
            format!("array_agg({name} ORDER BY {name})"),
            Compared::Exactly,
        ),
        2 if is_whole || typ == "text" => (
            format!("json_agg({name} ORDER BY id, {name})"),
            Compared::Exactly,
        ),
        3 if is_float || is_whole => {
            let text = format!("percentile_cont(0.3) WITHIN GROUP (ORDER BY {name})");
            (text, Compared::Nearly)
        }
        4 if is_whole || typ == "text" => {
            let function = random.pick(&["percentile_disc(0.6)", "mode()"]);
            let text = format!("{function} WITHIN GROUP (ORDER BY {name})");
            (text, Compared::Exactly)
        }
        5 => {
            let text = format!("string_agg({name}::text, ',' ORDER BY {name}::text)");
            (text, Compared::Exactly)
        }
        _ => (format!("count(DISTINCT {name})"), Compared::Exactly),
    };
    if random.one_in(6) {
        text = format!("{text} FILTER (WHERE {})", condition(random, columns));
    }
    Aggregate { text, compared }
}

/// Something of a row, or of what is around it.
fn of_row(random: &mut Random, columns: &[Column]) -> String {
    let column = random.pick(columns);
    let (name, typ) = (&column.name, column.typ);
    match random.integer(0, 6) {
        0 => format!("rank() OVER (PARTITION BY {name} ORDER BY id)"),
        1 => format!(
            "count({name}) OVER (PARTITION BY {})",
            group(random, columns)
        ),
        2 if matches!(typ, "int" | "smallint" | "bigint") => format!("{name} / 3"),
        3 => format!("{name}::text || '.'"),
        4 => format!("{} AS chosen", one_condition(random, columns)),
        _ => name.clone(),
    }
}

/// Conditions, some of them joined by OR and AND.
fn condition(random: &mut Random, columns: &[Column]) -> String {
    match random.integer(0, 8) {
        0 => format!(
            "({} OR {})",
            one_condition(random, columns),
            one_condition(random, columns)
        ),
        1 => format!(
            "({} OR {} AND {} OR {})",
            one_condition(random, columns),
            one_condition(random, columns),
            one_condition(random, columns),
            one_condition(random, columns)
        ),
        _ => one_condition(random, columns),
    }
}

fn one_condition(random: &mut Random, columns: &[Column]) -> String {
    let column = match random.one_in(3) {
        true => time(columns),
        false => random.pick(columns),
    };
    let name = &column.name;
    let compare = *random.pick(&["<", "<=", "=", ">=", ">", "<>"]);
    match (random.integer(0, 9), column.typ) {
        (0, _) => format!("{name} IS {}NULL", random.pick(&["", "NOT "])),
        (_, "boolean") => {
            (*random.pick(&["{}", "NOT {}", "{} IS TRUE", "{} = true"])).replace("{}", name)
        }
        (1, "int" | "smallint" | "bigint") => format!("{name} IN (1, 3, 5, NULL, -7)"),
        (2, "int" | "smallint" | "bigint") => format!("{name} % 5 {compare} 2"),
        (3, "int" | "smallint" | "bigint") => format!("({name} < 3 OR {name} > 7)"),
        (4, "int" | "smallint") => format!("{} {compare} {name}", random.integer(-10, 20)),
        (_, "smallint" | "int" | "bigint") if name != "id" && name != "t" => {
            format!("{name} {compare} {}", random.integer(-10, 20))
        }
        (_, "smallint" | "int" | "bigint") => {
            format!("{name} {compare} {}", random.integer(0, 9000))
        }
        (1, "float8" | "real") => format!("{name} {compare} 'NaN'"),
        (2, "float8") => format!("{name} IN (0, 1, 12.5, 'NaN')"),
        (_, "float8" | "real" | "numeric") => {
            format!("{name} {compare} {}", random.integer(-5, 50))
        }
        (1..=3, "text") => format!("{name} IN ('series 1', 'series 4', 'w2', 'only')"),
        (4, "text") => format!("{name} LIKE '%1%'"),
        (_, "text") => format!(
            "{name} {compare} '{}'",
            random.pick(&["series 2", "w3", "only", "a"])
        ),
        (_, "uuid") => format!("{name} {compare} md5('{}')::uuid", random.integer(0, 9)),
        (_, "date") => format!(
            "{name} {compare} date '2024-01-01' + {}",
            random.integer(-10, 9000)
        ),
        (_, "interval") => format!(
            "{name} {compare} interval '{} hours'",
            random.integer(0, 50)
        ),
        (1, "timestamptz") => format!("{name} {compare} now()"),
        (2, "timestamptz") => {
            format!("time_bucket('1 hour', {name}) {compare} '2024-03-31 12:00:00Z'")
        }
        (_, typ) => format!(
            "{name} {compare} {typ} '2024-03-30 12:00:00' + interval '{} minutes'",
            random.integer(-100, 30_000)
        ),
    }
}
