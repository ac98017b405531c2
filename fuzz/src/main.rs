//! Fuzzes the target that `CUCKOOD_FUZZ_TARGET` names, one of
//! `cuckood::fuzz_targets::TARGETS`.

#![no_main]

use cuckood::fuzz_targets::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

fn target() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let wanted = std::env::var("CUCKOOD_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|(name, _)| *name == wanted);
        let Some((_, target)) = found else {
            let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            panic!("CUCKOOD_FUZZ_TARGET is {wanted:?}, allowed is one of {names:?}");
        };
        *target
    })
}

fuzz_target!(|bytes: &[u8]| target()(bytes));
