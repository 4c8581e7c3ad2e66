//! A test in a network namespace of its own, where it may change settings of the whole machine.

use std::{env, process::Command};

use evcore_testing::not_run;

/// The environment variable that marks the process with a network of its own.
const INSIDE: &str = "EVCORE_TESTS_OWN_NETWORK";

/// Runs `claim` in a network of its own, which has a loopback interface and nothing else. The shell
/// commands `setup` run there first.
///
/// `test` is the name of the calling test, with its modules. A new process runs this test again, in
/// the new network. If this user may not create one, the test is reported as not run.
///
/// # Panics
///
/// If the test fails there, or is not found.
pub fn in_own_network(test: &str, setup: &str, claim: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        claim();
        println!("{}", receipt(test));
        return;
    }
    if !unshare("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        not_run("this user may have no network of its own");
        return;
    }
    let this = env::current_exe().expect("this program has a path");
    let mut command = unshare(&format!("{setup}\nexec \"$0\" \"$@\""));
    command.arg(this).args([test, "--exact", "--nocapture"]);
    let output = command.env(INSIDE, "1").output().expect("unshare starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    // The status is not enough, because a process that does not find the test succeeds too.
    assert!(
        output.status.success() && printed.contains(&receipt(test)),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A shell in a new network, whose loopback interface is up.
fn unshare(script: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("ip link set lo up\n{script}");
    command.args(["--map-root-user", "--net", "sh", "-ec", &script]);
    command
}

fn receipt(test: &str) -> String {
    format!("[{test} ran in its own network]")
}
