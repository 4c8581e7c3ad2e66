#![doc = include_str!("../README.md")]

mod balancer;
mod coordinator;
mod inputs;
mod lateness;
mod plan;
mod policy;
mod rebalance;
mod spread;

mod accept_mutex;
mod group;
mod group_member;
mod notify;
mod scoreboard;
mod server_group;
mod worker_id;

mod line;
mod member_words;
mod notify_fd;
mod os_error;
mod shared_memory;
mod sync;

pub use accept_mutex::{AcceptMutex, MutexHandle};
pub use balancer::Balancer;
pub use coordinator::Coordinator;
pub use group::{Member, WorkerGroup};
pub use group_member::GroupMember;
pub use inputs::{GroupView, Inputs, Leader, Load, MoveCounts, Moved, Peer};
pub use notify::{Notifier, Notify};
pub use plan::{Leadership, Plan};
pub use policy::Policy;
pub use scoreboard::Scoreboard;
pub use spread::{Give, Spread};
pub use worker_id::WorkerId;

// A value of each type may be made on one thread and used on another. Values that workers share may
// be used on many threads at once.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Balancer>();
    is_send::<Coordinator>();
    is_send::<MutexHandle>();
    is_send::<Member>();
    is_send::<&AcceptMutex>();
    is_send::<&WorkerGroup>();
    is_send::<&Scoreboard<1>>();
};
