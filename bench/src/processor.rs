//! One processor for a client and the process of the server that answers it. They take turns anyway; on two processors each has to wake the
//! other's first, which on a virtual machine takes as long as the shortest queries.

use crate::asker::Asker;
use crate::Result;
use std::io::Error;
use std::mem::size_of;

/// This thread and the process that answers its client are on one processor until it is dropped.
pub struct Shared {
    /// Where they may be else.
    before: [(libc::pid_t, libc::cpu_set_t); 2],
}

impl Shared {
    pub fn with_server(asker: &Asker) -> Result<Shared> {
        let answering = asker.process();
        // The thread that asks has the number 0.
        let before = [(0, allowed(0)?), (answering, allowed(answering)?)];
        let shared = Shared { before };
        // SAFETY: a set of no processors is zeros; `sched_getcpu` takes nothing.
        let one = unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(usize::try_from(libc::sched_getcpu())?, &mut one);
            one
        };
        for (process, _) in &shared.before {
            allow(*process, &one)?;
        }
        Ok(shared)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for (process, before) in &self.before {
            // The server's may have ended.
            let _ = allow(*process, before);
        }
    }
}

/// The processors that a process may be on.
fn allowed(process: libc::pid_t) -> Result<libc::cpu_set_t> {
    // SAFETY: a set of no processors is zeros; the call writes one.
    let (set, code) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let code = libc::sched_getaffinity(process, size_of::<libc::cpu_set_t>(), &mut set);
        (set, code)
    };
    match code {
        0 => Ok(set),
        _ => Err(Error::last_os_error().into()),
    }
}

fn allow(process: libc::pid_t, set: &libc::cpu_set_t) -> Result<()> {
    // SAFETY: the call reads a set.
    match unsafe { libc::sched_setaffinity(process, size_of::<libc::cpu_set_t>(), set) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error().into()),
    }
}
