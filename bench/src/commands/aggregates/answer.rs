//! What a query returned, and whether two answers are the same.

use super::query::{Compared, Query};
use crate::Result;
use postgres::{Client, SimpleQueryMessage};

pub enum Answer {
    /// Rows as text, sorted by their group columns.
    Rows(Vec<Vec<Option<String>>>),
    /// An SQLSTATE and its message.
    Error(String, String),
}

impl Answer {
    /// Runs a query in a transaction that has the savepoint `before`; an error does not end it.
    pub fn of(client: &mut Client, text: &str) -> Result<Answer> {
        let messages = match client.simple_query(text) {
            Ok(messages) => messages,
            Err(error) => {
                let Some(known) = error.as_db_error() else {
                    return Err(error.into());
                };
                let answer = Answer::Error(known.code().code().into(), known.message().into());
                client.batch_execute("ROLLBACK TO before")?;
                return Ok(answer);
            }
        };
        let mut rows = Vec::new();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                let columns = 0..row.len();
                rows.push(columns.map(|at| row.get(at).map(String::from)).collect());
            }
        }
        Ok(Answer::Rows(rows))
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Answer::Error(..))
    }

    /// Is it an error with this SQLSTATE and message?
    pub fn is_this_error(&self, (code, message): (&str, &str)) -> bool {
        matches!(self, Answer::Error(c, m) if c == code && m == message)
    }

    pub fn equals(&self, other: &Answer, query: &Query) -> bool {
        match (self, other) {
            (Answer::Error(a, _), Answer::Error(b, _)) => a == b,
            (Answer::Rows(a), Answer::Rows(b)) => {
                let (a, b) = (sorted(a, query), sorted(b, query));
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same_row(a, b, query))
            }
            _ => false,
        }
    }

    /// Rows of this answer that differ from those of another one.
    pub fn beside(&self, other: &Answer, query: &Query) -> String {
        match (self, other) {
            (Answer::Error(code, message), _) => format!("{code} {message}"),
            (Answer::Rows(own), Answer::Rows(others)) => {
                let (own, others) = (sorted(own, query), sorted(others, query));
                let differs = |row: &&Vec<Option<String>>| {
                    !others.iter().any(|other| same_row(row, other, query))
                };
                let some: Vec<_> = own.iter().filter(differs).take(4).collect();
                format!("{} rows, of which differ {some:?}", own.len())
            }
            (Answer::Rows(own), _) => format!("{} rows", own.len()),
        }
    }
}

fn sorted(rows: &[Vec<Option<String>>], query: &Query) -> Vec<Vec<Option<String>>> {
    let mut rows = rows.to_vec();
    let groups = query.groups.len();
    rows.sort_by_cached_key(|row| {
        let (groups, aggregates) = row.split_at(groups);
        let groups = groups
            .iter()
            .map(|value| value.as_deref().map(plain_number));
        // Grouping sets can have groups that look the same.
        let aggregates = aggregates.iter().map(|value| value.as_deref().map(roughly));
        groups.chain(aggregates).collect::<Vec<_>>()
    });
    rows
}

/// A number without the digits in which two answers may differ.
fn roughly(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) => format!("{:.4e}", number + 0.0),
        Err(_) => text.into(),
    }
}

/// A number without what does not change it.
fn plain_number(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if text.contains('.') => format!("{}", number + 0.0),
        _ if text == "-0" => "0".into(),
        _ => text.into(),
    }
}

fn same_row(a: &[Option<String>], b: &[Option<String>], query: &Query) -> bool {
    let groups = query.groups.iter().map(|_| Compared::Number);
    let modes = groups.chain(query.aggregates.iter().map(|aggregate| aggregate.compared));
    a.iter()
        .zip(b)
        .zip(modes)
        .all(|((a, b), mode)| match (a, b) {
            (Some(a), Some(b)) => match mode {
                Compared::Exactly => a == b,
                Compared::Number => plain_number(a) == plain_number(b),
                Compared::Nearly => near(a, b),
            },
            (a, b) => a == b,
        })
}

/// Do two floats differ by no more than the order of additions explains?
fn near(a: &str, b: &str) -> bool {
    let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else {
        return a == b;
    };
    if !x.is_finite() || !y.is_finite() {
        return x == y || x.is_nan() && y.is_nan();
    }
    (x - y).abs() <= 1e-6 * x.abs().max(y.abs()).max(1.0)
}
