//! Types other than floats, made up as they come in practice, beside zstd over their values with lengths.

use std::fmt::Write;

use varve_columns::codec::bytes::Strings;
use varve_columns::codec::{bytes, fixed, int, Guess, Point, Tier};
use varve_columns::wire::{put_varint, Reader};

/// Values of each kind.
const ROWS: u64 = 32_768;

/// Columns of the table: rows of a block, and how it is coded.
const CODED: [(&str, usize, Option<Tier>); 5] = [
    ("zstd-1, 1,024", 1024, None),
    ("fresh, 1,024", 1024, Some(Tier::Fresh)),
    ("zstd-1, 8,192", 8192, None),
    ("fast, 8,192", 8192, Some(Tier::Merged(Point::Fast))),
    ("small, 8,192", 8192, Some(Tier::Merged(Point::Small))),
];

enum Values {
    Strings(Vec<Vec<u8>>),
    Fixed(Vec<[u8; 16]>),
    Integers(Vec<i64>),
}

/// The table as Markdown: bytes per value.
pub fn markdown() -> String {
    let names: Vec<&str> = CODED.iter().map(|(name, ..)| *name).collect();
    let mut out = format!(
        "\n## Other types, bytes per value\n\n\
         Made up, {ROWS} values each; zstd-1 is one frame a block over the values, each with its length in front where it has one.\n\n\
         | type | raw | {} |\n|---|---|{}\n",
        names.join(" | "),
        "---|".repeat(CODED.len())
    );
    for (name, values) in kinds() {
        let sizes = CODED.map(|(_, rows, tier)| {
            let blocks = (0..ROWS as usize).step_by(rows);
            let bytes: usize = blocks.map(|start| size(&values, start, rows, tier)).sum();
            format!("{:.2}", bytes as f64 / ROWS as f64)
        });
        let raw = raw_bytes(&values) as f64 / ROWS as f64;
        let _ = writeln!(out, "| {name} | {raw:.1} | {} |", sizes.join(" | "));
    }
    out
}

fn raw_bytes(values: &Values) -> usize {
    match values {
        Values::Strings(strings) => strings.iter().map(Vec::len).sum(),
        Values::Fixed(fixed) => fixed.len() * 16,
        Values::Integers(integers) => integers.len() * 8,
    }
}

/// Bytes of one block; no tier: zstd of the values.
fn size(values: &Values, start: usize, rows: usize, tier: Option<Tier>) -> usize {
    let mut out = Vec::new();
    match (values, tier) {
        (Values::Strings(strings), None) => {
            for string in &strings[start..start + rows] {
                put_varint(&mut out, string.len() as u64);
                out.extend_from_slice(string);
            }
        }
        (Values::Fixed(fixed), None) => out = fixed[start..start + rows].concat(),
        (Values::Integers(integers), None) => {
            let bytes = integers[start..start + rows].iter();
            out = bytes.flat_map(|integer| integer.to_le_bytes()).collect();
        }
        (Values::Strings(strings), Some(tier)) => {
            return coded_strings(&strings[start..start + rows], tier)
        }
        (Values::Fixed(fixed), Some(tier)) => {
            let data = fixed[start..start + rows].concat();
            let codec = fixed::encode(&data, 16, tier, &mut out);
            let mut back = Vec::new();
            let decoded = fixed::decode(codec, Reader::new(&out), 16, rows, &mut back);
            assert!(
                decoded.is_ok() && back == data,
                "BUG: a block came back changed"
            );
            return out.len() + 1;
        }
        (Values::Integers(integers), Some(tier)) => {
            let integers = &integers[start..start + rows];
            let mut guess = Guess::default();
            let codec = int::encode_body(integers, tier, guess.order(), &mut out);
            let mut back = Vec::new();
            let decoded = int::decode_body(codec, Reader::new(&out), rows, &mut back);
            assert!(
                decoded.is_ok() && back == integers,
                "BUG: a block came back changed"
            );
            return out.len() + 1;
        }
    }
    zstd::bulk::compress(&out, 1)
        .expect("BUG: zstd refused bytes")
        .len()
}

fn coded_strings(strings: &[Vec<u8>], tier: Tier) -> usize {
    let data = strings.concat();
    let ends: Vec<u32> = strings
        .iter()
        .scan(0, |end, string| {
            *end += string.len() as u32;
            Some(*end)
        })
        .collect();
    let (mut out, mut back_ends, mut back) = (Vec::new(), Vec::new(), Vec::new());
    let strings = Strings {
        ends: &ends,
        data: &data,
    };
    let codec = bytes::encode(strings, tier, &mut out);
    let decoded = bytes::decode(
        codec,
        Reader::new(&out),
        ends.len(),
        &mut back_ends,
        &mut back,
    );
    let same = decoded.is_ok() && (&back_ends, &back) == (&ends, &data);
    assert!(same, "BUG: a block came back changed");
    out.len() + 1
}

/// SplitMix64 (Steele et al. 2014), as a function of its position.
fn mix(i: u64) -> u64 {
    let mut z = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Independent numbers of one row; `mix(i)` itself is none of them.
fn part(i: u64, salt: u64) -> u64 {
    mix((i + 1) << 20 | salt)
}

fn pick(i: u64, salt: u64, of: &[&'static str]) -> &'static str {
    of[(part(i, 40 + salt) % of.len() as u64) as usize]
}

fn kinds() -> Vec<(&'static str, Values)> {
    let text =
        |of: fn(u64) -> String| Values::Strings((0..ROWS).map(|i| of(i).into_bytes()).collect());
    vec![
        ("text: few labels", text(label)),
        ("text: host names", text(host)),
        ("text: URLs", text(url)),
        ("text: log lines", text(log_line)),
        ("text: random uuids", text(|i| hyphenated(random_uuid(i)))),
        ("jsonb-like documents", text(document)),
        (
            "uuid, version 4",
            Values::Fixed((0..ROWS).map(random_uuid).collect()),
        ),
        (
            "uuid, version 7",
            Values::Fixed((0..ROWS).map(timed_uuid).collect()),
        ),
        (
            "uuid, 500 of version 4",
            Values::Fixed((0..ROWS).map(|i| random_uuid(mix(i) % 500)).collect()),
        ),
        (
            "inet, clients",
            Values::Strings((0..ROWS).map(client).collect()),
        ),
        (
            "inet, a /16",
            Values::Strings(
                (0..ROWS)
                    .map(|i| inet([10, 20, mix(2 * i) as u8, mix(2 * i + 1) as u8]))
                    .collect(),
            ),
        ),
        (
            "money",
            Values::Integers(
                (0..ROWS)
                    .map(|i| (mix(i) % 500 * (part(i, 5) % 20 + 1) * 5) as i64 + 99)
                    .collect(),
            ),
        ),
        (
            "int4[], 3 to 6 elements",
            Values::Strings((0..ROWS).map(array).collect()),
        ),
    ]
}

fn label(i: u64) -> String {
    format!(
        "{}-{}",
        pick(i / 7, 1, &["api", "web", "db", "cache"]),
        mix(i / 7) % 20
    )
}

fn host(i: u64) -> String {
    let region = pick(i, 1, &["eu-west-1", "us-east-1", "ap-south-1"]);
    let byte = |salt| part(i, salt) % 256;
    format!(
        "ip-10-{}-{}-{}.{region}.compute.internal",
        byte(1) % 4,
        byte(2),
        byte(3)
    )
}

fn url(i: u64) -> String {
    let area = pick(
        i,
        1,
        &["shop", "news", "blog/archive", "api/v2/items", "search"],
    );
    let action = pick(i, 2, &["list", "detail", "edit", "view", "cart/checkout"]);
    let referrer = pick(i, 3, &["mail", "search", "social", "direct"]);
    let (id, page) = (mix(i) % 1_000_000, part(i, 7) % 40);
    format!("https://www.example.com/{area}/{action}?id={id}&page={page}&ref={referrer}")
}

fn log_line(i: u64) -> String {
    let level = pick(i, 1, &["INFO", "INFO", "INFO", "WARN", "ERROR"]);
    let worker = pick(i, 2, &["worker-1", "worker-2", "worker-3", "scheduler"]);
    let request = pick(i, 3, &["GET /api/users", "POST /api/orders", "GET /health"]);
    let (id, a, b) = (mix(i) as u32, part(i, 1) % 16, part(i, 2) % 256);
    let (ms, us) = (part(i, 3) % 300, part(i, 4) % 1000);
    format!("{level} [{worker}] {request} request {id:08x} from 10.0.{a}.{b} took {ms}.{us:03} ms")
}

fn document(i: u64) -> String {
    let state = pick(i, 1, &["ok", "ok", "degraded", "failed"]);
    let (device, build) = (mix(i) % 2000, mix(i / 50) % 30);
    let (level, load) = (part(i, 1) % 101, part(i, 2) % 10_000);
    format!(
        r#"{{"device": "sensor-{device:04}", "state": "{state}", "battery": {level}, "load": {}.{:02}, "tags": ["v{build}", "site-{}"]}}"#,
        load / 100,
        load % 100,
        device % 12
    )
}

fn random_uuid(i: u64) -> [u8; 16] {
    let bits = u128::from(mix(2 * i)) << 64 | u128::from(mix(2 * i + 1));
    with_version(bits, 4)
}

/// A few a millisecond.
fn timed_uuid(i: u64) -> [u8; 16] {
    let ms = 1_700_000_000_000 + i * 7 / 10 + mix(i) % 2;
    let bits = u128::from(ms) << 80
        | u128::from(mix(2 * i)) << 16 & ((1 << 80) - 1)
        | u128::from(mix(2 * i + 1)) >> 48;
    with_version(bits, 7)
}

fn with_version(bits: u128, version: u128) -> [u8; 16] {
    let bits = bits & !(0xF << 76) & !(0x3 << 62) | version << 76 | 0x2 << 62;
    bits.to_be_bytes()
}

fn hyphenated(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// As the body of PostgreSQL's inet: family, length of the mask, address.
fn inet(address: [u8; 4]) -> Vec<u8> {
    [&[2, 32][..], &address].concat()
}

/// Some clients come oftener than others.
fn client(i: u64) -> Vec<u8> {
    let rank = mix(i) % (1 << (part(i, 3) % 14));
    inet((mix(rank + 1_000_000) as u32).to_be_bytes())
}

/// As the body of PostgreSQL's int4[]: dimensions, nulls, type, length, lower bound, elements.
fn array(i: u64) -> Vec<u8> {
    let len = 3 + (mix(i) % 4) as u32;
    let elements = (0..u64::from(len)).map(|k| 100 * k as u32 + (mix(i * 8 + k) % 60) as u32);
    [1, 0, 23, len, 1]
        .into_iter()
        .chain(elements)
        .flat_map(u32::to_le_bytes)
        .collect()
}
