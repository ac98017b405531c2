//! The tests of shares run once more where a key may take all: there each of them
//! must fail, or it shows no share. To be run after a change to one of them:
//! `cargo test --release --test api --test redis no_shares -- --ignored`.

use std::env;
use std::process::Command;

/// Percent of everything that one key gets in a run of the tests of shares.
const PERCENT: &str = "CUCKOOD_TEST_KEY_SHARE";

/// Rows whose share has a flag of its own, and what shows that whoever waits for
/// the disk has no turn, whatever its share.
const OTHERS: [&str; 3] = [
    "disk_shares::turns_of_large_questions",
    "kept_shares::bytes_of_filters_of_a_key",
    "kept_shares::filters_of_a_key",
];

pub(crate) fn percent() -> Option<u8> {
    let text = env::var(PERCENT).ok()?;
    Some(text.parse().unwrap())
}

#[test]
#[ignore = "minutes: each test of a share once more"]
fn each_test_of_a_share_fails_where_there_is_none() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("shares::").args(["--skip", "no_shares::"]);
    let output = command.env(PERCENT, "100").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let ended = |how: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("test "));
        let named = lines.filter_map(|line| line.strip_suffix(how));
        named.map(str::to_owned).collect()
    };
    let (mut passed, failed) = (ended(" ... ok"), ended(" ... FAILED"));
    println!("without shares {failed:?} fail");
    passed.retain(|test| !OTHERS.contains(&&**test));
    assert_eq!(passed, [""; 0], "{text}");
    assert!(failed.len() > 3, "{text}");
}
