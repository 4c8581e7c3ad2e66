//! The kinds of failpoints. Each kind that a worker can hit gets a run in which a worker dies
//! there.

use crate::config::Phase;

/// The part of a worker that a kind of failpoint needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    Listener,
    Lock,
    Group,
    Leader,
}

use Needs::{Group, Leader, Listener, Lock};

/// The kinds of failpoints that a worker may hit in this phase. Kinds with `in` are before an
/// operation inside a call.
pub(crate) fn of(phase: Phase) -> Vec<(&'static str, Needs)> {
    match phase {
        Phase::Serving => SERVING.to_vec(),
        Phase::Leaving => [&LEAVING[..], &STOPPING].concat(),
        Phase::Stopping => [&STOPPING[..], &NOTIFYING].concat(),
    }
}

const SERVING: [(&str, Needs); 41] = [
    ("before register", Listener),
    ("before wait", Listener),
    ("after wait", Listener),
    ("before accept", Listener),
    ("after accept", Listener),
    ("before step", Listener),
    ("before publish", Listener),
    ("after publish", Listener),
    ("before try_lock", Lock),
    ("before load in try_lock", Lock),
    ("before exchange in try_lock", Lock),
    ("after try_lock", Lock),
    ("before unlock", Lock),
    ("before exchange in unlock", Lock),
    ("after unlock", Lock),
    ("before join", Group),
    ("before exchange in join", Group),
    ("before store in join", Group),
    ("before clear in join", Group),
    ("after join", Group),
    ("before is_notified", Group),
    ("before load in is_notified", Group),
    ("after is_notified", Group),
    ("before sync", Group),
    ("before store in sync", Group),
    ("before exchange in sync", Group),
    ("before load in sync", Group),
    ("after sync", Group),
    ("before notify", Group),
    ("before exchange in notify", Group),
    ("before notify in notify", Group),
    ("after notify", Group),
    ("before clear_notifier", Group),
    ("before clear in clear_notifier", Group),
    ("after clear_notifier", Group),
    ("before lead", Leader),
    ("before store in lead", Leader),
    ("after lead", Leader),
    ("before step_down", Leader),
    ("before exchange in step_down", Leader),
    ("after step_down", Leader),
];

const LEAVING: [(&str, Needs); 5] = [
    ("before publish", Listener),
    ("after publish", Listener),
    ("before step_down", Group),
    ("before exchange in step_down", Group),
    ("after step_down", Group),
];

/// A worker leaves its group when it drops its member.
const STOPPING: [(&str, Needs); 6] = [
    ("before drop", Listener),
    ("after drop", Listener),
    ("before exchange in drop", Lock),
    ("before load in drop", Group),
    ("before store in drop", Group),
    ("before exchange in drop", Group),
];

/// A leader that stops notifies another worker, unless another worker leads by then.
const NOTIFYING: [(&str, Needs); 1] = [("before notify in drop", Leader)];
