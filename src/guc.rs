//! Settings.

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use std::time::Duration;
use varve_columns::chunk::Point;
use varve_columns::tuple::tid::MAX_HEADER_BLOCK;

/// `varve.compression`
#[derive(Clone, Copy, PostgresGucEnum)]
enum Compression {
    #[name = c"fast"]
    Fast,
    #[name = c"small"]
    Small,
}

/// `varve.debug_compress`
#[derive(Clone, Copy, PartialEq, PostgresGucEnum)]
enum DebugCompress {
    #[name = c"off"]
    Off,
    #[name = c"timeless"]
    Timeless,
    #[name = c"torture"]
    Torture,
}

static BATCH_MEMORY: GucSetting<i32> = GucSetting::<i32>::new(64 * 1024);
static BATCH_ROWS: GucSetting<i32> = GucSetting::<i32>::new(500);
static FRESH_CHUNKS: GucSetting<i32> = GucSetting::<i32>::new(32);
static SESSION_CACHE: GucSetting<i32> = GucSetting::<i32>::new(16 * 1024);
static CHUNK_ROWS: GucSetting<i32> = GucSetting::<i32>::new(65_536);
static COMPRESSION: GucSetting<Compression> = GucSetting::<Compression>::new(Compression::Fast);

static WORKER: GucSetting<bool> = GucSetting::<bool>::new(true);
static MAX_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(2);
static SEAL_ROWS: GucSetting<i32> = GucSetting::<i32>::new(16_384);
static SEAL_AFTER: GucSetting<i32> = GucSetting::<i32>::new(10);
static REFRESH_ROUND: GucSetting<i32> = GucSetting::<i32>::new(2_000);
static WORKER_COST_DELAY: GucSetting<i32> = GucSetting::<i32>::new(2);
static WORKER_COST_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(5_000);

static DEBUG_COMPRESS: GucSetting<DebugCompress> =
    GucSetting::<DebugCompress>::new(DebugCompress::Off);
static HEADER_PAGES: GucSetting<i32> = GucSetting::<i32>::new(MAX_HEADER_BLOCK as i32);

static ENABLE_AGGREGATE: GucSetting<bool> = GucSetting::<bool>::new(true);
static ENABLE_SCAN: GucSetting<bool> = GucSetting::<bool>::new(true);

pub fn init() {
    init_worker();
    init_developer();
    GucRegistry::define_bool_guc(
        c"varve.enable_aggregate",
        c"Lets the planner aggregate compressed columns without making rows of them.",
        c"",
        &ENABLE_AGGREGATE,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_bool_guc(
        c"varve.enable_scan",
        c"Lets the planner choose rows of compressed columns before making rows of them.",
        c"",
        &ENABLE_SCAN,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_enum_guc(
        c"varve.compression",
        c"What merged chunks prefer: fast decoding or small size.",
        c"",
        &COMPRESSION,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"varve.batch_memory",
        c"Memory for rows of bulk statements before they are written as chunks.",
        c"One limit for all tables and partitions that a statement fills.",
        &BATCH_MEMORY,
        1024,
        4 * 1024 * 1024,
        GucContext::Userset,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_int_guc(
        c"varve.batch_rows",
        c"Rows from which on a bulk statement writes chunks directly.",
        c"Fewer rows go to the tail of the table.",
        &BATCH_ROWS,
        1,
        i32::MAX,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"varve.fresh_chunks",
        c"Chunks of small batches that may wait for compact.",
        c"More small batches go to the tail of the table. Twice as many chunks may wait for batches of sixteen times as many rows.",
        &FRESH_CHUNKS,
        0,
        1_000_000,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"varve.session_cache",
        c"Memory for what a session has decoded of chunks, for its next transactions.",
        c"0 keeps nothing.",
        &SESSION_CACHE,
        0,
        4 * 1024 * 1024,
        GucContext::Userset,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_int_guc(
        c"varve.chunk_rows",
        c"Most rows of a chunk.",
        c"",
        &CHUNK_ROWS,
        1,
        65_536,
        GucContext::Userset,
        GucFlags::default(),
    );
}

fn init_worker() {
    GucRegistry::define_int_guc(
        c"varve.refresh_round",
        c"Time after which a refresh of a rollup commits what it has stored, and goes on in another transaction.",
        c"",
        &REFRESH_ROUND,
        0,
        3_600_000,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_bool_guc(
        c"varve.worker",
        c"Whether background workers compact tables and run jobs.",
        c"For the whole server, or for a database by ALTER DATABASE.",
        &WORKER,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"varve.max_workers",
        c"Most background workers at a time, in all databases.",
        c"They count among max_worker_processes, as do as many at most that wait for their turn. A database has one at most.",
        &MAX_WORKERS,
        1,
        64,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"varve.seal_rows",
        c"New rows of a table from which on it is compacted at once.",
        c"",
        &SEAL_ROWS,
        1,
        i32::MAX,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"varve.seal_after",
        c"Time after which fewer new rows are compacted too, if they are varve.batch_rows.",
        c"",
        &SEAL_AFTER,
        0,
        86_400,
        GucContext::Suset,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"varve.worker_cost_delay",
        c"Rest of a background worker when its round has cost varve.worker_cost_limit.",
        c"",
        &WORKER_COST_DELAY,
        0,
        1_000,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"varve.worker_cost_limit",
        c"What reading and writing pages may cost before a background worker rests.",
        c"Counted by vacuum_cost_page_hit, vacuum_cost_page_miss and vacuum_cost_page_dirty.",
        &WORKER_COST_LIMIT,
        1,
        1_000_000,
        GucContext::Suset,
        GucFlags::default(),
    );
}

/// Settings for tests of this extension.
fn init_developer() {
    GucRegistry::define_enum_guc(
        c"varve.debug_compress",
        c"Compresses what is not compressed otherwise: tables without a time column, or all rows as soon as they are committed.",
        c"For tests. All sessions of a database must have the same.",
        &DEBUG_COMPRESS,
        GucContext::Suset,
        GucFlags::NO_SHOW_ALL,
    );
    GucRegistry::define_int_guc(
        c"varve.debug_header_pages",
        c"First pages of a table that take headers of chunks.",
        c"For tests.",
        &HEADER_PAGES,
        1,
        MAX_HEADER_BLOCK as i32,
        GucContext::Suset,
        GucFlags::NO_SHOW_ALL,
    );
}

/// The block that headers of chunks must be below, so that virtual TIDs can name them.
pub fn header_pages() -> u32 {
    HEADER_PAGES.get() as u32
}

/// May background workers run?
pub fn has_worker() -> bool {
    WORKER.get()
}

pub fn max_workers() -> u32 {
    MAX_WORKERS.get() as u32
}

/// How long a transaction of a refresh goes on.
pub fn refresh_round() -> Duration {
    Duration::from_millis(REFRESH_ROUND.get() as u64)
}

/// How long a worker rests after a round of that cost.
pub fn worker_rest_ms(cost: u64) -> u64 {
    cost * WORKER_COST_DELAY.get() as u64 / WORKER_COST_LIMIT.get() as u64
}

pub fn batch_memory_bytes() -> usize {
    BATCH_MEMORY.get() as usize * 1024
}

/// 0 where a session keeps nothing of chunks.
pub fn session_cache_bytes() -> usize {
    SESSION_CACHE.get() as usize * 1024
}

pub fn batch_rows() -> usize {
    BATCH_ROWS.get() as usize
}

/// Chunks of batches of `batch_rows` that may wait for compact.
pub fn fresh_chunks() -> usize {
    FRESH_CHUNKS.get() as usize
}

/// What chunks that compact merges prefer.
pub fn merge_point() -> Point {
    match COMPRESSION.get() {
        Compression::Fast => Point::Fast,
        Compression::Small => Point::Small,
    }
}

pub fn enable_aggregate() -> bool {
    ENABLE_AGGREGATE.get()
}

pub fn enable_scan() -> bool {
    ENABLE_SCAN.get()
}

pub fn chunk_rows() -> usize {
    CHUNK_ROWS.get() as usize
}

/// For tests: tables without a time column are compressed too, in insertion order, and small batches however many there are.
pub fn compresses_everything() -> bool {
    DEBUG_COMPRESS.get() != DebugCompress::Off
}

/// Torture mode, for tests: besides, whatever its key, and whatever statement its rows come from, a table's rows are compressed as soon
/// as they are committed. All sessions must be in it.
pub fn is_torture() -> bool {
    DEBUG_COMPRESS.get() == DebugCompress::Torture
}
