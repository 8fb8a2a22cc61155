//! Random tables: columns of every kind of type, and literals for them that include the values that codecs get wrong.

use crate::random::Random;

pub struct Table {
    pub columns: Vec<Column>,
    pub in_transaction: bool,
    pub savepoints: usize,
    pub next_id: i64,
    pub columns_made: usize,
    pub is_keyed: bool,
    indexed: Option<&'static str>,
}

#[derive(Clone)]
pub struct Column {
    pub name: String,
    pub kind: &'static Kind,
}

pub struct Kind {
    pub name: &'static str,
    /// Literals, special values first.
    literals: &'static [&'static str],
    /// An expression over the integer `g`, for rows made in bulk.
    pub series: &'static str,
}

const KINDS: [Kind; 18] = [
    Kind {
        name: "int2",
        literals: &["'-32768'", "32767", "0", "1"],
        series: "(g % 100)::int2",
    },
    Kind {
        name: "int4",
        literals: &["'-2147483648'", "2147483647", "0", "7"],
        series: "(g * 37 % 1000)::int4",
    },
    Kind {
        name: "int8",
        literals: &["'-9223372036854775808'", "9223372036854775807", "0", "10"],
        series: "g * 1000000007::int8",
    },
    Kind {
        name: "float4",
        literals: &["'NaN'", "'-0'", "'-Infinity'", "1.5", "3.4e38"],
        series: "(g / 8.0)::float4",
    },
    Kind {
        name: "float8",
        literals: &[
            "'NaN'",
            "'-0'",
            "'Infinity'",
            "0.1",
            "5e-324",
            "1.7976931348623157e308",
        ],
        series: "(g % 1000) / 10.0::float8",
    },
    Kind {
        name: "numeric",
        literals: &["'NaN'", "0.00", "-1e100", "123.4560", "1e-30"],
        series: "g / 100.0",
    },
    Kind {
        name: "numeric(10,2)",
        literals: &["99999999.99", "0", "-0.01"],
        series: "g % 10000 / 100.0",
    },
    Kind {
        name: "bool",
        literals: &["true", "false"],
        series: "g % 3 = 0",
    },
    Kind {
        name: "text",
        literals: &["''", "'a'", "'ünïcödé'", "repeat('long', 2000)", "'NULL'"],
        series: "'state ' || g % 5",
    },
    Kind {
        name: "varchar(20)",
        literals: &["''", "'short'", "'twenty characters ok'"],
        series: "'v' || g",
    },
    Kind {
        name: "char(6)",
        literals: &["'a'", "'abcdef'", "''"],
        series: "'c' || g % 9",
    },
    Kind {
        name: "bytea",
        literals: &["'\\x'", "'\\x00ff00'", "decode(repeat('ab', 3000), 'hex')"],
        series: "int8send(g)",
    },
    Kind {
        name: "date",
        literals: &["'-infinity'", "'2026-02-28'", "'4713-01-01 BC'"],
        series: "'2026-01-01'::date + (g % 1000)::int",
    },
    Kind {
        name: "timestamp",
        literals: &["'infinity'", "'2026-02-28 12:34:56.789012'"],
        series: "'2026-01-01'::timestamp + g * interval '1 min'",
    },
    Kind {
        name: "interval",
        literals: &["'1 mon -3 days 04:05:06.7'", "'0'"],
        series: "g * interval '1 s'",
    },
    Kind {
        name: "uuid",
        literals: &[
            "'00000000-0000-0000-0000-000000000000'",
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        ],
        series: "md5((g % 50)::text)::uuid",
    },
    Kind {
        name: "jsonb",
        literals: &["'null'", "'{}'", "'{\"a\": [1, 2.50, \"x\"]}'", "'[]'"],
        series: "jsonb_build_object('n', g % 7)",
    },
    Kind {
        name: "int4[]",
        literals: &["'{}'", "'{1,NULL,3}'", "'{{1,2},{3,4}}'"],
        series: "ARRAY[g, g + 1]::int4[]",
    },
];

impl Kind {
    pub fn literal(&self, random: &mut Random) -> String {
        if random.one_in(6) {
            return "NULL".into();
        }
        format!("{}::{}", random.pick(self.literals), self.name)
    }
}

impl Table {
    /// `id bigint, time timestamptz NOT NULL, device text`, and up to eight columns of random types.
    pub fn random(random: &mut Random) -> Self {
        let mut table = Self {
            columns: Vec::new(),
            in_transaction: false,
            savepoints: 0,
            next_id: 1,
            columns_made: 0,
            is_keyed: random.one_in(3),
            indexed: *random.pick(&[
                None,
                Some("device, time"),
                Some("time"),
                Some("device, id, time"),
            ]),
        };
        for _ in 0..random.integer(0, 9) {
            table.add_column(random);
        }
        table
    }

    pub fn add_column(&mut self, random: &mut Random) -> Column {
        self.columns_made += 1;
        let kind = &KINDS[random.integer(0, KINDS.len() as i64) as usize];
        let column = Column {
            name: format!("c{}", self.columns_made),
            kind,
        };
        self.columns.push(column.clone());
        column
    }

    /// The series index stands in the varve world as `USING varve`, in the heap world as a btree.
    pub fn definition(&self) -> Vec<String> {
        let columns: String = self
            .columns
            .iter()
            .map(|c| format!(", {} {}", c.name, c.kind.name))
            .collect();
        let key = if self.is_keyed {
            ", PRIMARY KEY (device, id, time)"
        } else {
            ""
        };
        let mut statements = vec![format!(
            "CREATE TABLE t(id bigint, time timestamptz NOT NULL, device text{columns}{key})"
        )];
        if let Some(keys) = self.indexed {
            statements.push(format!(
                "DO $$ BEGIN EXECUTE format('CREATE INDEX ON t USING %s ({keys})',
                 replace(current_setting('default_table_access_method'), 'heap', 'btree')); END $$"
            ));
        }
        statements
    }

    /// `(id, time, device, …)` as VALUES has it.
    pub fn row(&mut self, random: &mut Random) -> String {
        let id = self.next_id;
        self.next_id += 1;
        let id = if random.one_in(40) {
            random.integer(1, id + 1)
        } else {
            id
        };
        let values: String = self
            .columns
            .iter()
            .map(|c| format!(", {}", c.kind.literal(random)))
            .collect();
        format!(
            "({id}, '2026-01-01'::timestamptz + {} * interval '1 s', 'd{}'{values})",
            10 * id - random.integer(0, 25),
            random.integer(0, 6)
        )
    }

    /// A SELECT that makes `rows` rows.
    pub fn bulk(&mut self, random: &mut Random, rows: i64) -> String {
        let first = self.next_id;
        self.next_id += rows;
        let devices = random.integer(1, 12);
        let values: String = self
            .columns
            .iter()
            .map(|c| format!(", {}", c.kind.series))
            .collect();
        format!(
            "SELECT g, '2026-01-01'::timestamptz + (10 * g) * interval '1 s', 'd' || g % {devices}{values}
             FROM generate_series({first}::bigint, {}) g",
            first + rows - 1
        )
    }
}
