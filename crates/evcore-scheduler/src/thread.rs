//! The background thread: it runs the jobs that are due.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    job::{Job, Run},
    jobs::Key,
    shared::Shared,
};

pub(crate) fn body(
    shared: Arc<Shared<Run>>,
    mut report: impl FnMut(&Job, Box<dyn Any + Send>) + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    move || {
        while let Some((key, run)) = shared.next_due() {
            run_job(&shared, key, run, &mut report);
        }
        drop_jobs(&shared);
    }
}

pub(crate) fn run_job(
    shared: &Arc<Shared<Run>>,
    key: Key,
    mut run: Run,
    report: &mut impl FnMut(&Job, Box<dyn Any + Send>),
) {
    let job = Job::new(Arc::clone(shared), key);
    let ran = catch_panic(|| run(&job));
    let ended = shared.put_back(key, run, ran.is_err());
    // Dropping the values that the closure owns may panic, too.
    let dropped = catch_panic(|| drop(ended));
    for panic in [ran, dropped].into_iter().filter_map(Result::err) {
        let _ = catch_panic(|| report(&job, panic));
    }
}

pub(crate) fn drop_jobs(shared: &Shared<Run>) {
    let unrun = shared.take_all();
    for slot in unrun {
        let _ = catch_panic(|| drop(slot));
    }
}

fn catch_panic(code: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(code))
}
