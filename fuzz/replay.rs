//! What the tests of each package do with its fuzz targets: `TARGETS` and `seeds` of the
//! module that this one is part of.

use super::{TARGETS, seeds};
use std::path::{Path, PathBuf};

/// What fuzzing begins with, and what it found.
fn folder() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut above = package.ancestors().map(|it| it.join("fuzz/seeds"));
    above.find(|it| it.is_dir()).unwrap()
}

#[test]
fn what_fuzzing_found_is_read_as_ever() {
    for (name, target) in TARGETS {
        let mut files: Vec<_> = std::fs::read_dir(folder().join(name))
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

/// Writes what the program itself would write, for fuzzing to begin with.
#[test]
#[ignore = "it writes fuzz/seeds"]
fn seeds_are_made_anew() {
    for (target, name, bytes) in seeds() {
        let directory = folder().join(target);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}
