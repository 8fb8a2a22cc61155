//! Tables that refer to each other: a compressed parent and a heap, and children of both kinds with one action each. Every table
//! has a ledger. Children's is written by a trigger; a parent has none for inserts, which would keep its rows from going straight
//! into chunks, so that statements write those lines themselves.

use super::{create_table, ledger};
use crate::heap_pair::access_method;
use crate::Result;
use postgres::Client;

pub const PARENTS: [&str; 2] = ["parent", "heap_parent"];

pub struct Child {
    pub table: &'static str,
    pub parent: &'static str,
    heap: bool,
    key: &'static str,
    actions: &'static str,
    /// An index of the columns that refer, if there is one: it finds compressed children, or those of the tail only.
    index: Option<Index>,
}

enum Index {
    Series,
    Tail,
}

pub const CHILDREN: [Child; 5] = [
    Child {
        table: "cascaded",
        parent: "parent",
        heap: false,
        key: "device, time, place",
        actions: "ON DELETE CASCADE ON UPDATE CASCADE",
        index: Some(Index::Series),
    },
    Child {
        table: "nulled",
        parent: "parent",
        heap: false,
        key: "place, at",
        actions: "ON DELETE SET NULL ON UPDATE SET NULL",
        index: None,
    },
    Child {
        table: "deferred",
        parent: "parent",
        heap: false,
        key: "place, at",
        actions: "DEFERRABLE INITIALLY DEFERRED",
        index: Some(Index::Tail),
    },
    Child {
        table: "heap_child",
        parent: "parent",
        heap: true,
        key: "place, at",
        actions: "ON DELETE RESTRICT ON UPDATE CASCADE",
        index: Some(Index::Tail),
    },
    Child {
        table: "of_heap",
        parent: "heap_parent",
        heap: false,
        key: "place, at",
        actions: "ON DELETE CASCADE ON UPDATE CASCADE",
        index: None,
    },
];

pub const COMPRESSED: [&str; 5] = ["parent", "cascaded", "nulled", "deferred", "of_heap"];

pub fn create(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE FUNCTION enter_family() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF TG_OP <> 'INSERT' THEN EXECUTE format('INSERT INTO %I SELECT $1.*, -1', TG_TABLE_NAME || '_ledger') USING OLD; END IF;
             IF TG_OP <> 'DELETE' THEN EXECUTE format('INSERT INTO %I SELECT $1.*, 1', TG_TABLE_NAME || '_ledger') USING NEW; END IF;
             RETURN NULL;
         END $$",
    )?;
    create_table(client, PARENTS[0], &access_method())?;
    create_table(client, PARENTS[1], "heap")?;
    for parent in PARENTS {
        keep_ledger(client, parent, "UPDATE OR DELETE")?;
    }
    for child in &CHILDREN {
        child.create(client)?;
        keep_ledger(client, child.table, "INSERT OR UPDATE OR DELETE")?;
    }
    Ok(())
}

impl Child {
    fn create(&self, client: &mut Client) -> Result<()> {
        let Self {
            table,
            parent,
            key,
            actions,
            ..
        } = self;
        let method = if self.heap {
            "heap".into()
        } else {
            access_method()
        };
        let mut sql = format!(
            "CREATE TABLE {table}(place int, at timestamptz, device int, time timestamptz, value bigint,
                 PRIMARY KEY ({key}), FOREIGN KEY (device, time) REFERENCES {parent} {actions}) USING {method};"
        );
        if let Some(index) = &self.index {
            let method = match index {
                Index::Series if method == "varve" => "varve",
                _ => "btree",
            };
            sql += &format!("CREATE INDEX ON {table} USING {method} (device, time)");
        }
        Ok(client.batch_execute(&sql)?)
    }

    /// An error that shows a child whose parent is not there.
    fn expect_parents(&self, client: &mut Client) -> Result<()> {
        let Self { table, parent, .. } = self;
        let orphans = client.query(
            &format!(
                "SELECT c::text FROM {table} c WHERE NOT (device IS NULL AND time IS NULL)
                 AND NOT EXISTS (SELECT FROM {parent} p WHERE (p.device, p.time) = (c.device, c.time))"
            ),
            &[],
        )?;
        match orphans.first() {
            None => Ok(()),
            Some(row) => Err(format!(
                "{} rows of {table} without a parent, among them {}",
                orphans.len(),
                row.get::<_, String>(0)
            )
            .into()),
        }
    }
}

fn keep_ledger(client: &mut Client, table: &str, events: &str) -> Result<()> {
    Ok(client.batch_execute(&format!(
        "CREATE TABLE {table}_ledger AS SELECT *, 0 AS n FROM {table} WITH NO DATA;
         CREATE TRIGGER enter AFTER {events} ON {table} FOR EACH ROW EXECUTE FUNCTION enter_family()"
    ))?)
}

/// Each table is what its ledger says and has each key once, and no child is without its parent.
pub fn expect_right(client: &mut Client) -> Result<()> {
    for child in &CHILDREN {
        child.expect_parents(client)?;
        let columns = "place, at, device, time, value";
        ledger::expect_rows(client, child.table, columns, child.key)?;
    }
    PARENTS
        .iter()
        .try_for_each(|parent| ledger::expect_right(client, parent))
}
