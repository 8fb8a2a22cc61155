//! Compaction of a table: the tail is sealed, chunks are merged, what that frees is vacuumed, and chunks
//! at the end of the file move down so that it can be cut. Each step is a round with its own transaction:
//! it can stop after any of them, by a cancel or a crash, and leaves a table in order.

use super::merge::{self, Done};
use super::plan::{Merge, Pack};
use super::progress::{Watch, Work};
use super::seen::Seen;
use super::survey::{Before, Survey};
use super::windows::Windows;
use super::{little, obstacle, plan, reindex, relocate, remembered, seal};
use crate::catalog::chunk_marker;
use crate::catalog::layout::{self, Layout};
use crate::catalog::marker_sweep;
use crate::chunk::density;
use crate::chunk::place::LowFirst;
use crate::chunk::read::Damage;
use crate::pg::activity::{self, Uncounted};
use crate::pg::departure;
use crate::pg::file_end;
use crate::pg::relation::Table;
use crate::pg::rounds::Rounds;
use crate::pg::tid::Tid;
use crate::pg::vacuum;
use crate::pg::BLCKSZ;
use crate::scan::headers::{self, Places};
use crate::table::locks::{self, Mover};
use crate::table::quiet;
use rustc_hash::FxHashSet;
use std::time::{Duration, Instant};

/// Storage tuples that a page holds.
const PER_PAGE: u64 = 4;
/// So many dead tuples, and an eighth of the others, are no reason to come back for.
const FEW_DEAD: u64 = 64;
/// Chunks that are merged and take such a part of the file, or more, are worth a vacuum before: from there on the end would be cut off.
const LEAST_PART: u64 = 16;
/// How long the lock for cutting the file is waited for.
const CUT_PATIENCE: Duration = Duration::from_secs(5);
/// Moving to the end of the file stops after so many times of moving and vacuuming.
const MOVES: usize = 4;

/// Compacts a table, as far as nobody waits for it.
///
/// # Safety
/// As `Rounds::run`.
pub unsafe fn run(rounds: &mut Rounds, watch: &dyn Watch) -> Work {
    // SAFETY: a round's table.
    let before = unsafe { rounds.run(|table, _| table.blocks()) };
    let mut compaction = Compaction {
        rounds,
        watch,
        freed_pages: 0,
        may_move_bytes: 0,
        sealed: 0,
        has_dead: false,
        has_bloated_index: false,
        is_settled: false,
        left_bytes: None,
        unentered: None,
        entered: None,
        known: None,
        is_alone: true,
        damaged: FxHashSet::default(),
        outdated_rows: plan::OUTDATED_ROWS,
        vacuumed: None,
    };
    let gave_way = if compaction.is_idle() {
        compaction.left_bytes = watch.left_bytes();
        compaction.rebuild_indexes().is_none()
    } else {
        compaction.seal().is_none()
            || compaction
                .merge()
                .is_none_or(|survey| compaction.shrink(survey).is_none())
            || compaction.rebuild_indexes().is_none()
    };
    let rows = compaction.sealed;
    let leaves_space = compaction.has_dead || compaction.has_bloated_index;
    let left_bytes = compaction.left_bytes;
    // SAFETY: as above.
    let after = unsafe {
        rounds.run(|table, _| {
            marker_sweep::sweep();
            table.blocks()
        })
    };
    Work {
        rows,
        bytes: u64::from(before.saturating_sub(after)) * u64::from(BLCKSZ),
        gave_way,
        leaves_space,
        left_bytes,
    }
}

/// The number of rows that the catalog knows of a table, if it has not grown much since that was counted.
fn rows_known(table: Table<'_>) -> Option<f64> {
    let (pages, rows) = (table.class().relpages as u32, table.class().reltuples);
    let is_good = rows > 0.0 && table.blocks() / 4 * 3 <= pages;
    is_good.then_some(rows.into())
}

struct Compaction<'a> {
    rounds: &'a mut Rounds,
    watch: &'a dyn Watch,
    /// Pages' worth of tuples that were deleted since the last vacuum.
    freed_pages: u64,
    /// So much may be moved only to make the file shorter: what compact has written anew, since that has left as much behind.
    may_move_bytes: u64,
    /// Rows of the tail that were sealed.
    sealed: u64,
    /// Many tuples are left that somebody may still see, or an end of the file with nothing else, or that nobody could cut off.
    has_dead: bool,
    /// An index is left that would be smaller if it were built again.
    has_bloated_index: bool,
    /// Nobody had vacuumed the table between the last run and this one.
    is_settled: bool,
    /// What this run leaves behind: see `left_by`; not known before the end.
    left_bytes: Option<u64>,
    /// Headers that no series index leads to and the visibility map does not either; not known before all pages were looked at.
    unentered: Option<Vec<Tid>>,
    /// What the series index led to before the tail was sealed, for the first survey.
    entered: Option<Places>,
    /// What this session knows of the table since it was settled, for the first survey.
    known: Option<Survey>,
    /// Nobody else has vacuumed or compacted the table since the last survey.
    is_alone: bool,
    /// Headers of chunks that are left out.
    damaged: FxHashSet<Tid>,
    /// Rows of chunks of older formats that may still be written anew.
    outdated_rows: u64,
    /// Pages that had changed when the table was vacuumed since the last survey, ascending; `None`: it was not.
    vacuumed: Option<Vec<u32>>,
}

/// `None`: somebody waits for the table's lock.
type Step = Option<()>;

impl Compaction<'_> {
    fn give_way(&self) -> Step {
        (!self.rounds.is_in_the_way()).then_some(())
    }

    /// Has nothing changed since everything was done, or too little? If not, notes what is known.
    fn is_idle(&mut self) -> bool {
        // SAFETY: a round's table and snapshot.
        let (is_settled, is_idle) = unsafe {
            self.rounds.run(|table, snapshot| {
                let is_settled = quiet::is_settled(table);
                let is_idle = is_settled && little::is_little(table, snapshot);
                let is_idle =
                    is_idle && !(vacuum::may_truncate(table) && file_end::is_empty(table));
                if !is_idle {
                    self.known = remembered::take(table, snapshot).filter(|_| is_settled);
                    quiet::unsettle(table);
                }
                (is_settled, is_idle)
            })
        };
        self.is_settled = is_settled;
        match is_settled {
            true => self.unentered = Some(Vec::new()),
            // VACUUM may have removed what the last run left behind. Where that was stopped, nobody knows what it was.
            false => self.may_move_bytes = self.watch.left_bytes().unwrap_or(u64::MAX),
        }
        is_idle
    }

    /// The pages that may have rows of the tail; `None` where no index tells. Rows that came while compact was at work may be on pages with
    /// a bit in the visibility map, so that does not tell; where they are the last survey does.
    fn tail_pages(&mut self) -> Option<Vec<u32>> {
        if let Some(known) = &self.known {
            // SAFETY: a round's table.
            let mut pages = unsafe { self.rounds.run(|table, _| quiet::changed_pages(table)) };
            pages.extend(&known.tail);
            pages.sort_unstable();
            pages.dedup();
            return Some(pages);
        }
        // SAFETY: a round's table and snapshot.
        self.entered = unsafe { self.rounds.run(headers::places) };
        self.entered.as_ref().map(|places| places.tail.clone())
    }

    fn seal(&mut self) -> Step {
        let pages = self.tail_pages();
        let mut next = Some(0);
        while let Some(start) = next {
            self.give_way()?;
            // A worker waits for nobody.
            let mut is_early = false;
            // SAFETY: a round's table and snapshot.
            let (done, pages) = unsafe {
                self.rounds.run(|table, snapshot| {
                    let layout = layout::of(table);
                    if start == 0 && !departure::is_worker() {
                        obstacle::tell(table);
                    }
                    if !seal::is_allowed(table, &layout) {
                        next = None;
                        return (Done::default(), 0);
                    }
                    if start == 0
                        && departure::is_worker()
                        && !chunk_marker::has_no_old_plans(table)
                    {
                        is_early = true;
                        return (Done::default(), 0);
                    }
                    if start == 0 {
                        chunk_marker::await_old_plans(table);
                    }
                    locks::begin_moving(table, Mover::Compact);
                    let (_low, _uncounted) = (LowFirst::begin(table), Uncounted::begin(table));
                    let (done, freed, rest) =
                        seal::round(table, &layout, snapshot, start, pages.as_deref());
                    let blocks = table.blocks();
                    let end = rest.unwrap_or(blocks);
                    next = rest;
                    self.watch
                        .progress("seal", u64::from(end), u64::from(blocks));
                    (done, freed)
                })
            };
            if is_early {
                return None;
            }
            self.sealed += done.freed;
            self.freed(done, pages)?;
        }
        Some(())
    }

    /// Merges until nothing is left to be merged; returns what is there then. Where a chunk could not be decoded the table's lock was given up with the
    /// round: others may have merged, and vacuumed, so all of it is looked at anew.
    fn merge(&mut self) -> Option<Survey> {
        let mut before = self.known.take();
        'surveys: loop {
            let survey = self.survey(before.as_ref());
            // SAFETY: a round's table and snapshot.
            let (layout, windows, rounds) = unsafe {
                self.rounds.run(|table, _| {
                    let layout = layout::of(table);
                    let pack = Pack::of(table.descriptor().len());
                    let windows = Windows::of(table, &layout);
                    let outdated_rows = &mut self.outdated_rows;
                    let rounds = plan::rounds(&survey, &windows, pack, outdated_rows);
                    (layout, windows, rounds)
                })
            };
            for (at, damage) in &survey.damaged {
                self.leave_out(*at, damage);
            }
            let mut merged = 0;
            let count = rounds.len() as u64;
            for (at, merge) in rounds.into_iter().enumerate() {
                self.give_way()?;
                if merge.window.is_some() || merge.fills_holes {
                    self.make_room(&survey, &merge)?;
                }
                let progress = (at as u64 + 1, count);
                let Some(done) = self.merge_round(&survey, &layout, &windows, &merge, progress)
                else {
                    (before, self.unentered) = (None, None);
                    continue 'surveys;
                };
                merged += done.chunks;
                self.freed(done, done.freed / PER_PAGE)?;
            }
            if merged == 0 {
                return Some(survey);
            }
            before = Some(survey);
        }
    }

    /// One round of merging; None where there is something that it cannot decode, which is left out from now on.
    fn merge_round(
        &mut self,
        survey: &Survey,
        layout: &Layout,
        windows: &Windows,
        merge: &Merge,
        (at, count): (u64, u64),
    ) -> Option<Done> {
        let watch = self.watch;
        // SAFETY: a round's table and snapshot.
        let result = unsafe {
            self.rounds.attempt(|table, snapshot| {
                locks::begin_moving(table, Mover::Compact);
                let (_low, _uncounted) = (LowFirst::begin(table), Uncounted::begin(table));
                let done = merge::round(table, layout, survey, windows, merge, snapshot);
                watch.progress("merge", at, count);
                done
            })
        };
        result
            .map_err(|broken| {
                self.is_alone = false;
                self.leave_out(broken.header, &broken.damage);
            })
            .ok()
    }

    /// Says once that a chunk stays as it is.
    fn leave_out(&mut self, at: Tid, damage: &Damage) {
        if self.damaged.insert(at) {
            self.watch.damaged(format!(
                "varve.compact leaves out the chunk at {at}: {damage}"
            ));
        }
    }

    /// Counts what a round has freed, and vacuums when that is a fair part of the table.
    fn freed(&mut self, done: Done, pages: u64) -> Step {
        if done.freed == 0 {
            return Some(());
        }
        self.freed_pages += pages.max(1);
        // SAFETY: a round's table.
        let blocks = unsafe { self.rounds.run(|table, _| table.blocks()) };
        match self.freed_pages >= 256 && self.freed_pages * 4 >= u64::from(blocks) {
            true => self.vacuum_freed(None),
            false => Some(()),
        }
    }

    /// Vacuums before what is a fair part of the file is merged, if enough has been left behind for what that writes. It would go to
    /// the end of the file otherwise, and be written once more when it moves down.
    fn make_room(&mut self, survey: &Survey, merge: &Merge) -> Step {
        let inputs = || merge.inputs.iter().map(|&at| &survey.chunks[at]);
        let bytes: u64 = inputs().map(|seen| seen.bytes).sum();
        let of_live = |seen: &Seen| seen.bytes * u64::from(seen.live) / u64::from(seen.rows.max(1));
        let is_much = bytes.div_ceil(relocate::PAGE_BYTES) * LEAST_PART >= u64::from(survey.blocks);
        let written = inputs().map(of_live).sum::<u64>();
        match (is_much || merge.fills_holes)
            && self.freed_pages * 2 >= written.div_ceil(relocate::PAGE_BYTES)
        {
            true => self.vacuum_freed(Some(survey)),
            false => Some(()),
        }
    }

    fn vacuum_freed(&mut self, survey: Option<&Survey>) -> Step {
        self.may_move(self.freed_pages * relocate::PAGE_BYTES);
        self.vacuum(survey)?;
        self.freed_pages = 0;
        Some(())
    }

    fn may_move(&mut self, bytes: u64) {
        self.may_move_bytes = self.may_move_bytes.saturating_add(bytes);
    }

    /// `survey`: what is there, where that is known.
    fn vacuum(&mut self, survey: Option<&Survey>) -> Step {
        self.give_way()?;
        let known = survey.filter(|survey| survey.damaged.is_empty() && !survey.chunks.is_empty());
        // SAFETY: a round of its own, that changes nothing itself.
        unsafe {
            self.rounds.run(|table, _| {
                let vacuumed = self.vacuumed.get_or_insert_default();
                vacuumed.extend(quiet::changed_pages(table));
                vacuumed.sort_unstable();
                vacuumed.dedup();
                let (rows_before, live) = (rows_known(table), activity::live_rows(table));
                vacuum::run(table);
                match (known, rows_before.filter(|_| survey.is_none())) {
                    (Some(known), _) => vacuum::store_counted(table, known.live_rows as f64),
                    // The next survey counts them.
                    (None, Some(rows)) => {
                        vacuum::store_rows(table, rows);
                        activity::set_live_rows(table, live.unwrap_or(rows));
                    }
                    (None, None) => density::store_rows(table),
                }
                self.watch.progress("vacuum", 0, 0);
            })
        };
        self.cut_end()
    }

    /// Cuts empty pages off the end of the file, as soon as nobody is at the table; waits for that as long as VACUUM would.
    fn cut_end(&self) -> Step {
        let deadline = Instant::now() + CUT_PATIENCE;
        loop {
            self.give_way()?;
            // SAFETY: a round of its own, without a pin.
            let is_done = unsafe {
                self.rounds
                    .run(|table, _| !vacuum::may_truncate(table) || file_end::cut(table))
            };
            if is_done || Instant::now() > deadline {
                return Some(());
            }
            file_end::pause();
        }
    }

    /// Surveys the table, which had the chunks of the survey `before`, the last one, if there was one.
    fn survey(&mut self, before: Option<&Survey>) -> Survey {
        let vacuumed = self.vacuumed.take();
        let entered = self.entered.take().filter(|_| vacuumed.is_none());
        let is_alone = core::mem::replace(&mut self.is_alone, true);
        let before = before.filter(|_| is_alone).map(|survey| Before {
            survey,
            vacuumed: vacuumed.as_deref(),
        });
        // SAFETY: a round's table and snapshot.
        let survey = unsafe {
            self.rounds.run(|table, snapshot| {
                let (layout, unentered) = (layout::of(table), self.unentered.as_deref());
                let mut survey = Survey::take(table, &layout, snapshot, unentered, entered, before);
                self.damaged.iter().for_each(|&at| survey.leave_out(at));
                survey
            })
        };
        self.unentered = Some(survey.unentered.clone());
        survey
    }

    /// Notes that the table is settled, if a survey that was made since the last vacuum finds nothing that only a walk over all pages
    /// would find the next time.
    fn settle(&mut self, survey: Survey) {
        let is_known = self.is_alone && self.vacuumed.is_none();
        // SAFETY: a round's table and snapshot.
        unsafe {
            self.rounds.run(|table, snapshot| {
                let layout = layout::of(table);
                let windows = Windows::of(table, &layout);
                let tombstones: Vec<u32> = survey.unentered.iter().map(|at| at.block).collect();
                let is_sound = survey.damaged.is_empty() && self.damaged.is_empty();
                let is_done =
                    survey.tail.is_empty() && is_sound && !plan::is_unfinished(&survey, &windows);
                let is_found = is_done || quiet::changed_count(table) > 0;
                let is_allowed = seal::is_allowed(table, &layout);
                if is_allowed && is_found && !quiet::is_any_visible(table, &tombstones) {
                    remembered::keep(table, snapshot, survey, is_known && is_sound);
                    quiet::settle(table);
                }
            })
        }
    }

    /// Builds the indexes again of which little is left.
    fn rebuild_indexes(&mut self) -> Step {
        // SAFETY: a round's table and snapshot; each index is built in a round of its own.
        unsafe {
            let bloated = self.rounds.run(reindex::bloated);
            for index in bloated {
                self.give_way()?;
                let built = self
                    .rounds
                    .attempt(|table, _| reindex::try_rebuild(table, index));
                match built {
                    Ok(is_built) => self.has_bloated_index |= !is_built,
                    Err(what) => {
                        self.watch.damaged(format!(
                            "varve.compact leaves an index as large as it is: {what}"
                        ));
                        return Some(());
                    }
                }
            }
        }
        Some(())
    }

    /// Vacuums what a survey has found, and moves chunks down while that makes the file smaller.
    fn shrink(&mut self, mut survey: Survey) -> Step {
        self.may_move(survey.rewritten_bytes);
        if self.is_settled {
            // Among it are the dead tuples that have just been counted.
            let left = self.watch.left_bytes().unwrap_or_default();
            self.may_move_bytes = self.may_move_bytes.max(left);
        }
        // SAFETY: a round's table.
        let (may_truncate, changed) = unsafe {
            self.rounds
                .run(|table, _| (vacuum::may_truncate(table), quiet::changed_count(table)))
        };
        if changed > 0 || survey.dead > 0 || may_truncate && survey.has_empty_end() {
            self.vacuum(Some(&survey))?;
            survey = self.survey(Some(&survey));
        }
        for _ in 0..MOVES {
            if !may_truncate {
                break;
            }
            let most = self.may_move_bytes;
            // SAFETY: as above.
            let cut = unsafe {
                self.rounds
                    .run(|table, _| relocate::cut(table, &survey, most))
            };
            let Some(cut) = cut else {
                break;
            };
            let moved = self.move_down(&survey, cut)?;
            if moved.chunks == 0 {
                break;
            }
            let moved_bytes = moved.freed.div_ceil(PER_PAGE) * relocate::PAGE_BYTES;
            self.may_move_bytes = self.may_move_bytes.saturating_sub(moved_bytes);
            self.vacuum(Some(&survey))?;
            survey = self.survey(Some(&survey));
        }
        let is_much = survey.dead > FEW_DEAD + survey.live_tuples / 8;
        self.has_dead = may_truncate && (is_much || survey.has_empty_end());
        self.left_bytes = Some(self.left_by(&survey, may_truncate));
        self.settle(survey);
        Some(())
    }

    /// What is left behind at the end: dead tuples whose rows are elsewhere, and what could have been moved for others but for what stood in
    /// the way, as far as there are holes.
    fn left_by(&self, survey: &Survey, may_truncate: bool) -> u64 {
        let dead = survey.rewritten_bytes;
        if may_truncate && survey.dead == 0 && survey.chunks.iter().all(relocate::moves) {
            return dead;
        }
        let holes = u64::from(survey.blocks) * relocate::PAGE_BYTES;
        let holes = holes.saturating_sub(survey.live_bytes);
        self.may_move_bytes.min(holes).max(dead)
    }

    /// Moves chunks down that reach beyond page `cut`.
    fn move_down(&mut self, survey: &Survey, cut: u32) -> Option<Done> {
        let mut moved = Done::default();
        loop {
            self.give_way()?;
            // SAFETY: a round's table and snapshot.
            let (done, damaged) = unsafe {
                self.rounds.run(|table, snapshot| {
                    locks::begin_moving(table, Mover::Compact);
                    self.watch.progress("move", moved.chunks as u64, 0);
                    relocate::round(table, survey, snapshot, cut)
                })
            };
            for (at, damage) in &damaged {
                self.leave_out(*at, damage);
            }
            moved.chunks += done.chunks;
            moved.freed += done.freed;
            if done.chunks == 0 {
                return Some(moved);
            }
        }
    }
}
