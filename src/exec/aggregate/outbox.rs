//! Rows that workers leave to their leader in the memory that they share. In core's queue a row is a message of its own, and at each of them the worker's processor
//! waits until the leader's has given back the memory that the message goes to. Here rows come by the page.
//!
//! A worker takes a free page, fills it and posts it. The leader, whenever it has put up its own rows, puts up those of all posted pages, and frees
//! these. Nobody waits: where no page is free, a worker sends rows by the queue. Before the leader says that it has no more rows it closes all pages; who
//! filled one meanwhile cannot post it any more, and sends its rows, too.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a page.
const PAGE_BYTES: usize = 32 << 10;
/// Which columns are null is one word of a row.
const MOST_COLUMNS: usize = u64::BITS as usize;

/// How large it is. None of its pages has a row where there are no columns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    columns: usize,
    pages: usize,
}

impl Shape {
    /// For rows of so many columns, of so many workers: each fills one page while another one waits for the leader, who reads one.
    pub fn new(columns: usize, workers: usize) -> Shape {
        match (1..=MOST_COLUMNS).contains(&columns) {
            true => Shape {
                columns,
                pages: 2 * workers + 1,
            },
            false => Shape::default(),
        }
    }

    pub fn bytes(self) -> usize {
        size_of::<Shape>() + self.pages * PAGE_BYTES
    }

    fn words_of_row(self) -> usize {
        self.columns + 1
    }

    fn rows_of_page(self) -> usize {
        (PAGE_BYTES - size_of::<Page>()) / size_of::<u64>() / self.words_of_row()
    }
}

/// The beginning of a page. Rows follow, each of them a word whose bits say which columns are null, and a word for each column.
#[repr(C, align(8))]
struct Page {
    state: AtomicU32,
    /// Of a page that is posted.
    rows: AtomicU32,
}

const FREE: u32 = 0;
/// A worker fills it.
const TAKEN: u32 = 1;
const POSTED: u32 = 2;
const CLOSED: u32 = 3;

/// In shared memory, which begins with its shape. Pages follow.
#[derive(Clone, Copy)]
pub struct Outbox {
    at: *mut Shape,
    shape: Shape,
}

/// A page that a worker fills.
pub struct Blank {
    page: *mut Page,
    shape: Shape,
    rows: usize,
}

/// A page that the leader reads.
#[derive(Clone, Copy, PartialEq)]
pub struct Posted {
    page: *mut Page,
    shape: Shape,
    rows: usize,
}

impl Outbox {
    /// Makes one, whose pages are free.
    ///
    /// # Safety
    /// `at` must have `shape.bytes()`, aligned for words, as long as anybody uses it.
    pub unsafe fn make(at: *mut Shape, shape: Shape) {
        // SAFETY: by contract.
        unsafe {
            at.write(shape);
            let outbox = Outbox::at(at);
            for number in 0..shape.pages {
                outbox.page(number).write(Page {
                    state: AtomicU32::new(FREE),
                    rows: AtomicU32::new(0),
                });
            }
        }
    }

    /// One that was made.
    ///
    /// # Safety
    /// `at` must be where, as long as the handle is used.
    pub unsafe fn at(at: *mut Shape) -> Outbox {
        // SAFETY: by contract.
        let shape = unsafe { at.read() };
        Outbox { at, shape }
    }

    /// Columns of its rows; 0 where it has no room for any.
    pub fn columns(self) -> usize {
        self.shape.columns
    }

    /// Frees all pages. Nobody may use them.
    pub fn open_again(self) {
        for number in 0..self.shape.pages {
            self.state(number).store(FREE, Ordering::Relaxed);
        }
    }

    /// A free page, for a worker.
    pub fn take(self) -> Option<Blank> {
        // An exchange that fails would take the line from the others, too.
        let is_taken = |&number: &usize| {
            let state = self.state(number);
            state.load(Ordering::Relaxed) == FREE
                && state
                    .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        };
        let number = (0..self.shape.pages).find(is_taken)?;
        Some(Blank {
            page: self.page(number),
            shape: self.shape,
            rows: 0,
        })
    }

    /// A page that was posted, for the leader.
    pub fn posted(self) -> Option<Posted> {
        let is_posted = |&number: &usize| self.state(number).load(Ordering::Acquire) == POSTED;
        let number = (0..self.shape.pages).find(is_posted)?;
        let page = self.page(number);
        Some(Posted {
            page,
            shape: self.shape,
            // SAFETY: one of its pages.
            rows: unsafe { (*page).rows.load(Ordering::Relaxed) as usize },
        })
    }

    /// Closes pages, until it comes to one that was posted, for the leader, who asks again until there is none.
    pub fn close(self) -> Option<Posted> {
        for number in 0..self.shape.pages {
            let close = |state| (state != POSTED).then_some(CLOSED);
            let state = self.state(number);
            let closed = state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, close);
            if closed.is_err() {
                return self.posted();
            }
        }
        None
    }

    /// Closes all pages: nobody wants what is on them.
    pub fn close_all(self) {
        for number in 0..self.shape.pages {
            self.state(number).store(CLOSED, Ordering::Relaxed);
        }
    }

    fn page(self, number: usize) -> *mut Page {
        debug_assert!(number < self.shape.pages);
        // SAFETY: so many pages are behind the shape.
        unsafe {
            let pages = self.at.add(1).cast::<u8>();
            pages.add(number * PAGE_BYTES).cast()
        }
    }

    fn state<'a>(self, number: usize) -> &'a AtomicU32 {
        // SAFETY: a page of its own, which lasts as long as the handle is used; it is an atomic.
        unsafe { &(*self.page(number)).state }
    }
}

impl Blank {
    pub fn is_full(&self) -> bool {
        self.rows == self.shape.rows_of_page()
    }

    /// Adds a row. The page must not be full, and the row have the columns of the outbox.
    #[inline]
    pub fn add(&mut self, columns: impl Iterator<Item = (u64, bool)>) {
        debug_assert!(!self.is_full());
        let mut nulls = 0;
        // SAFETY: the page has room for a row, and belongs to this process; `take` sees to it that columns are no more than that.
        unsafe {
            let row = row_of(self.page, self.shape, self.rows);
            for (at, (value, is_null)) in columns.take(self.shape.columns).enumerate() {
                row.add(1 + at).write(value);
                nulls |= u64::from(is_null) << at;
            }
            row.write(nulls);
        }
        self.rows += 1;
    }

    /// Gives the page to the leader; false where that has closed it.
    pub fn post(self) -> bool {
        // SAFETY: the page lasts as long as the outbox.
        let page = unsafe { &*self.page };
        page.rows.store(self.rows as u32, Ordering::Relaxed);
        page.state
            .compare_exchange(TAKEN, POSTED, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}

impl Posted {
    /// A row, from 0, with which of its columns are null; None behind the last one.
    #[inline]
    pub fn row(&self, number: usize) -> Option<impl Iterator<Item = (u64, bool)>> {
        let columns = self.shape.columns;
        // SAFETY: a row that was posted; nobody writes to the page until it is freed.
        (number < self.rows).then(|| unsafe {
            let row = row_of(self.page, self.shape, number);
            let nulls = row.read();
            (0..columns).map(move |at| (row.add(1 + at).read(), nulls >> at & 1 != 0))
        })
    }

    /// Its rows are put up.
    pub fn free(self) {
        // SAFETY: the page lasts as long as the outbox.
        unsafe { (*self.page).state.store(FREE, Ordering::Release) };
    }
}

/// # Safety
/// The page must be of an outbox of that shape, and have room for so many rows.
unsafe fn row_of(page: *mut Page, shape: Shape, number: usize) -> *mut u64 {
    // SAFETY: by contract: rows follow the page's beginning.
    unsafe { page.add(1).cast::<u64>().add(number * shape.words_of_row()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::atomic::AtomicU64;
    use std::sync::Mutex;
    use std::thread;

    /// An outbox in memory of its own.
    struct Made(Box<[UnsafeCell<u64>]>);

    // SAFETY: threads share it as processes do.
    unsafe impl Sync for Made {}

    impl Made {
        fn new(columns: usize, workers: usize) -> Made {
            let shape = Shape::new(columns, workers);
            let words = shape.bytes().div_ceil(size_of::<u64>());
            let made = Made((0..words).map(|_| UnsafeCell::new(0)).collect());
            // SAFETY: it has so many bytes.
            unsafe { Outbox::make(made.memory(), shape) };
            made
        }

        fn memory(&self) -> *mut Shape {
            UnsafeCell::raw_get(self.0.as_ptr()).cast()
        }

        fn outbox(&self) -> Outbox {
            // SAFETY: it was made there.
            unsafe { Outbox::at(self.memory()) }
        }
    }

    fn row(value: u64) -> impl Iterator<Item = (u64, bool)> {
        [
            (value, false),
            (0, value.is_multiple_of(3)),
            (!value, false),
        ]
        .into_iter()
    }

    fn rows(posted: &Posted) -> Vec<u64> {
        let check = |number| {
            let columns: Vec<_> = posted.row(number)?.collect();
            let value = columns[0].0;
            assert_eq!(columns, row(value).collect::<Vec<_>>());
            Some(value)
        };
        (0..).map_while(check).collect()
    }

    #[test]
    fn what_is_posted_is_read_and_freed() {
        let made = Made::new(3, 1);
        let outbox = made.outbox();
        assert!(outbox.posted().is_none());
        let mut blank = outbox.take().expect("a free page");
        (1..=5).for_each(|value| blank.add(row(value)));
        assert!(outbox.posted().is_none());
        assert!(blank.post());
        let posted = outbox.posted().expect("the page");
        assert_eq!(rows(&posted), [1, 2, 3, 4, 5]);
        posted.free();
        assert!(outbox.posted().is_none());
    }

    #[test]
    fn pages_are_as_many_as_they_are() {
        let made = Made::new(1, 2);
        let outbox = made.outbox();
        let taken: Vec<Blank> = std::iter::from_fn(|| outbox.take()).collect();
        assert_eq!(taken.len(), 5);
        for mut blank in taken {
            while !blank.is_full() {
                blank.add([(7, false)].into_iter());
            }
            assert_eq!(blank.rows, (PAGE_BYTES - 8) / 16);
            assert!(blank.post());
        }
        assert!(outbox.take().is_none());
        outbox.open_again();
        assert!(outbox.take().is_some());
    }

    #[test]
    fn nothing_is_posted_once_all_is_closed() {
        let made = Made::new(3, 1);
        let outbox = made.outbox();
        let (mut early, mut late) = (outbox.take().unwrap(), outbox.take().unwrap());
        early.add(row(1));
        late.add(row(2));
        assert!(early.post());
        let posted = outbox.close().expect("the page that was posted");
        assert_eq!(rows(&posted), [1]);
        posted.free();
        assert!(outbox.close().is_none());
        assert!(!late.post());
        assert!(outbox.take().is_none());
        outbox.open_again();
        let (mut early, mut late) = (outbox.take().unwrap(), outbox.take().unwrap());
        early.add(row(1));
        late.add(row(2));
        assert!(early.post());
        outbox.close_all();
        assert!(!late.post());
        assert!(outbox.posted().is_none() && outbox.take().is_none());
    }

    #[test]
    fn rows_without_columns_or_with_too_many_find_no_page() {
        for columns in [0, MOST_COLUMNS + 1] {
            let made = Made::new(columns, 3);
            assert_eq!(made.outbox().columns(), 0);
            assert!(made.outbox().take().is_none());
            assert!(made.outbox().close().is_none());
        }
        let made = Made::new(MOST_COLUMNS, 1);
        let mut blank = made.outbox().take().unwrap();
        let columns = |at: usize| (at as u64, at.is_multiple_of(2));
        blank.add((0..MOST_COLUMNS).map(columns));
        assert!(blank.post());
        let posted = made.outbox().posted().unwrap();
        let read: Vec<_> = posted.row(0).unwrap().collect();
        assert_eq!(read, (0..MOST_COLUMNS).map(columns).collect::<Vec<_>>());
    }

    /// Each row is put up once, by the leader or by its worker, whenever the leader closes.
    #[test]
    fn no_row_is_lost_or_doubled() {
        const WORKERS: u64 = 3;
        const ROWS: u64 = 20_000;
        const ROWS_AT_ONCE: usize = 300;
        let (mut read_rows, mut sent_rows) = (0, 0);
        for pages in 0..40 {
            let made = Made::new(3, WORKERS as usize);
            let (sent, at_work) = (Mutex::new(Vec::new()), AtomicU64::new(WORKERS));
            let mut read = Vec::new();
            thread::scope(|scope| {
                let (made, sent, at_work) = (&made, &sent, &at_work);
                for worker in 0..WORKERS {
                    scope.spawn(move || {
                        let outbox = made.outbox();
                        let own = (0..ROWS).map(|row| row * WORKERS + worker);
                        for some in own.collect::<Vec<u64>>().chunks(ROWS_AT_ONCE) {
                            let is_left = outbox.take().is_some_and(|mut blank| {
                                some.iter().for_each(|&value| blank.add(row(value)));
                                blank.post()
                            });
                            if !is_left {
                                sent.lock().unwrap().extend(some);
                            }
                        }
                        at_work.fetch_sub(1, Ordering::Release);
                    });
                }
                let outbox = made.outbox();
                let mut take_in = |posted: Posted| {
                    read.extend(rows(&posted));
                    posted.free();
                };
                let mut wanted = pages;
                while wanted > 0 && at_work.load(Ordering::Acquire) > 0 {
                    match outbox.posted() {
                        Some(posted) => {
                            take_in(posted);
                            wanted -= 1;
                        }
                        None => thread::yield_now(),
                    }
                }
                while let Some(posted) = outbox.close() {
                    take_in(posted);
                }
            });
            let mut all = sent.into_inner().unwrap();
            sent_rows += all.len();
            read_rows += read.len();
            all.extend(read);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..WORKERS * ROWS));
        }
        assert!(read_rows > 0 && sent_rows > 0);
    }
}
