//! The kinds of points, by what workers meet: each is forced once.

use crate::setting::Stage;

/// By what a worker meets the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// And whatever else all have.
    Listener,
    Lock,
    Seat,
    /// What only the keeper does.
    Keeper,
}

use By::{Keeper, Listener, Lock, Seat};

/// The kinds of points that a worker may come to in this stage. Those `in` a call are before an
/// operation inside of it.
pub(crate) fn of(stage: Stage) -> Vec<(&'static str, By)> {
    match stage {
        Stage::Serving => SERVING.to_vec(),
        Stage::Leaving => [&LEAVING[..], &STOPPING].concat(),
        Stage::Stopping => [&STOPPING[..], &CALLING].concat(),
    }
}

const SERVING: [(&str, By); 39] = [
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
    ("before sit", Seat),
    ("before exchange in sit", Seat),
    ("before silence in sit", Seat),
    ("after sit", Seat),
    ("before is_called", Seat),
    ("before load in is_called", Seat),
    ("after is_called", Seat),
    ("before look", Seat),
    ("before store in look", Seat),
    ("before load in look", Seat),
    ("after look", Seat),
    ("before call", Seat),
    ("before exchange in call", Seat),
    ("before ring in call", Seat),
    ("after call", Seat),
    ("before silence", Seat),
    ("before silence in silence", Seat),
    ("after silence", Seat),
    ("before take", Keeper),
    ("before store in take", Keeper),
    ("after take", Keeper),
    ("before resign", Keeper),
    ("before exchange in resign", Keeper),
    ("after resign", Keeper),
];

const LEAVING: [(&str, By); 5] = [
    ("before publish", Listener),
    ("after publish", Listener),
    ("before resign", Seat),
    ("before exchange in resign", Seat),
    ("after resign", Seat),
];

/// What is shared is given up when it is dropped.
const STOPPING: [(&str, By); 6] = [
    ("before drop", Listener),
    ("after drop", Listener),
    ("before exchange in drop", Lock),
    ("before load in drop", Seat),
    ("before store in drop", Seat),
    ("before exchange in drop", Seat),
];

/// A keeper that stops calls another, if there was no time to find one before.
const CALLING: [(&str, By); 1] = [("before ring in drop", Keeper)];
