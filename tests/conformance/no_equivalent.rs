//! The scenarios that do not run over the simulator's backend, and why not.

use std::collections::BTreeSet;

use crate::{
    changes, closing, connecting, crowds, descriptors, edge, exclusive, forking, level, oneshot,
    signals, stale, timeouts, waking,
};

/// What a scenario is about that a world has no equivalent of, and the scenarios.
const NO_EQUIVALENT: &[(&str, &[&str])] = &[
    (
        "duplicates of a descriptor: a simulated socket has one number",
        &[
            "two_keys_watch_one_file_through_a_duplicate",
            "what_was_forgotten_is_silent_although_a_duplicate_lives",
            "what_was_closed_and_removed_is_silent_although_a_duplicate_lives",
            "the_others_are_heard_after_the_silence",
            "a_one_shot_that_reported_is_silent_after_the_silence",
            "what_was_forgotten_and_lives_on_under_its_number_is_added_again",
            "a_wake_that_was_seen_is_not_seen_again_after_the_silence",
            "no_wake_is_lost_while_the_forgotten_are_silenced",
        ],
    ),
    (
        "files that are no stream sockets: there are no pipes, regular files or devices",
        &[
            "a_hang_up_alone_is_told_to_the_reader",
            "an_error_alone_is_told_to_the_writer",
            "edge_tells_of_an_error_once",
            "edge_reports_an_error_behind_an_unanswered_report_once",
            "a_file_without_readiness_is_refused_or_always_ready",
        ],
    ),
    (
        "a connect that is in progress: a simulated socket is made connected",
        &[
            "a_connection_is_reported_to_a_socket_that_was_registered_before",
            "a_refused_connection_is_reported_to_a_socket_that_was_registered_before",
        ],
    ),
    (
        "urgent data: nothing is sent but plain bytes",
        &["priority_data_is_told_apart"],
    ),
    (
        "which numbers select's sets hold",
        &["a_descriptor_beyond_the_sets_is_refused_or_watched"],
    ),
    (
        "a waker's descriptor: a simulated waker is a flag",
        &[
            "eight_bytes_written_by_hand_wake_too",
            "a_pollers_own_waker_cannot_be_registered",
            "a_child_wakes_its_parent_by_the_descriptor_of_a_waker",
        ],
    ),
    (
        "threads that run while another waits: a wait passes simulated time, which is over at once. \
         (`crates/evcore-sim/tests/sim/workers.rs` tests which of several sleepers wakes.)",
        &[
            "a_million_wakes_from_four_threads",
            "one_of_two_is_woken_or_it_is_refused",
        ],
    ),
    (
        "forks",
        &["a_forked_child_is_refused_and_the_parent_goes_on"],
    ),
    (
        "signals that a kernel delivers. (`Fault::InterruptedWait` is what is left of them.)",
        &[
            "a_wait_goes_on_to_its_deadline_through_signals",
            "a_wait_without_a_timeout_goes_on_through_signals",
            "a_wait_goes_on_to_what_becomes_ready",
            "who_asks_to_see_signals_sees_them",
        ],
    ),
];

#[test]
fn nothing_is_left_out_of_a_world_without_a_reason() {
    let left_out = [
        changes::OF_KERNELS_ALONE,
        closing::OF_KERNELS_ALONE,
        connecting::OF_KERNELS_ALONE,
        crowds::OF_KERNELS_ALONE,
        descriptors::OF_KERNELS_ALONE,
        edge::OF_KERNELS_ALONE,
        exclusive::OF_KERNELS_ALONE,
        forking::OF_KERNELS_ALONE,
        level::OF_KERNELS_ALONE,
        oneshot::OF_KERNELS_ALONE,
        signals::OF_KERNELS_ALONE,
        stale::OF_KERNELS_ALONE,
        timeouts::OF_KERNELS_ALONE,
        waking::OF_KERNELS_ALONE,
    ];
    let left_out: BTreeSet<_> = left_out.into_iter().flatten().copied().collect();
    let with_a_reason = NO_EQUIVALENT.iter().flat_map(|(_, scenarios)| *scenarios);
    assert_eq!(left_out, with_a_reason.copied().collect());
}
