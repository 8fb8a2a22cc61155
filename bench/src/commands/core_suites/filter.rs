//! What may differ between two access methods without being wrong is taken out of psql's and isolationtester's output: plans,
//! ctids, the order of rows that no ORDER BY asks for, and the NOTICEs that DDL gives about varve tables.

/// The output with plans dropped, ctids masked, blanks in result tables squeezed, and unordered results sorted.
pub fn filtered(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let (mut kept, mut statement): (Vec<String>, String) = (Vec::new(), String::new());
    let mut i = 0;
    while i < lines.len() {
        if i + 1 == lines.len() || !is_ruler(lines[i + 1], lines[i]) {
            if statement.trim_end().ends_with(';') {
                statement.clear();
            }
            statement.push_str(&lines[i].to_lowercase());
            statement.push('\n');
            if !is_ddl_notice(lines[i]) {
                kept.push(mask_ctids(lines[i]));
            }
            i += 1;
            continue;
        }
        let below = &lines[i + 2..];
        let rows = below
            .iter()
            .take_while(|l| !l.is_empty() && !is_row_count(l))
            .count();
        let mut table: Vec<String> = below[..rows].iter().map(|line| squeeze(line)).collect();
        let header = squeeze(lines[i]);
        if !outermost(&statement).contains("order by") {
            table.sort_unstable();
        }
        if !is_plan(&header, &statement) {
            kept.push(header);
            kept.append(&mut table);
            kept.extend(below.get(rows).map(|line| line.to_string()));
        }
        statement.clear();
        i += 3 + rows;
    }
    kept.join("\n")
}

/// `----+----`, the line below the names of a result's columns, and as long as they; `--` alone is an empty comment.
fn is_ruler(line: &str, header: &str) -> bool {
    let is_below =
        !line.is_empty() && header.chars().count() == line.len() && !header.starts_with("--");
    is_below && line.bytes().all(|b| b == b'-' || b == b'+')
}

fn is_row_count(line: &str) -> bool {
    line.starts_with('(') && (line.ends_with(" rows)") || line.ends_with(" row)"))
}

/// What stands within no parentheses: an ORDER BY there is the result's.
fn outermost(statement: &str) -> String {
    let mut depth = 0;
    let mut outside = |c: &char| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    };
    statement.chars().filter(|c| outside(c)).collect()
}

/// EXPLAIN itself, and the functions of the suites that wrap it.
fn is_plan(header: &str, statement: &str) -> bool {
    header.eq_ignore_ascii_case("query plan")
        || header.starts_with("explain_")
        || statement.contains("\nexplain")
        || statement.starts_with("explain")
}

/// What a hint says of a table whose rows stay uncompressed.
const REMEDIES: [&str; 5] = [
    "Put the series and the time column into the key",
    "CREATE INDEX … USING varve (series, time)",
    "Rows are compressed in the order of",
    "Do without the constraint.",
    "Make the key one of plain columns",
];

/// What CREATE INDEX says about an ordinary index on a varve table, a key about its series index, and DDL about rows that stay
/// uncompressed.
fn is_ddl_notice(line: &str) -> bool {
    let is_notice = |line: &str| {
        let names_companion =
            line.contains(" of varve table ") && line.contains(" brings series index ");
        let is_of_index = line.starts_with("NOTICE:  key ") || line.starts_with("NOTICE:  index ");
        let is_of_table = line.starts_with("NOTICE:  rows of table ");
        is_of_index && names_companion
            || line.starts_with("NOTICE:  index on varve table")
            || is_of_table && line.contains(" stay uncompressed: ")
    };
    let hint = line.strip_prefix("HINT:  ").unwrap_or_default();
    let of_session = line.split_once(": ").map_or("", |(_, said)| said);
    is_notice(line)
        || is_notice(of_session)
        || hint.starts_with("Chunks are found by a series index")
        || REMEDIES.iter().any(|remedy| hint.starts_with(remedy))
}

/// `(block,offset)` becomes `(ctid)`.
fn mask_ctids(line: &str) -> String {
    let mut parts = line.split('(');
    let mut masked = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part.split_once(')').filter(|(inside, _)| is_pair(inside)) {
            Some((_, rest)) => masked.extend(["(ctid)", rest]),
            None => masked.extend(["(", part]),
        }
    }
    masked
}

fn is_pair(inside: &str) -> bool {
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    matches!(inside.split_once(','), Some((a, b)) if is_number(a) && is_number(b))
}

fn squeeze(line: &str) -> String {
    let masked = mask_ctids(line).replace('|', " | ");
    masked.split_whitespace().collect::<Vec<_>>().join(" ")
}
