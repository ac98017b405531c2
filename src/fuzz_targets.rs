//! One fuzz target for every reader of bytes that are not trusted. What a
//! target asserts stands beside the reader, in the `fuzz_targets` of its room.
//! Not part of the program: the fuzzer calls the targets, and a test replays
//! what fuzzing found, `fuzz/seeds`.

use crate::{access, engine, http, redis, replication, store};

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All targets, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[
    ("keys", access::fuzz_targets::keys),
    ("dump", engine::fuzz_targets::dump),
    ("scandump", engine::fuzz_targets::scandump),
    ("description", engine::fuzz_targets::description),
    ("image", engine::fuzz_targets::image),
    ("notes", engine::fuzz_targets::notes),
    ("page", store::fuzz_targets::page),
    ("commit", store::fuzz_targets::commit),
    ("redo", store::fuzz_targets::redo),
    ("values", store::fuzz_targets::values),
    ("record", replication::fuzz_targets::record),
    ("fields", http::fuzz_targets::fields),
    ("head", http::fuzz_targets::head),
    ("items", http::fuzz_targets::items),
    ("lines", http::fuzz_targets::lines),
    ("query", http::fuzz_targets::query),
    ("stream", http::fuzz_targets::stream),
    ("resp", redis::fuzz_targets::resp),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;

    fn seeds() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds")
    }

    #[test]
    fn what_fuzzing_found_is_read_as_ever() {
        for (name, target) in TARGETS {
            let mut files: Vec<_> = std::fs::read_dir(seeds().join(name))
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .map(|entry| entry.unwrap().path())
                .collect();
            files.sort();
            assert!(!files.is_empty(), "{name} has no seeds");
            for file in files {
                println!("{}", file.display());
                target(&std::fs::read(file).unwrap());
            }
        }
    }

    #[test]
    fn every_target_bears_bytes_without_sense() {
        let mut state = 20_261_121u64;
        println!("seed {state}");
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        for (name, target) in TARGETS {
            println!("{name}");
            for length in 0..200 {
                let bytes: Vec<u8> = (0..length).map(|_| random()).collect();
                target(&bytes);
            }
        }
    }

    /// The packages of a lock file, each with its versions.
    fn locked(file: &str) -> BTreeMap<String, BTreeSet<String>> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut name = "";
        for line in text.lines() {
            let value = |key: &str| line.strip_prefix(key)?.strip_suffix('"');
            if let Some(found) = value("name = \"") {
                name = found;
            } else if let Some(version) = value("version = \"") {
                let versions = packages.entry(name.to_owned()).or_default();
                versions.insert(version.to_owned());
            }
        }
        packages
    }

    /// Fuzzing is built apart, and seldom: it would not build any more, or build
    /// another program.
    #[test]
    fn fuzzing_is_locked_to_what_the_server_is_locked_to() {
        let (server, fuzzing) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"));
        for (name, versions) in &fuzzing {
            if let Some(locked) = server.get(name) {
                assert!(
                    versions.is_subset(locked),
                    "{name}: {versions:?} {locked:?}"
                );
            }
        }
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
        let names = dependencies
            .lines()
            .take_while(|line| !line.starts_with('['));
        let names = names.filter_map(|line| line.split_once(" = "));
        let missing: Vec<&str> = names
            .map(|(name, _)| name)
            .filter(|name| !fuzzing.contains_key(*name))
            .collect();
        assert!(missing.is_empty(), "fuzz/Cargo.lock lacks {missing:?}");
    }

    /// Writes what the program itself would write, for fuzzing to begin with.
    #[test]
    #[ignore = "it writes fuzz/seeds"]
    fn seeds_are_made_anew() {
        let made = [
            access::fuzz_targets::seeds(),
            engine::fuzz_targets::seeds(),
            store::fuzz_targets::seeds(),
            replication::fuzz_targets::seeds(),
            http::fuzz_targets::seeds(),
            redis::fuzz_targets::seeds(),
        ];
        for (target, name, bytes) in made.concat() {
            let directory = seeds().join(target);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join(name), bytes).unwrap();
        }
    }
}
