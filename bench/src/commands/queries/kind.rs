//! Types of queries, and what time they may take.

use crate::Result;

/// A type of query: its name, what was asked, and the time that is good enough.
pub struct Kind {
    pub name: String,
    pub queries: Vec<String>,
    pub most: Most,
    /// Buffers that varve may ask for, where none of its blocks may be decoded.
    pub most_buffers: Option<u64>,
}

/// The most time that a type of query may take.
#[derive(Clone, Copy)]
pub enum Most {
    /// By heap's.
    OfHeap(f64),
    /// In milliseconds.
    Ms(f64),
}

impl Kind {
    pub fn one(name: &str, query: &str, most: Most) -> Self {
        Kind {
            name: name.into(),
            queries: vec![query.into()],
            most,
            most_buffers: None,
        }
    }
}

impl Most {
    /// So many times as much.
    pub fn times(self, times: f64) -> Most {
        match self {
            // Without what doubles make of a decimal number.
            Most::OfHeap(most) => Most::OfHeap((most * times * 1e6).round() / 1e6),
            Most::Ms(most) => Most::Ms((most * times * 10.0).round() / 10.0),
        }
    }

    /// An error where varve took more.
    pub fn expect(self, heap: &Times, varve: &Times) -> Result<()> {
        let (heap, varve) = (heap.median, varve.median);
        let is_met = match self {
            Most::OfHeap(most) => varve / heap <= most,
            Most::Ms(most) => varve <= most,
        };
        match is_met {
            true => Ok(()),
            false => Err(format!(
                "{varve:.2} ms, {:.4} of heap's time, wanted {self}",
                varve / heap
            )
            .into()),
        }
    }
}

impl std::fmt::Display for Most {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Most::OfHeap(most) => write!(to, "{most}"),
            Most::Ms(most) => write!(to, "{most} ms"),
        }
    }
}

/// Times of a query in one of the set's tables, in milliseconds.
pub struct Times {
    pub median: f64,
    pub slowest: f64,
}

impl Times {
    pub fn of(mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times {
            median: times[times.len() / 2],
            slowest: times[(times.len() * 99 / 100).min(times.len() - 1)],
        }
    }
}
