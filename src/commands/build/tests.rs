use super::*;
use crate::chain::union::load;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn list(&self, name: &str, lines: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), lines).unwrap();
        self.path(name)
    }

    /// Builds the file of that name; what is refused leaves none.
    fn build(&self, output: &str, options: BuildOptions) -> Result<FilterFile, String> {
        let output = self.path(output);
        let built = run(&BuildOptions {
            output: output.clone(),
            ..options
        });
        match built {
            Ok(()) => Ok(FilterFile::open(&output).unwrap()),
            Err(error) => {
                assert!(!output.exists(), "there is half a file");
                Err(error.to_string())
            }
        }
    }
}

fn of(lists: Vec<PathBuf>) -> BuildOptions {
    BuildOptions {
        lists,
        output: PathBuf::new(),
        error_rate: None,
        bits: None,
        promised_growth: 1,
        capacity: None,
        key_of: None,
        sibling_of: None,
        only_if_absent: false,
        value_bits: None,
        values_per_item: None,
        ndjson: false,
    }
}

fn numbers(range: std::ops::Range<u32>) -> String {
    range.fold(String::new(), |mut lines, n| {
        writeln!(lines, "item-{n}").unwrap();
        lines
    })
}

#[test]
fn a_file_has_all_items_of_its_lists_at_the_load_and_rate_that_were_asked() {
    let folder = Folder::new();
    let plain = folder.list("plain", numbers(0..40_000));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let text = numbers(40_000..60_000).replace('\n', "\r\n\n");
    packed.write_all(text.as_bytes()).unwrap();
    let packed = folder.list("packed", packed.finish().unwrap());
    for (bits, load) in [(12, 0.96), (16, 0.952), (21, 0.925), (32, 0.952)] {
        let options = BuildOptions {
            bits: Some(bits),
            ..of(vec![plain.clone(), packed.clone()])
        };
        let file = folder.build("file", options).unwrap();
        file.verify().unwrap();
        let (header, layout) = (file.header(), file.header().parts.subs[0].0);
        assert_eq!(header.items, 60_000);
        // There is less than a page to spare.
        let (slots, pages) = (layout.slots() as f64, f64::from(layout.pages()));
        let spare = slots * load - header.occupied as f64;
        assert!(spare < slots / pages, "{bits} bits: {spare} slots");
        let exists = |n: u32| file.exists(format!("item-{n}").as_bytes()).unwrap();
        assert!((0..60_000).all(exists), "{bits} bits");
        let wrong = (60_000..160_000).filter(|&n| exists(n)).count() as f64 / 100_000.0;
        let told = header.false_positive_rate;
        // Five times the deviation of as many tries.
        let most = told + 5.0 * (told / 100_000.0).sqrt() + 5e-5;
        assert!(wrong < most, "{bits} bits: {wrong}, {told} told");
    }
    let options = BuildOptions {
        error_rate: Some(1e-4),
        ..of(vec![plain])
    };
    let rate = folder.build("rate", options).unwrap();
    assert!(rate.header().false_positive_rate <= 1e-4);
}

#[test]
fn the_same_lists_and_key_make_a_file_of_the_same_digest() {
    let folder = Folder::new();
    let list = folder.list("list", numbers(0..5_000));
    let first = folder.build("first", of(vec![list.clone()])).unwrap();
    let digest = |name: &str, list: &Path| {
        let options = BuildOptions {
            key_of: Some(folder.path("first")),
            ..of(vec![list.to_owned()])
        };
        folder.build(name, options).unwrap().verify().unwrap()
    };
    assert_eq!(digest("again", &list), first.verify().unwrap());
    assert_eq!(digest("once more", &list), first.verify().unwrap());
    let longer = folder.list("longer", numbers(0..5_001));
    assert_ne!(digest("longer file", &longer), first.verify().unwrap());
    let own = folder.build("own", of(vec![list])).unwrap();
    assert_ne!(own.verify().unwrap(), first.verify().unwrap());
}

#[test]
fn a_file_of_several_parts_is_what_one_thread_makes_of_them() {
    let folder = Folder::new();
    // Of all items each hundredth is there twice; the filter has to grow for the last ones.
    let items = 2_500_000;
    let twice = (0..items).step_by(100);
    let lines = twice.fold(numbers(0..items), |mut lines, n| {
        writeln!(lines, "item-{n}").unwrap();
        lines
    });
    let list = folder.list("list", lines);
    let build = |name: &str, capacity| {
        let options = BuildOptions {
            capacity: Some(capacity),
            key_of: folder.path("first").exists().then(|| folder.path("first")),
            ..of(vec![list.clone()])
        };
        let file = folder.build(name, options).unwrap();
        let (_, chain) = opened(&folder.path(name)).unwrap();
        // Its pages hold what it says.
        let whole = |page| file.view().whole_page(page).map_err(Failure::from);
        load(&chain, whole).unwrap();
        let copies = u64::from(items) / 100;
        assert_eq!(file.header().items, u64::from(items) + copies);
        for n in (0..items).step_by(97) {
            assert!(file.exists(format!("item-{n}").as_bytes()).unwrap(), "{n}");
        }
        let counted = (0..items)
            .step_by(9_700)
            .map(|n| file.count(format!("item-{n}").as_bytes()));
        assert!(counted.map(Result::unwrap).all(|it| it >= 2));
        file.verify().unwrap()
    };
    for capacity in [2_500_000, 2_200_000] {
        let digest = build("first", capacity);
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1);
        let again = alone.build().unwrap().install(|| build("again", capacity));
        assert_eq!(again, digest, "of a capacity of {capacity}");
    }
}

#[test]
fn copies_count_or_are_left_out() {
    let folder = Folder::new();
    let list = folder.list("list", numbers(0..1_000) + &numbers(0..1_000));
    let count = |only_if_absent| {
        let options = BuildOptions {
            only_if_absent,
            // So wide that none of them is found before it is added.
            bits: Some(32),
            ..of(vec![list.clone()])
        };
        let file = folder.build("file", options).unwrap();
        (file.header().items, file.count(b"item-7").unwrap())
    };
    assert_eq!((count(false), count(true)), ((2_000, 2), (1_000, 1)));
}

#[test]
fn values_are_read_from_columns_and_from_json() {
    let folder = Folder::new();
    let columns = folder.list("columns", "a\t3\na\t1\nb\tc\t0\n");
    let json = r#"{"item": "a", "value": 3}
{"item": "a", "value": 1}
{"item": "b\tc", "value": 0}
"#;
    let json = folder.list("json", json);
    for (list, ndjson) in [(columns, false), (json, true)] {
        let options = BuildOptions {
            value_bits: Some(4),
            ndjson,
            ..of(vec![list])
        };
        let file = folder.build("file", options).unwrap();
        let values = |item: &[u8]| -> Vec<u32> {
            let values = file.values(item).unwrap();
            values.iter().map(|it| it.value).collect()
        };
        assert_eq!((values(b"a"), values(b"b\tc")), (vec![1, 3], vec![0]));
    }
    let list = folder.list("items", "\"x\"\n42\n");
    let options = BuildOptions {
        ndjson: true,
        ..of(vec![list])
    };
    let file = folder.build("items file", options).unwrap();
    assert_eq!(
        file.exists_all([&b"x"[..], b"42", b"y"]),
        Ok(vec![true, true, false])
    );
}

#[test]
fn what_can_be_read_once_needs_a_capacity() {
    let folder = Folder::new();
    let built = |capacity| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(numbers(0..100).as_bytes()).unwrap();
        drop(writer);
        let options = BuildOptions {
            capacity,
            ..of(vec![format!("/dev/fd/{}", reader.as_raw_fd()).into()])
        };
        let built = folder.build("file", options);
        built.map(|file| file.header().items)
    };
    assert!(built(None).unwrap_err().contains("say --capacity"));
    assert_eq!(built(Some(1_000)), Ok(100));
    let standard = folder.build("other", of(vec![STANDARD.into()]));
    assert!(standard.err().unwrap().contains("-: what is no file"));
}

#[test]
fn lists_without_items_need_a_capacity() {
    let folder = Folder::new();
    let build = |capacity| {
        let options = BuildOptions {
            capacity,
            ..of(vec![folder.list("list", "\r\n\n")])
        };
        let built = folder.build("file", options);
        built.map(|file| file.header().items)
    };
    assert!(build(None).unwrap_err().contains("say --capacity"));
    assert_eq!(build(Some(100)), Ok(0));
}

#[test]
fn a_list_is_never_what_the_file_replaces() {
    let folder = Folder::new();
    let list = folder.list("list", "ada\n");
    let [link, hard] = ["link", "hard"].map(|it| folder.path(it));
    std::os::unix::fs::symlink(&list, &link).unwrap();
    fs::hard_link(&list, &hard).unwrap();
    for output in [&list, &link, &hard] {
        let refused = run(&BuildOptions {
            output: output.clone(),
            ..of(vec![folder.list("other", "bob\n"), list.clone()])
        });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("list: the output would"), "{refused}");
        assert_eq!(fs::read(&list).unwrap(), b"ada\n");
    }
}

#[test]
fn a_bad_line_is_named_by_its_list_and_number_and_leaves_no_file() {
    let folder = Folder::new();
    let refused = |lines: &[u8], value_bits, ndjson, wanted: &str| {
        let list = folder.list("list", lines);
        let options = BuildOptions {
            value_bits,
            ndjson,
            ..of(vec![folder.list("first", "\"a\"\n"), list])
        };
        let options = match value_bits {
            None => options,
            Some(_) => BuildOptions {
                lists: vec![folder.path("list")],
                ..options
            },
        };
        let error = folder.build("file", options).err().unwrap();
        assert!(error.contains("list: line 3: "), "{error}");
        assert!(error.contains(wanted), "{error}");
    };
    let long = [b"a\n\n", vec![b'x'; 65_537].as_slice(), b"\n"].concat();
    refused(&long, None, false, "65537 bytes, 65536 are allowed");
    refused(b"a\t1\n\nb7\n", Some(4), false, "no TAB before a value");
    refused(b"a\t1\n\nb\t\n", Some(4), false, "no value from 0 to 15");
    refused(b"a\t1\n\nb\t16\n", Some(4), false, "no value from 0 to 15");
    refused(
        b"\"a\"\n\n1.5\n",
        None,
        true,
        "neither a string nor an integer",
    );
    refused(b"\"a\"\n\n{\n", None, true, "EOF");
    let pair = b"{\"item\":1,\"value\":1}\n\n\"b\"\n";
    refused(pair, Some(4), true, "no object with item and value");
    let missing = folder.build("file", of(vec![folder.path("missing")]));
    assert!(missing.err().unwrap().contains("missing: "));
    for capacity in [None, Some(10)] {
        let options = BuildOptions {
            capacity,
            ..of(vec![folder.path("")])
        };
        let directory = folder.build("file", options).err().unwrap();
        assert!(directory.ends_with(": is a directory"), "{directory}");
    }
    let options = BuildOptions {
        bits: Some(13),
        ..of(vec![folder.path("first")])
    };
    let bits = folder.build("file", options).err().unwrap();
    assert!(bits.contains("fingerprint_bits is 13"), "{bits}");
    let options = BuildOptions {
        capacity: Some(0),
        ..of(vec![folder.path("first")])
    };
    let capacity = folder.build("file", options).err().unwrap();
    assert!(
        capacity.contains("capacity is 0, allowed is 1 to"),
        "{capacity}"
    );
    let foreign = BuildOptions {
        key_of: Some(folder.path("first")),
        ..of(vec![folder.path("first")])
    };
    let foreign = folder.build("file", foreign).err().unwrap();
    assert!(foreign.contains("no file of a filter"), "{foreign}");
}
