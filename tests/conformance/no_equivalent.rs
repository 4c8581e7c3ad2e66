//! The scenarios that do not run over the simulator's backend, with the reasons.

use std::collections::BTreeSet;

use crate::{
    changes, connecting, edge, exclusive, file_kinds, forking, level, many_sources, nesting,
    oneshot, priority, reregistering, signals, stale, stream_ends, wait_timeouts, waking,
};

/// Reasons why features have no equivalent in a simulation, and the scenarios about these features.
const NO_EQUIVALENT: &[(&str, &[&str])] = &[
    (
        "duplicates of a descriptor: a simulated socket has one number",
        &[
            "two_keys_watch_one_file_through_a_duplicate",
            "a_key_removed_before_close_is_silent_despite_a_duplicate",
            "a_closed_and_removed_key_is_silent_despite_a_duplicate",
            "a_rebuilt_set_reports_the_other_registrations",
            "a_fired_one_shot_is_silent_in_a_rebuilt_set",
            "a_descriptor_not_closed_after_all_can_be_added_again",
            "a_reported_wake_is_not_repeated_by_a_rebuilt_set",
            "no_wake_is_lost_while_the_set_is_rebuilt",
        ],
    ),
    (
        "files other than stream sockets: there are no pipes, regular files or devices",
        &[
            "a_hang_up_sets_the_side_of_a_reader",
            "an_error_sets_the_side_of_a_writer",
            "edge_reports_an_error_once",
            "edge_reports_an_error_behind_an_unanswered_report_once",
            "a_file_without_readiness_is_refused_or_always_ready",
        ],
    ),
    (
        "a socket that is registered before it connects: a simulated socket exists only once its \
         connect has begun",
        &[
            "a_socket_registered_before_connect_reports_it",
            "a_socket_registered_before_a_refused_connect_reports_it",
        ],
    ),
    (
        "urgent data: nothing is sent but plain bytes",
        &[
            "priority_data_before_the_first_wait_is_reported",
            "priority_data_after_a_wait_is_reported",
            "priority_data_behind_unread_data_is_reported",
            "priority_data_is_reported_to_a_writer_without_room",
            "data_is_not_priority_data",
        ],
    ),
    (
        "terminals",
        &["a_terminal_that_has_hung_up_is_an_edge_once"],
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
            "a_child_wakes_its_parent_through_a_wakers_descriptor",
        ],
    ),
    (
        "threads that run while another thread waits: a simulated wait does not block; it moves \
         the simulated time on, and returns. (`crates/evcore-sim/tests/sim/workers.rs` tests which \
         of several sleepers wakes.)",
        &[
            "a_million_wakes_from_four_threads",
            "a_reregistered_poller_is_woken_last_or_exclusive_is_refused",
            "one_of_two_pollers_is_woken_or_exclusive_is_refused",
        ],
    ),
    (
        "a poller in another one: a simulated poller has no descriptor",
        &["a_nested_poller_is_readable_while_it_has_something_to_report"],
    ),
    (
        "forks",
        &["a_forked_child_is_refused_and_the_parent_goes_on"],
    ),
    (
        "signals that a kernel delivers. (`Fault::InterruptedWait` is the equivalent.)",
        &[
            "a_wait_goes_on_to_its_deadline_through_signals",
            "a_wait_without_a_timeout_goes_on_through_signals",
            "a_wait_goes_on_through_signals_to_what_becomes_ready",
            "a_wait_returns_on_a_signal_if_asked_to",
        ],
    ),
];

#[test]
fn nothing_is_left_out_without_a_reason() {
    let left_out = [
        changes::KERNEL_ONLY,
        stream_ends::KERNEL_ONLY,
        connecting::KERNEL_ONLY,
        many_sources::KERNEL_ONLY,
        file_kinds::KERNEL_ONLY,
        edge::KERNEL_ONLY,
        exclusive::KERNEL_ONLY,
        forking::KERNEL_ONLY,
        nesting::KERNEL_ONLY,
        reregistering::KERNEL_ONLY,
        level::KERNEL_ONLY,
        oneshot::KERNEL_ONLY,
        priority::KERNEL_ONLY,
        signals::KERNEL_ONLY,
        stale::KERNEL_ONLY,
        wait_timeouts::KERNEL_ONLY,
        waking::KERNEL_ONLY,
    ];
    let left_out: BTreeSet<_> = left_out.into_iter().flatten().copied().collect();
    let with_a_reason = NO_EQUIVALENT.iter().flat_map(|(_, scenarios)| *scenarios);
    assert_eq!(left_out, with_a_reason.copied().collect());
}
