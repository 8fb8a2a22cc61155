//! The quals of a scan: which of them nbtree gets, and which decide about rows of chunks.
//!
//! nbtree may judge key columns, since entries carry exact keys, and lower bounds of time, since a chunk
//! is entered under its greatest time. Upper bounds of time are checked here. Equalities of the leading
//! columns, IN lists among them, become *sub-scans*, one per combination, in index order.

use crate::chunk::index_entries;
use crate::pg::array;
use crate::pg::relation::{self, Index};
use crate::pg::scan_key::ScanKey;
use crate::pg::varlena;
use pgrx::pg_sys;
use smallvec::{smallvec, SmallVec};
use std::cmp::Ordering;

const LESS: u16 = 1;
const LESS_EQUAL: u16 = 2;
const EQUAL: u16 = 3;
const GREATER_EQUAL: u16 = 4;
const GREATER: u16 = 5;
const ORDER_FUNCTION: i16 = 1;

/// One, as a rule.
type Arguments = SmallVec<[pg_sys::Datum; 1]>;

/// What a qual asks of a value.
enum Test {
    IsNull,
    IsNotNull,
    /// The operator holds for any of the arguments.
    Any(Arguments),
}

/// A qual on one column of the index.
pub struct Condition {
    /// Column of the index, from 0.
    pub column: usize,
    key: ScanKey,
    test: Test,
    /// Length of the arguments' type, where equal values of it and of the column are the same bytes or
    /// the same integer.
    comparable: Option<i16>,
    /// Lengths of the column's type and of the arguments', where both are integers in the order of their operators: they are compared here.
    integers: Option<(i16, i16)>,
}

impl Condition {
    /// Does it hold for a value?
    ///
    /// # Safety
    /// `value` must be of the column's type.
    pub unsafe fn holds(&self, value: pg_sys::Datum, isnull: bool) -> bool {
        if let (Test::Any(arguments), Some((left, right)), false) =
            (&self.test, self.integers, isnull)
        {
            let value = index_entries::time_value(value, left);
            let mut orders = arguments
                .iter()
                .map(|&argument| value.cmp(&index_entries::time_value(argument, right)));
            return match self.key.data().sk_strategy {
                LESS => orders.any(Ordering::is_lt),
                LESS_EQUAL => orders.any(Ordering::is_le),
                EQUAL => orders.any(Ordering::is_eq),
                GREATER_EQUAL => orders.any(Ordering::is_ge),
                _ => orders.any(Ordering::is_gt),
            };
        }
        match &self.test {
            Test::IsNull => isnull,
            Test::IsNotNull => !isnull,
            Test::Any(_) if isnull => false,
            // SAFETY: by contract; the function was looked up for these types.
            Test::Any(arguments) => arguments.iter().any(|&argument| unsafe {
                let function = (&raw const self.key.data().sk_func).cast_mut();
                let collation = self.key.data().sk_collation;
                pg_sys::FunctionCall2Coll(function, collation, value, argument).value() as u8 != 0
            }),
        }
    }

    /// May it hold for a value between `min` and `max`, which are not null?
    ///
    /// # Safety
    /// As `holds`.
    pub unsafe fn may_hold(&self, min: pg_sys::Datum, max: pg_sys::Datum) -> bool {
        // SAFETY: by contract.
        unsafe {
            match (&self.test, self.key.data().sk_strategy) {
                (Test::Any(_), LESS | LESS_EQUAL) => self.holds(min, false),
                (Test::Any(_), GREATER | GREATER_EQUAL) => self.holds(max, false),
                _ => true,
            }
        }
    }

    /// What an equality asks for.
    fn equals(&self) -> Option<&[pg_sys::Datum]> {
        match &self.test {
            Test::Any(arguments) if self.key.data().sk_strategy == EQUAL => Some(arguments),
            _ => None,
        }
    }

    /// What an equality asks for, and the length of its type, if stored bounds can exclude it.
    pub fn comparable_equals(&self) -> Option<(&[pg_sys::Datum], i16)> {
        self.equals().zip(self.comparable)
    }
}

struct Cells {
    /// First keys that equalities name, ascending.
    keys: SmallVec<[i64; 1]>,
    /// Their cells, where these are not named by the keys themselves.
    values: SmallVec<[(i64, ScanKey); 1]>,
    /// What holds for the cells of keys, where none is named.
    native: Vec<ScanKey>,
}

/// All quals of a scan, sorted out.
#[derive(Default)]
pub struct Quals {
    /// A qual can hold for no row.
    pub impossible: bool,
    /// On key columns, each of them.
    pub keys: SmallVec<[Condition; 1]>,
    /// Lower bounds of time.
    pub lowers: Vec<Condition>,
    /// Upper bounds of time.
    pub uppers: Vec<Condition>,
    /// Other quals on time.
    pub times: Vec<Condition>,
    /// Of the leading columns, the values that they may have, in index order.
    dimensions: SmallVec<[SmallVec<[ScanKey; 1]>; 1]>,
    /// What nbtree checks besides.
    native: Vec<ScanKey>,
    /// Where chunks may be entered by cells: those that the first key's values are in, and what nbtree may check of a cell.
    cells: Option<Cells>,
    key_columns: usize,
}

impl Quals {
    /// Sorts out scan keys. Their arguments, and `context`, must outlive the result.
    ///
    /// # Safety
    /// `index` must be open; the keys as the executor makes them.
    pub unsafe fn new(index: Index<'_>, keys: &[ScanKey], context: pg_sys::MemoryContext) -> Quals {
        // SAFETY: by contract.
        unsafe {
            let key_columns = index.form().indnkeyatts as usize - 1;
            let mut quals = Quals {
                key_columns,
                ..Quals::default()
            };
            for key in keys {
                quals.add(index, key, context);
            }
            if !quals.impossible {
                quals.choose_dimensions(index);
                quals.choose_cells(index);
            }
            quals
        }
    }

    /// Sorts out a scan key.
    ///
    /// # Safety
    /// As `new`, of one of the keys.
    unsafe fn add(&mut self, index: Index<'_>, key: &ScanKey, context: pg_sys::MemoryContext) {
        let has = |flag: u32| key.data().sk_flags & flag as i32 != 0;
        let test = if has(pg_sys::SK_SEARCHNULL) {
            Test::IsNull
        } else if has(pg_sys::SK_SEARCHNOTNULL) {
            Test::IsNotNull
        } else if has(pg_sys::SK_ISNULL) {
            self.impossible = true;
            return;
        } else if has(pg_sys::SK_SEARCHARRAY) {
            // SAFETY: by contract the argument is an array.
            let elements = unsafe { array::elements_in(key.data().sk_argument, context) };
            if elements.is_empty() {
                self.impossible = true;
                return;
            }
            Test::Any(elements.into())
        } else {
            Test::Any(smallvec![key.data().sk_argument])
        };
        // SAFETY: by contract.
        let test = unsafe { with_bytes_of_column(index, key, test, context) };
        let own = match &test {
            Test::Any(arguments) if !has(pg_sys::SK_SEARCHARRAY) => key.with_argument(arguments[0]),
            _ => *key,
        };
        let condition = Condition {
            column: key.column(),
            key: own,
            test,
            // SAFETY: by contract.
            comparable: unsafe { comparable_length(index, key) },
            // SAFETY: as above.
            integers: unsafe { integer_lengths(index, key) },
        };
        if condition.column < self.key_columns {
            self.keys.push(condition);
        } else {
            // SAFETY: by contract.
            unsafe { self.add_time(index, condition, context) };
        }
    }

    /// Sorts out a condition on time.
    ///
    /// # Safety
    /// As `new`; the condition must be on time, and made of one of the keys.
    unsafe fn add_time(
        &mut self,
        index: Index<'_>,
        condition: Condition,
        context: pg_sys::MemoryContext,
    ) {
        match (&condition.test, condition.key.data().sk_strategy) {
            (Test::Any(_), LESS | LESS_EQUAL) => self.uppers.push(condition),
            (Test::Any(_), GREATER | GREATER_EQUAL) => self.lowers.push(condition),
            // SAFETY: by contract.
            (Test::Any(arguments), EQUAL) => unsafe {
                let arguments = arguments.clone();
                let bounds = (
                    bound(index, &condition, GREATER_EQUAL, &arguments, context),
                    bound(index, &condition, LESS_EQUAL, &arguments, context),
                );
                let exact = arguments.len() == 1 && bounds.0.is_some() && bounds.1.is_some();
                self.lowers.extend(bounds.0);
                self.uppers.extend(bounds.1);
                if !exact {
                    self.times.push(condition);
                }
            },
            _ => self.times.push(condition),
        }
    }

    /// Makes dimensions of equalities of the leading columns, and hands the other quals to nbtree.
    ///
    /// # Safety
    /// `index` must be the quals' index.
    unsafe fn choose_dimensions(&mut self, index: Index<'_>) {
        let mut used: SmallVec<[_; 8]> = smallvec![false; self.keys.len()];
        for column in 0..self.key_columns {
            let found = self.keys.iter().position(|condition| {
                condition.column == column
                    && (condition.equals().is_some() || matches!(condition.test, Test::IsNull))
            });
            let Some(at) = found else { break };
            used[at] = true;
            let condition = &self.keys[at];
            let key = condition.key;
            let values = match &condition.test {
                // SAFETY: by contract.
                Test::Any(arguments) => unsafe { in_order(index, &key, arguments) },
                _ => smallvec![key.data().sk_argument],
            };
            let with_value = |value| key.with_argument(value);
            self.dimensions
                .push(values.into_iter().map(with_value).collect());
        }
        let others = self.keys.iter().zip(used).filter(|(_, used)| !used);
        let natives = others
            .map(|(condition, _)| condition)
            .chain(&self.lowers)
            .chain(self.times.iter().filter(|time| time.equals().is_none()));
        self.native = natives
            .filter(|condition| !matches!(&condition.test, Test::Any(list) if list.len() != 1))
            .map(|condition| {
                condition.key.with_argument(match &condition.test {
                    Test::Any(arguments) => arguments[0],
                    _ => condition.key.data().sk_argument,
                })
            })
            .collect();
    }

    /// Makes scan keys for cells: a cell is named by its first key, so it may lie below a bound that keys in it do not.
    ///
    /// # Safety
    /// `index` must be the quals' index.
    unsafe fn choose_cells(&mut self, index: Index<'_>) {
        // SAFETY: the caller's contract.
        unsafe {
            if index_entries::cell_length(index).is_none() {
                return;
            }
            let bounds = self.native.iter().filter(|key| key.column() == 0);
            let native = bounds.filter_map(|key| bound_of_cell(index, key)).collect();
            let mut values: SmallVec<[(i64, ScanKey); 1]> = SmallVec::new();
            let mut keys = SmallVec::new();
            for key in self.dimensions.first().into_iter().flatten() {
                let Some(value) = integer_argument(index, key) else {
                    continue;
                };
                keys.push(value);
                let cell = index_entries::cell_of(value);
                let is_known = cell == value || values.last().is_some_and(|last| last.0 == cell);
                if let (false, Some(key)) = (is_known, with_integer(index, key, cell)) {
                    values.push((cell, key));
                }
            }
            self.cells = Some(Cells {
                keys,
                values,
                native,
            });
        }
    }

    /// The first keys that equalities name, ascending, where they are integers.
    pub fn first_values(&self) -> Option<&[i64]> {
        let keys = &self.cells.as_ref()?.keys;
        (!keys.is_empty()).then_some(keys)
    }

    /// Does no equality name first keys, so that cells have to be read in order?
    pub fn walks_over_cells(&self) -> bool {
        self.cells.is_some() && self.dimensions.is_empty()
    }

    /// Scan keys that find, under NULL times, the chunks that may hold wanted rows of a first key: one
    /// list for each value of it, and each cell, where those are given, else one for all.
    pub fn first_keys(&self) -> Vec<Vec<ScanKey>> {
        let mut all = self.exact_first_keys();
        all.extend(self.cells().iter().map(|&(_, key)| vec![key]));
        all
    }

    /// The same without cells, where values are given.
    pub fn exact_first_keys(&self) -> Vec<Vec<ScanKey>> {
        let native = self.native.iter().filter(|key| key.column() == 0);
        let native: Vec<_> = native.copied().collect();
        match (self.dimensions.first(), &self.cells) {
            (None, None) => vec![native],
            (None, Some(cells)) => vec![cells.native.clone()],
            (Some(values), _) => values
                .iter()
                .map(|&value| native.iter().copied().chain([value]).collect())
                .collect(),
        }
    }

    /// The cells of the first keys that equalities name, but for keys that name their cells; and scan keys for each.
    pub fn cells(&self) -> &[(i64, ScanKey)] {
        self.cells.as_ref().map_or(&[], |cells| &cells.values)
    }

    /// The most scan keys that `keys_of` and `first_keys` return.
    pub fn most_keys(&self) -> usize {
        self.native.len() + self.dimensions.len()
    }

    /// Do equalities name exactly one series per sub-scan?
    pub fn names_series(&self) -> bool {
        self.dimensions.len() == self.key_columns
    }

    /// The values that equalities give all key columns, where there is one for each, as one of the column's own type.
    ///
    /// # Safety
    /// `index` must be the quals' index.
    pub unsafe fn series(&self, index: Index<'_>) -> Option<SmallVec<[pg_sys::Datum; 2]>> {
        if self.sub_scans() != 1 {
            return None;
        }
        // SAFETY: by contract.
        unsafe { self.series_of(index, 0) }
    }

    /// The same of one sub-scan.
    ///
    /// # Safety
    /// As `series`.
    pub unsafe fn series_of(
        &self,
        index: Index<'_>,
        sub_scan: usize,
    ) -> Option<SmallVec<[pg_sys::Datum; 2]>> {
        if !self.names_series() {
            return None;
        }
        let keys = self.named_by(sub_scan);
        // SAFETY: by contract.
        let values = keys.map(|key| unsafe { own_value(index, key) });
        let mut values = values.collect::<Option<SmallVec<[_; 2]>>>()?;
        values.reverse();
        Some(values)
    }

    pub fn sub_scans(&self) -> usize {
        self.dimensions.iter().map(SmallVec::len).product()
    }

    /// Scan keys of a sub-scan for nbtree, sorted by column as it wants them.
    pub fn keys_of(&self, sub_scan: usize) -> Vec<ScanKey> {
        let mut keys = self.native.clone();
        keys.extend(self.named_by(sub_scan));
        keys.sort_by_key(ScanKey::column);
        keys
    }

    /// What equalities of the leading columns name in a sub-scan, the last column first.
    fn named_by(&self, sub_scan: usize) -> impl Iterator<Item = &ScanKey> {
        let mut rest = sub_scan;
        self.dimensions.iter().rev().map(move |values| {
            let key = &values[rest % values.len()];
            rest /= values.len();
            key
        })
    }

    /// The only upper bound of time, as it is for a backward scan that starts there, and turned round for
    /// finding the chunk that reaches over it.
    ///
    /// # Safety
    /// `index` must be the quals' index; `context` must outlive what comes out.
    pub unsafe fn upper_keys(
        &self,
        index: Index<'_>,
        context: pg_sys::MemoryContext,
    ) -> Option<(ScanKey, ScanKey)> {
        let [upper] = &self.uppers[..] else {
            return None;
        };
        let Test::Any(arguments) = &upper.test else {
            return None;
        };
        if arguments.len() != 1 || !self.names_series() {
            return None;
        }
        let opposite = if upper.key.data().sk_strategy == LESS {
            GREATER_EQUAL
        } else {
            GREATER
        };
        // SAFETY: the caller's contract is that of `new`.
        let above = unsafe { bound(index, upper, opposite, arguments, context) }?;
        let plain = |condition: &Condition| condition.key.with_argument(arguments[0]);
        Some((plain(upper), plain(&above)))
    }

    /// Does every qual on keys hold?
    ///
    /// # Safety
    /// `value` must return values of the index's columns.
    pub unsafe fn keys_hold(&self, mut value: impl FnMut(usize) -> (pg_sys::Datum, bool)) -> bool {
        self.keys.iter().all(|condition| {
            let (value, isnull) = value(condition.column);
            // SAFETY: by contract.
            unsafe { condition.holds(value, isnull) }
        })
    }

    /// Does every qual on time hold?
    ///
    /// # Safety
    /// `value` must be of the time column's type.
    pub unsafe fn time_holds(&self, value: pg_sys::Datum, isnull: bool) -> bool {
        self.lowers
            .iter()
            .chain(&self.uppers)
            .chain(&self.times)
            // SAFETY: by contract.
            .all(|condition| unsafe { condition.holds(value, isnull) })
    }
}

impl Quals {
    /// Do the bounds hold for a time that is not null?
    ///
    /// # Safety
    /// `value` must be of the time column.
    pub unsafe fn bounds_hold(&self, value: pg_sys::Datum) -> bool {
        let bounds = self.lowers.iter().chain(&self.uppers);
        // SAFETY: by contract.
        bounds
            .into_iter()
            .all(|bound| unsafe { bound.holds(value, false) })
    }

    /// Is there any qual?
    pub fn ask_for_anything(&self) -> bool {
        !self.keys.is_empty() || self.asks_for_times()
    }

    /// Is there any qual on time?
    pub fn asks_for_times(&self) -> bool {
        !(self.lowers.is_empty() && self.uppers.is_empty() && self.times.is_empty())
    }

    /// The least time that may satisfy lower bounds, of those whose arguments are of the column's own type.
    ///
    /// # Safety
    /// `index` must be the quals' index, its times of `length` bytes.
    pub unsafe fn least_time(&self, index: Index<'_>, length: i16) -> Option<i64> {
        let bounds = self.lowers.iter().filter_map(|lower| {
            // SAFETY: by contract.
            let (_, left, right) = unsafe { types_of(index, &lower.key) };
            match &lower.test {
                Test::Any(arguments) if left == right => arguments
                    .iter()
                    .map(|&argument| index_entries::time_value(argument, length))
                    .min(),
                _ => None,
            }
        });
        bounds.max()
    }

    /// Can no later time in the given direction satisfy the bounds any more?
    ///
    /// # Safety
    /// `value` must be of the time column's type.
    pub unsafe fn is_past(&self, value: pg_sys::Datum, isnull: bool, forward: bool) -> bool {
        let bounds = if forward { &self.uppers } else { &self.lowers };
        // SAFETY: by contract.
        !isnull
            && !bounds
                .iter()
                .all(|bound| unsafe { bound.holds(value, false) })
    }
}

/// The condition that a time is at least, or at most, what an equality asks for: its least or greatest
/// argument where it is an IN list.
///
/// # Safety
/// `index` must be open, the condition on a column of it, and `arguments` of its key's type; `context` must outlive the result.
unsafe fn bound(
    index: Index<'_>,
    condition: &Condition,
    strategy: u16,
    arguments: &[pg_sys::Datum],
    context: pg_sys::MemoryContext,
) -> Option<Condition> {
    // SAFETY: the caller's contract.
    unsafe {
        let (family, left, right) = types_of(index, &condition.key);
        let operator = pg_sys::get_opfamily_member(family, left, right, strategy as i16);
        if operator == pg_sys::InvalidOid {
            return None;
        }
        let key = condition
            .key
            .with_operator(strategy, operator, context.into());
        let ordered = in_order(index, &condition.key, arguments);
        let argument = match strategy {
            GREATER_EQUAL | GREATER => ordered.first(),
            _ => ordered.last(),
        };
        let argument = *argument?;
        Some(Condition {
            column: condition.column,
            test: Test::Any(smallvec![argument]),
            key: key.with_argument(argument),
            comparable: condition.comparable,
            integers: condition.integers,
        })
    }
}

/// What a condition on the first key says of the cells of keys that satisfy it, if anything.
///
/// # Safety
/// As `own_value`.
unsafe fn bound_of_cell(index: Index<'_>, key: &ScanKey) -> Option<ScanKey> {
    if key.data().sk_flags & pg_sys::SK_ISNULL as i32 != 0 {
        return Some(*key);
    }
    // SAFETY: the caller's contract.
    let cell = index_entries::cell_of(unsafe { integer_argument(index, key) }?);
    let argument = match key.data().sk_strategy {
        LESS | LESS_EQUAL => return Some(*key),
        GREATER_EQUAL => cell,
        GREATER => cell.checked_sub(1)?,
        _ => return None,
    };
    // SAFETY: as above. Below the least integer of the type there is no cell either.
    unsafe { with_integer(index, key, argument) }
}

/// What a key compares a column of integers with.
///
/// # Safety
/// As `own_value`.
unsafe fn integer_argument(index: Index<'_>, key: &ScanKey) -> Option<i64> {
    if key.data().sk_flags & pg_sys::SK_ISNULL as i32 != 0 {
        return None;
    }
    // SAFETY: the caller's contract.
    let length = integer_length(unsafe { types_of(index, key) }.2)?;
    Some(index_entries::time_value(key.data().sk_argument, length))
}

/// The same key with another argument, if its type has that.
///
/// # Safety
/// As `own_value`.
unsafe fn with_integer(index: Index<'_>, key: &ScanKey, argument: i64) -> Option<ScanKey> {
    // SAFETY: the caller's contract.
    let length = integer_length(unsafe { types_of(index, key) }.2)?;
    let own = index_entries::time_datum(argument, length);
    (index_entries::time_value(own, length) == argument).then_some(key.with_argument(own))
}

/// What an equality asks for, as a value of its column's own type.
///
/// # Safety
/// `index` must be open, and the key one of its columns'.
pub unsafe fn own_value(index: Index<'_>, key: &ScanKey) -> Option<pg_sys::Datum> {
    if key.data().sk_strategy != EQUAL || key.data().sk_flags & pg_sys::SK_ISNULL as i32 != 0 {
        return None;
    }
    // SAFETY: by contract.
    let (_, left, right) = unsafe { types_of(index, key) };
    if left == right {
        return Some(key.data().sk_argument);
    }
    // Another integer: where it is none of the column's, no row has it.
    let length = integer_length(left)?;
    let value = index_entries::time_value(key.data().sk_argument, integer_length(right)?);
    let own = index_entries::time_datum(value, length);
    (index_entries::time_value(own, length) == value).then_some(own)
}

fn integer_length(typ: pg_sys::Oid) -> Option<i16> {
    match typ {
        pg_sys::INT2OID => Some(2),
        pg_sys::INT4OID => Some(4),
        pg_sys::INT8OID => Some(8),
        _ => None,
    }
}

/// Operator family, type of the index column, and type of the arguments.
///
/// # Safety
/// As `own_value`.
unsafe fn types_of(index: Index<'_>, key: &ScanKey) -> (pg_sys::Oid, pg_sys::Oid, pg_sys::Oid) {
    let at = key.column();
    let left = index.input_type(at);
    let right = if key.data().sk_subtype == pg_sys::InvalidOid {
        left
    } else {
        key.data().sk_subtype
    };
    (index.operator_family(at), left, right)
}

/// Arguments for a column of type char(n) as it keeps values: an argument of another length has the blanks that it came with.
///
/// # Safety
/// As `own_value`; `test` must have arguments of the key's type, and `context` live as long as what comes out is used.
unsafe fn with_bytes_of_column(
    index: Index<'_>,
    key: &ScanKey,
    test: Test,
    context: pg_sys::MemoryContext,
) -> Test {
    // SAFETY: the caller's contract.
    let (attribute, argument) = unsafe {
        let column = key.column();
        let attribute = &index.attributes()[column];
        (attribute, types_of(index, key).2)
    };
    match test {
        Test::Any(arguments) if argument == pg_sys::BPCHAROID && attribute.atttypmod >= 0 => {
            // SAFETY: the arguments are of that type.
            let stored = |argument| unsafe { varlena::as_char(argument, attribute.atttypmod) };
            let all = || arguments.into_iter().map(stored).collect();
            // SAFETY: the caller's contract; the values live as long as the arguments.
            Test::Any(unsafe { crate::pg::memory::within(context, all) })
        }
        test => test,
    }
}

/// See `Condition::comparable`.
///
/// # Safety
/// As `own_value`.
unsafe fn comparable_length(index: Index<'_>, key: &ScanKey) -> Option<i16> {
    // SAFETY: the caller's contract; a syscache look-up. Pseudotypes stand for a type of the column's.
    unsafe {
        let (_, left, right) = types_of(index, key);
        let column = key.column();
        if left == right {
            Some(index.attributes()[column].attlen)
        } else {
            integer_length(left).and(integer_length(right))
        }
    }
}

/// See `Condition::integers`. The operators of a family agree with its orders of the types that they compare.
///
/// # Safety
/// As `own_value`; the index must have nbtree's support functions.
unsafe fn integer_lengths(index: Index<'_>, key: &ScanKey) -> Option<(i16, i16)> {
    let operator = u32::from(LESS)..=u32::from(GREATER);
    if !operator.contains(&u32::from(key.data().sk_strategy)) {
        return None;
    }
    // SAFETY: the caller's contract; a syscache look-up.
    unsafe {
        let (family, left, right) = types_of(index, key);
        let column = key.column();
        if !index.orders_integers(column) {
            return None;
        }
        if left == right {
            let length = index.attributes()[column].attlen;
            return Some((length, length));
        }
        let order = pg_sys::get_opfamily_proc(family, right, right, ORDER_FUNCTION);
        let lengths = integer_length(left).zip(integer_length(right));
        lengths.filter(|_| relation::compares_integers(order))
    }
}

/// Arguments of a key in the order of the index, each once.
///
/// # Safety
/// As `own_value`; `arguments` must be of the key's type, and not null.
unsafe fn in_order(index: Index<'_>, key: &ScanKey, arguments: &[pg_sys::Datum]) -> Arguments {
    let mut ordered = Arguments::from_slice(arguments);
    if ordered.len() < 2 {
        return ordered;
    }
    // SAFETY: the caller's contract; a family has an order of each of its types.
    unsafe {
        let (family, _, element) = types_of(index, key);
        let order = pg_sys::get_opfamily_proc(family, element, element, ORDER_FUNCTION);
        assert!(
            order != pg_sys::InvalidOid,
            "BUG: operator family without order"
        );
        let compare = |a: &pg_sys::Datum, b: &pg_sys::Datum| -> Ordering {
            let order = pg_sys::OidFunctionCall2Coll(order, key.data().sk_collation, *a, *b);
            (order.value() as i32).cmp(&0)
        };
        ordered.sort_by(compare);
        ordered.dedup_by(|a, b| compare(a, b) == Ordering::Equal);
    }
    ordered
}
