//! Requests and completions, and their entries in the queues that the kernel shares.

use std::os::fd::RawFd;

use rustix::{
    io::Errno,
    io_uring::{
        IoringCqeFlags, IoringOp, IoringPollFlags, IoringSqeFlags, addr_or_splice_off_in_union,
        io_uring_cqe, io_uring_sqe, len_union, op_flags_union,
    },
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// `IORING_OP_POLL_ADD`.
    Watch {
        fd: RawFd,
        /// Flags of poll.
        flags: u32,
        /// True if each wake-up makes a completion. The last completion has `more` unset.
        multishot: bool,
        name: u64,
    },
    /// `IORING_OP_ASYNC_CANCEL` of the request with the name `target`, which then completes with
    /// `ECANCELED`. The cancellation itself completes only if there is no such request.
    Cancel { name: u64, target: u64 },
}

/// A result of a request. A multishot request may have several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) name: u64,
    /// Flags of poll, or the error.
    pub(super) result: Result<u32, Errno>,
    /// True if the request goes on.
    pub(super) more: bool,
}

// The ring is opened without the flags that make these entries larger.
const _: () = {
    assert!(size_of::<io_uring_sqe>() == 64);
    assert!(size_of::<io_uring_cqe>() == 16);
};

impl From<Request> for io_uring_sqe {
    fn from(request: Request) -> Self {
        let none = Self {
            fd: -1,
            ..Self::default()
        };
        match request {
            Request::Watch {
                fd,
                flags,
                multishot,
                name,
            } => Self {
                opcode: IoringOp::PollAdd,
                fd,
                len: len_union {
                    poll_flags: if multishot {
                        IoringPollFlags::ADD_MULTI
                    } else {
                        IoringPollFlags::empty()
                    },
                },
                op_flags: op_flags_union {
                    // The kernel expects the two halves in little-endian order.
                    poll32_events: if cfg!(target_endian = "big") {
                        flags.rotate_left(16)
                    } else {
                        flags
                    },
                },
                user_data: name.into(),
                ..none
            },
            Request::Cancel { name, target } => Self {
                opcode: IoringOp::AsyncCancel,
                flags: IoringSqeFlags::CQE_SKIP_SUCCESS,
                addr_or_splice_off_in: addr_or_splice_off_in_union {
                    user_data: target.into(),
                },
                user_data: name.into(),
                ..none
            },
        }
    }
}

impl From<&io_uring_cqe> for Completion {
    fn from(entry: &io_uring_cqe) -> Self {
        Self {
            name: entry.user_data.u64_(),
            result: u32::try_from(entry.res)
                .map_err(|_| Errno::from_raw_os_error(entry.res.wrapping_neg())),
            more: entry.flags.contains(IoringCqeFlags::MORE),
        }
    }
}
