//! What runs on tables by itself, or by CALL: jobs. Compaction seals and merges what has come; rules of retention delete what
//! is too old. A background worker runs what is due (docs/design/0015).
//!
//! * `definition`: what jobs there are; `settings`: SQL functions that say so; `view`: the ones that show them
//! * `run`: one job, with its record; `procedures`: the same by CALL
//! * `database`: the background worker of a database; `place`: the one of a few that it has, and gives up when others wait
//! * `launcher`: what starts workers, where the server preloads the library
//! * `pg::wake`: how it is started where nothing was preloaded

mod database;
mod definition;
mod launcher;
mod place;
mod procedures;
mod run;
mod settings;
mod view;

pub fn init() {
    definition::init();
    launcher::init();
}
