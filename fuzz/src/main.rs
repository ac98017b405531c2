//! Fuzzes the target that `CUCKOOD_FUZZ_TARGET` names, one of
//! all that stand in the packages' `fuzz_targets`, beside the readers of bytes that are not
//! trusted. Their tests replay what fuzzing found, `fuzz/seeds`.

#![no_main]

use cuckood_pages::store::fuzz_targets::Target;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

fn target() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let wanted = std::env::var("CUCKOOD_FUZZ_TARGET").unwrap_or_default();
        let targets = [
            cuckood_access::fuzz_targets::TARGETS,
            cuckood_cluster::fuzz_targets::TARGETS,
            cuckood_engine::fuzz_targets::TARGETS,
            cuckood_filter::file::fuzz_targets::TARGETS,
            cuckood_http::fuzz_targets::TARGETS,
            cuckood_pages::store::fuzz_targets::TARGETS,
            cuckood_redis::fuzz_targets::TARGETS,
        ]
        .concat();
        let found = targets.iter().find(|(name, _)| *name == wanted);
        let Some((_, target)) = found else {
            let names: Vec<&str> = targets.iter().map(|(name, _)| *name).collect();
            panic!("CUCKOOD_FUZZ_TARGET is {wanted:?}, allowed is one of {names:?}");
        };
        *target
    })
}

fuzz_target!(|bytes: &[u8]| target()(bytes));
