use super::*;
use crate::config::Cli;
use crate::file::{FileKey, HashKey, Header, Sums};
use clap::Parser as _;
use std::fs;
use std::path::PathBuf;

/// A folder with files, each of which is made by what the program is told.
struct Folder(tempfile::TempDir);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program on files of the folder: `@name` is the path of one.
    fn run(&self, line: &str) -> Result<(), String> {
        let words = line.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => self.path(name).into_os_string(),
            None => word.into(),
        });
        let cli = Cli::parse_from(std::iter::once("cuckood".into()).chain(words));
        crate::commands::execute(cli.command)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn list(&self, name: &str, items: std::ops::Range<u32>) {
        let lines = items
            .map(|item| format!("item-{item}\n"))
            .collect::<String>();
        fs::write(self.path(name), lines).unwrap();
    }

    fn file(&self, name: &str) -> FilterFile {
        FilterFile::open(self.path(name)).unwrap()
    }
}

fn folder() -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.list("one", 0..20_000);
    folder.list("two", 15_000..60_000);
    folder.run("build @one -o @1").unwrap();
    folder
}

#[test]
fn one_file_finds_what_any_of_several_found() {
    let folder = folder();
    folder.list("three", 60_000..61_000);
    for (list, file) in [("two", "2"), ("three", "3")] {
        folder
            .run(&format!("build @{list} --sibling-of @1 -o @{file}"))
            .unwrap();
    }
    folder.run("merge @1 @2 @3 -o @all").unwrap();
    let all = folder.file("all");
    all.verify().unwrap();
    assert_eq!(all.header().items, 66_000);
    let parts = ["1", "2", "3"].map(|it| folder.file(it));
    for item in 0..200_000 {
        let item = format!("item-{item}");
        let counts = parts.iter().map(|it| it.count(item.as_bytes()).unwrap());
        assert_eq!(all.count(item.as_bytes()), Ok(counts.sum()), "{item}");
    }
    // The same files make a file of the same digest.
    folder.run("merge @1 @2 @3 -o @again").unwrap();
    assert_eq!(folder.file("again").verify(), all.verify());
}

#[test]
fn strangers_and_damaged_files_are_named_and_leave_no_file() {
    let folder = folder();
    folder.run("build @two -o @2").unwrap();
    let refused = |files: &str, wanted: &str| {
        let error = folder.run(&format!("merge {files} -o @none")).unwrap_err();
        assert!(error.contains(wanted), "{error}");
        assert!(!folder.path("none").exists());
    };
    refused("@1 @2", "keys of their hashes differ");
    folder.run("build @two --key-of @1 -o @3").unwrap();
    refused("@1 @3", "the number of pages at first is");
    refused("@1 @one", "one: it is no file of a filter");
    let mut bytes = fs::read(folder.path("1")).unwrap();
    bytes[5_000] ^= 1;
    fs::write(folder.path("damaged"), bytes).unwrap();
    refused("@1 @damaged", "damaged: block 0 of the file is damaged");
    let sibling = |of: &str| {
        let line = format!("build @one --sibling-of {of} -o @none");
        folder.run(&line).unwrap_err()
    };
    assert!(sibling("@one").contains("no file of a filter"));

    // Its items are found by another key than the one that they would be merged by.
    let file = folder.file("1");
    let header = Header {
        key: FileKey::Here(HashKey([9; 16])),
        ..file.header().clone()
    };
    let pages = header.parts.pages_at as usize..header.parts.sums_at as usize;
    let body = &file.view().bytes()[pages];
    let mut forged = header.encode();
    let mut sums = Sums::new(&forged, header.parts.blocks());
    sums.update(body);
    forged.extend(body);
    forged.extend(sums.finish().0);
    fs::write(folder.path("forged"), forged).unwrap();
    let wanted = "does not follow from its description";
    refused("@1 @forged", wanted);
    assert!(sibling("@forged").contains(wanted));
}
