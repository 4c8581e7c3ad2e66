//! The report of a failure leads to the bug: three planted bugs, each with the words that name it.

use evcore_sim::{Sim, explain};

use crate::{echo_server::Bug, planted_bugs::lost_clients};

/// Returns the report of the first seed that loses a client. Only seeds of one parity are tried,
/// because they have the same kind of kernel.
fn report_of(bug: Bug, first_seed: u64) -> String {
    let test = |sim: &Sim| {
        let lost = lost_clients(sim, bug);
        assert!(lost.is_empty(), "{lost:?}");
    };
    let mut reports = (first_seed..).step_by(2).take(50);
    let report = reports.find_map(|seed| explain("loses_no_client", seed, test));
    report.expect("it is found").to_string()
}

#[track_caller]
fn assert_has(report: &str, words: &[&str]) {
    for words in words {
        assert!(report.contains(words), "{words:?} is missing in:\n{report}");
    }
}

#[test]
fn a_forgotten_rearm_is_named_by_the_report() {
    let report = report_of(Bug::ForgottenRearm, 1);
    assert_has(
        &report,
        &[
            ", 1 in place of 10 clients, and no fault; it took ",
            "\n  client 0, 10.0.0.1:7 <- 198.18.0.0:49152, last active at ",
            "\n    client 0: waits for 1,018 bytes\n",
            "has 1,018 bytes unread; is registered as 3v1 for nothing; \
             READ is not rearmed, and it is ready; its last report was READABLE at ",
            " takes Ready(3v1, READABLE)\n",
            " changes a registration to nothing: client 0, ",
        ],
    );
}

#[test]
fn a_short_write_whose_rest_is_dropped_is_in_the_report() {
    let report = report_of(Bug::ShortWriteMeansSent, 0);
    let fault = " fault ShortWrite at worker 1: client 0, 10.0.0.1:7 <- ";
    assert_has(&report, &[", and the fault ShortWrite until ", fault]);
    // The client waits for the bytes that the server has dropped. In the report, the line of the
    // fault comes before the line of the short send.
    let lines: Vec<_> = report.lines().collect();
    let after_faults = lines.windows(2).filter(|pair| pair[0].contains(fault));
    let dropped: usize = after_faults.map(|pair| unsent(pair[1])).sum();
    assert!(dropped > 0, "{report}");
    assert_has(
        &report,
        &[&format!("\n    client 0: waits for {dropped} bytes\n")],
    );
}

/// Number of bytes that a short write has not sent, such as 52 for `sends 204 of 256 bytes`.
fn unsent(line: &str) -> usize {
    let (_, rest) = line.split_once(" sends ").expect("a send follows");
    let mut words = rest
        .split(' ')
        .filter_map(|word| word.parse::<usize>().ok());
    let (sent, of) = (words.next(), words.next());
    of.zip(sent).map_or(0, |(of, sent)| of - sent)
}

#[test]
fn a_missed_end_of_the_stream_is_named_by_the_report() {
    let report = report_of(Bug::ShortReadMeansDrained, 0);
    assert_has(
        &report,
        &[
            "\n    client 0: waits for the end of the stream\n",
            "the peer has ended its stream; is registered as 3v1 for READ|WRITE; \
             its last report was READABLE|WRITABLE|READ_CLOSED at ",
            " the end of the stream arrives at worker ",
        ],
    );
}
