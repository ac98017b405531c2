//! What a test needs of the machine: `fuse` (`/dev/fuse`, and the right to mount it),
//! `tmpfs` (a mount namespace of its own), `netns` (network namespaces, and `ip`).
//! Where it is missing the test is skipped, or does without, unless
//! `CUCKOOD_TEST_REQUIRE` names it (`fuse,tmpfs,netns`), as continuous integration
//! does: then it fails.

use std::fmt::Display;

/// Says that the machine lacks something, and why.
///
/// # Panics
/// If it is required here.
pub(crate) fn missing(what: &str, why: impl Display) {
    let required = std::env::var("CUCKOOD_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == what),
        "CUCKOOD_TEST_REQUIRE names {what}, which this machine does not have: {why}"
    );
    println!("skipped: no {what} here: {why}");
}
