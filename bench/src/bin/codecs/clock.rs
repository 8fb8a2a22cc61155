//! Processor time of this thread: what other programs of the machine take does not count.

use std::time::Duration;

/// Calls `work` and returns the least time of `repeats` runs.
pub fn fastest(repeats: usize, mut work: impl FnMut()) -> Duration {
    (0..repeats)
        .map(|_| {
            let start = now();
            work();
            now() - start
        })
        .min()
        .unwrap_or_default()
}

fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call, and the clock exists on every Linux.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(code, 0, "BUG: no clock of the thread");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
