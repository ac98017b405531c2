//! `cuckood filter` and `cuckood completions`: what people type.

use crate::ports::free_port;
use crate::server::{Server, cuckood};
use cuckood::file::{FileKey, FilterFile};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn filter(port: u16, arguments: &[&str]) -> Command {
    let mut command = cuckood();
    command
        .env("CUCKOOD_SERVER", format!("127.0.0.1:{port}"))
        .arg("filter")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn piped(mut command: Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

/// What a command printed that ended with this exit code.
#[track_caller]
fn printed(output: &Output, code: i32) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    );
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[test]
fn windows_are_asked_within_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();
    printed(&run(&["create", "mails", "window_seconds=86400"]), 0);
    let added = printed(&run(&["add", "mails", "ada", "ada"]), 0);
    assert_eq!(added, "added\tada\nrefreshed\tada\n");
    let asked = run(&["exists", "mails", "--within-seconds", "86400", "ada", "bob"]);
    assert_eq!(printed(&asked, 0), "true\tada\nfalse\tbob\n");
    let quiet = run(&["exists", "-q", "mails", "--within-seconds=1", "bob"]);
    assert_eq!(printed(&quiet, 1), "");
    let longer = printed(
        &run(&["exists", "mails", "--within-seconds=86401", "ada"]),
        2,
    );
    assert!(
        longer.contains("within_seconds") && longer.contains("1 to 86400"),
        "{longer}"
    );
    let entries = run(&[
        "exists",
        "mails",
        "--within-seconds=1",
        "--values",
        "ada\t1",
    ]);
    let entries = printed(&entries, 2);
    assert!(entries.contains("cannot be used with"), "{entries}");
    printed(&run(&["create", "plain"]), 0);
    let plain = printed(&run(&["exists", "plain", "--within-seconds=1", "ada"]), 2);
    assert!(plain.contains("do not expire"), "{plain}");

    // Their files are asked alike.
    let files = tempfile::tempdir().unwrap();
    let in_file = |key: &str, seconds: &str, code| {
        let path = files.path().join(key);
        let path = path.to_str().unwrap();
        printed(&run(&["dump", key, path]), 0);
        let asked = ["exists", "--file", path, "--within-seconds", seconds, "ada"];
        printed(&run(&asked), code)
    };
    assert_eq!(in_file("mails", "86400", 0), "true\tada\n");
    let longer = in_file("mails", "86401", 2);
    assert!(longer.contains("allowed is 1 to 86400"), "{longer}");
    let plain = in_file("plain", "1", 2);
    assert!(plain.contains("do not expire"), "{plain}");
}

#[test]
fn rows_are_added_asked_for_replaced_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--max-batch-items", "3000"]);
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();
    let pipe = |arguments: &[&str], input: &[u8]| piped(filter(server.port(), arguments), input);
    let attributes =
        r#"attributes=[{"name":"plan","values":["free","pro"]},{"name":"tag","hash_bits":15}]"#;
    let made = printed(&run(&["create", "users", "capacity=50000", attributes]), 0);
    assert!(
        made.contains("\nattributes:\nname") && made.contains("\"free\", \"pro\""),
        "{made}"
    );
    let rows = ["--attributes", "plan,tag"];
    let added = pipe(
        &[&["add", "users"], &rows[..]].concat(),
        b"ada\tpro\tDE\nbob\tfree\tFR\n\xff\tpro\tAT\n",
    );
    assert_eq!(
        added.stdout,
        b"added\tada\tpro\tDE\nadded\tbob\tfree\tFR\nadded\t\xff\tpro\tAT\n"
    );
    // The columns may stand in any order.
    let found = run(&[
        "exists",
        "users",
        "--attributes=tag,plan",
        "ada\tDE\tpro",
        "bob\tDE\tfree",
        "--json",
    ]);
    let lines: Vec<Value> = printed(&found, 0)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let line = |item: &str, plan: &str, exists: bool| json!({"item": item, "attributes": {"plan": plan, "tag": "DE"}, "exists": exists});
    assert_eq!(
        lines,
        [line("ada", "pro", true), line("bob", "free", false)]
    );

    let pro = r#"{"plan": ["pro"], "tag": ["DE", "AT"]}"#;
    let found = printed(&run(&["exists", "users", "--where", pro, "ada", "bob"]), 0);
    assert_eq!(found, "true\tada\nfalse\tbob\n");
    printed(
        &run(&["exists", "-q", "users", "--where", pro, "ada", "bob"]),
        1,
    );
    printed(
        &pipe(&["exists", "-q", "users", "--where", pro], b"\xff\n"),
        0,
    );

    let replace = [&["replace", "users"], &rows[..]].concat();
    let replaced = printed(
        &pipe(
            &replace,
            b"bob\tfree\tFR\tpro\tAT\neve\tfree\tFR\tpro\tAT\n",
        ),
        0,
    );
    assert_eq!(
        replaced,
        "replaced\tbob\tfree\tFR\tpro\tAT\nabsent\teve\tfree\tFR\tpro\tAT\n"
    );
    printed(&run(&["exists", "-q", "users", "--where", pro, "bob"]), 0);
    let values = printed(&run(&["values", "users", "bob"]), 0);
    assert!(
        values.starts_with(r#"{"plan":"pro","tag":"#) && values.ends_with("}\tbob\n"),
        "{values}"
    );
    let delete = [&["delete", "users"], &rows[..]].concat();
    let deleted = printed(&pipe(&delete, b"bob\tpro\tAT\nbob\tfree\tFR\n"), 0);
    assert_eq!(deleted, "true\tbob\tpro\tAT\nfalse\tbob\tfree\tFR\n");

    // Several requests, the last items of each with their own rows.
    let many: String = (0..7_000)
        .map(|number| format!("{number}\t{}\tDE\n", ["free", "pro"][number % 2]))
        .collect();
    let added = printed(
        &pipe(&[&["add", "users"], &rows[..]].concat(), many.as_bytes()),
        0,
    );
    assert_eq!(added.lines().count(), 7_000);
    let found = printed(
        &pipe(&[&["exists", "users"], &rows[..]].concat(), many.as_bytes()),
        0,
    );
    assert!(
        found.lines().all(|line| line.starts_with("true\t")),
        "{found}"
    );
    assert_eq!(server.items("users"), 7_002);
}

#[test]
fn rows_and_conditions_that_are_none_say_how_to_write_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();
    let attributes = r#"attributes=[{"name":"plan","values":["free","pro"]}]"#;
    printed(&run(&["create", "users", attributes]), 0);
    printed(&run(&["create", "tiers", "value_bits=4"]), 0);
    for (arguments, said) in [
        (
            &["add", "users", "--attributes=plan", "ada"][..],
            "write ITEM TAB plan",
        ),
        (&["add", "users", "--attributes=plan", "ada\tgold"], "gold"),
        (
            &["add", "users", "--attributes=plan,plan", "ada\tpro\tpro"],
            "each once",
        ),
        (
            &["add", "users", "--attributes=tag", "ada\tpro"],
            "attributes",
        ),
        (
            &["add", "users", "--attributes=plan", "--values", "ada\t1"],
            "cannot be used with",
        ),
        (&["add", "tiers", "--values", "ada"], "write ITEM TAB VALUE"),
        (
            &["replace", "tiers", "ada\t1"],
            "write ITEM TAB OLD TAB NEW",
        ),
        (
            &["replace", "users", "--attributes=plan", "ada\tpro"],
            "plan of the old row",
        ),
        (
            &["exists", "users", "--where", "plan=pro", "ada"],
            "JSON object",
        ),
        (
            &["exists", "users", "--where", r#"{"plan":["gold"]}"#, "ada"],
            "gold",
        ),
        (
            &[
                "exists",
                "users",
                "--where={}",
                "--attributes=plan",
                "ada\tpro",
            ],
            "cannot be used with",
        ),
    ] {
        let refused = printed(&run(arguments), 2);
        assert!(refused.contains(said), "{arguments:?}: {refused}");
    }
    assert_eq!((server.items("users"), server.items("tiers")), (0, 0));
    // Values are replaced likewise.
    printed(&run(&["add", "tiers", "--values", "ada\t1"]), 0);
    let replaced = printed(
        &run(&["replace", "tiers", "ada\t1\t2", "ada\t1\t3", "--json"]),
        0,
    );
    let lines: Vec<Value> = replaced
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expected = [
        json!({"item": "ada", "from": 1, "to": 2, "result": "replaced"}),
        json!({"item": "ada", "from": 1, "to": 3, "result": "absent"}),
    ];
    assert_eq!(lines, expected);
    assert_eq!(printed(&run(&["values", "tiers", "ada"]), 0), "2\tada\n");
}

#[test]
fn filters_are_created_listed_described_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();

    let made = printed(
        &run(&["create", "users", "capacity=10000", "error_rate=0.01"]),
        0,
    );
    assert!(
        made.contains("capacity") && made.contains("10000"),
        "{made}"
    );
    printed(&run(&["create", "url:1", "layout=classic"]), 0);
    let differs = printed(&run(&["create", "users", "capacity=20000"]), 2);
    assert!(
        differs.contains("409") && differs.contains("capacity"),
        "{differs}"
    );
    let taken = printed(&run(&["create", "users", "--only-new"]), 2);
    assert!(taken.contains("412"), "{taken}");
    for key in ["", ".", ".."] {
        let nothing = printed(&run(&["rm", "users", key]), 2);
        assert!(
            nothing.contains("is neither empty nor . nor .."),
            "{nothing}"
        );
    }
    let typo = printed(&run(&["create", "x", "capacity"]), 2);
    assert!(typo.contains("FIELD=VALUE"), "{typo}");

    let list = printed(&run(&["ls"]), 0);
    let keys: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(keys, ["url:1", "users"], "{list}");
    let list = printed(&run(&["ls", "us", "--json"]), 0);
    let line: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((&line["key"], &line["items"]), (&json!("users"), &json!(0)));

    let info = printed(&run(&["info", "users"]), 0);
    assert!(
        info.starts_with("key ") && info.contains("\nsub_filters:\n"),
        "{info}"
    );
    let info: Value =
        serde_json::from_str(&printed(&run(&["info", "users", "--json"]), 0)).unwrap();
    assert_eq!(info, server.get_json("/filters/users"));

    printed(&run(&["rm", "users", "url:1"]), 0);
    assert_eq!(printed(&run(&["ls"]), 0), "");
    let gone = printed(&run(&["info", "users"]), 2);
    assert!(
        gone.contains("404") && gone.contains("does not exist"),
        "{gone}"
    );
}

#[test]
fn a_list_of_several_pages_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--wal-sync", "never"]);
    for number in 0..501 {
        server.create_filter(&format!("f{number:03}"), &json!({"capacity": 1}));
    }
    let list = printed(&filter(server.port(), &["ls"]).output().unwrap(), 0);
    assert_eq!(list.lines().count(), 501);
    assert!(list.lines().last().unwrap().starts_with("f500\t"), "{list}");
}

#[test]
fn items_come_from_arguments_or_lines_and_absent_ones_make_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--max-batch-items", "3000"]);
    server.create_filter("f", &json!({"capacity": 50_000, "fingerprint_bits": 32}));
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();
    let pipe = |arguments: &[&str], input: &[u8]| piped(filter(server.port(), arguments), input);

    let added = printed(&run(&["add", "f", "ada", "grace", "--", "-7"]), 0);
    assert_eq!(added, "added\tada\nadded\tgrace\nadded\t-7\n");
    let again = printed(&run(&["add", "f", "ada", "--only-if-absent", "--json"]), 0);
    assert_eq!(again, "{\"item\":\"ada\",\"result\":\"exists\"}\n");
    let bytes = pipe(&["add", "f"], b"line\r\n\n\xff\xfe\n");
    assert_eq!(bytes.stdout, b"added\tline\nadded\t\xff\xfe\n");

    let found = printed(&pipe(&["exists", "f"], b"ada\nline\nnobody\n"), 0);
    assert_eq!(found, "true\tada\ntrue\tline\nfalse\tnobody\n");
    assert_eq!(printed(&run(&["exists", "-q", "f", "ada", "line"]), 0), "");
    assert_eq!(
        printed(&run(&["exists", "-q", "f", "ada", "nobody"]), 1),
        ""
    );
    let both = pipe(&["exists", "-q", "f"], b"\xef\xbb\xbfline\n\xff\xfe\n");
    assert_eq!(printed(&both, 0), "");
    let utf_16 = printed(&pipe(&["exists", "-q", "f"], b"\xff\xfea\0\n\0"), 2);
    assert!(utf_16.contains("is UTF-16"), "{utf_16}");
    printed(&run(&["exists", "-q", "other", "ada"]), 2);

    assert_eq!(
        printed(&run(&["count", "f", "ada", "nobody"]), 0),
        "1\tada\n0\tnobody\n"
    );
    let deleted = printed(&run(&["delete", "f", "ada", "nobody", "--json"]), 0);
    assert_eq!(
        deleted,
        "{\"deleted\":true,\"item\":\"ada\"}\n{\"deleted\":false,\"item\":\"nobody\"}\n"
    );
    printed(&run(&["exists", "-q", "f", "ada"]), 1);

    // More than one batch, and each more than the server takes.
    let lines: String = (0..25_000)
        .map(|number| format!("item {number}\n"))
        .collect();
    let added = printed(&pipe(&["add", "f"], lines.as_bytes()), 0);
    let expected: String = lines
        .lines()
        .map(|line| format!("added\t{line}\n"))
        .collect();
    assert_eq!(added, expected);
    assert_eq!(server.items("f"), 25_004);
}

#[test]
fn a_full_filter_a_bad_address_and_a_missing_key_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.create_filter("small", &json!({"capacity": 10, "expansion": 0}));
    let lines: String = (0..5000).map(|number| format!("{number}\n")).collect();
    let full = printed(
        &piped(filter(server.port(), &["add", "small"]), lines.as_bytes()),
        1,
    );
    assert!(
        full.contains("full\t4999") && full.contains("small is full: "),
        "{full}"
    );

    let nobody = filter(free_port(), &["ls", "--patience-seconds", "0"])
        .output()
        .unwrap();
    assert!(printed(&nobody, 2).contains("does not answer"));
    let url = filter(1, &["ls", "--server", "ftp://somewhere"])
        .output()
        .unwrap();
    assert!(printed(&url, 2).contains("only http and https"));
}

#[test]
fn shells_get_what_completes_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = cuckood().args(["completions", shell]).output().unwrap();
        let script = printed(&output, 0);
        for word in ["filter", "only-if-absent", "import-redis"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    let script = cuckood().args(["completions", "bash"]).output().unwrap();
    let mut bash = Command::new("bash");
    bash.args([
        "-c",
        "source /dev/stdin; COMP_WORDS=(cuckood filter ex); COMP_CWORD=2; \
         _cuckood cuckood ex filter; echo ${COMPREPLY[@]}",
    ]);
    assert_eq!(printed(&piped(bash, &script.stdout), 0), "expire exists\n");
}

#[test]
fn filters_expire_and_are_looked_up_dumped_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();
    // The names that people type.
    for (key, create) in [("users", "new"), ("guests", "create")] {
        printed(&run(&[create, key, "capacity=1000"]), 0);
    }
    printed(&run(&["insert", "users", "ada", "grace"]), 0);
    printed(&run(&["add", "guests", "ada"]), 0);
    for (alias, command) in [("list", "ls"), ("show", "info"), ("describe", "info")] {
        let key = if command == "ls" { "" } else { "users" };
        let [asked, as_usual] = [alias, command].map(|it| printed(&run(&[it, key]), 0));
        assert_eq!(asked, as_usual, "{alias}");
    }
    assert_eq!(printed(&run(&["check", "users", "ada"]), 0), "true\tada\n");

    let found = [
        "lookup",
        "--filters",
        "users,guests,none",
        "ada",
        "grace",
        "bob",
    ];
    let printed_all = printed(&run(&found), 0);
    assert!(printed_all.starts_with("users guests\tada\nusers\tgrace\n\tbob\n"));
    assert!(
        printed_all.contains("there are no filters none"),
        "{printed_all}"
    );
    let first = run(&["lookup", "--prefix", "", "--first", "--json", "ada"]);
    assert_eq!(
        printed(&first, 0),
        "{\"filters\":[\"guests\"],\"item\":\"ada\"}\n"
    );

    for (after, seconds) in [
        ("90d", json!(7_776_000)),
        ("60", json!(60)),
        ("never", Value::Null),
    ] {
        let set = printed(&run(&["expire", "users", after, "--json"]), 0);
        let described: Value = serde_json::from_str(&set).unwrap();
        assert_eq!(described["ttl_seconds"], seconds, "{after}");
    }
    assert!(printed(&run(&["expire", "users", "soon"]), 2).contains("12h or 90d"));

    let file = folder.path().join("users.dump");
    let file = file.to_str().unwrap();
    assert_eq!(printed(&run(&["dump", "users", file]), 0), "");
    let piped_out = run(&["dump", "users"]);
    assert_eq!(piped_out.stdout, std::fs::read(file).unwrap());
    assert!(printed(&run(&["restore", "copy", file]), 0).contains("items"));
    assert_eq!(
        printed(&run(&["exists", "copy", "grace"]), 0),
        "true\tgrace\n"
    );
    let taken = printed(&run(&["restore", "copy", file]), 2);
    assert!(taken.contains("--replace"), "{taken}");
    printed(&run(&["restore", "copy", file, "--replace"]), 0);
    // - is no file's name.
    let dumped = run(&["dump", "users", "-"]).stdout;
    assert_eq!(dumped, std::fs::read(file).unwrap());
    let piping = filter(server.port(), &["restore", "piped", "-"]);
    assert!(printed(&piped(piping, &dumped), 0).contains("items"));
    let added = printed(&run(&["add", "none", "ada"]), 2);
    assert!(added.contains("`cuckood filter create none`"), "{added}");
    // It needs what is added.
    for (flag, entry, fields) in [
        ("--values", "ada\t1", "value_bits=12"),
        ("--attributes=plan", "ada\tpro", "attributes='[…]'"),
    ] {
        let added = printed(&run(&["add", "none", flag, entry]), 2);
        let create = format!("`cuckood filter create none {fields}`");
        assert!(added.contains(&create), "{added}");
    }
    // Of what fails there is no file, and a file that was there stays.
    let before = std::fs::read(file).unwrap();
    printed(&run(&["dump", "none", file]), 2);
    assert_eq!(std::fs::read(file).unwrap(), before);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    std::fs::write(file, &before[..before.len() - 1]).unwrap();
    let directory = folder.path().to_str().unwrap();
    for asked in [
        ["restore", "cut", directory],
        ["exists", "--file", directory],
    ] {
        let refused = printed(&run(&asked), 2);
        assert!(
            refused.contains(&format!("{directory}: is a directory")),
            "{refused}"
        );
    }
    let cut = printed(&run(&["restore", "cut", file]), 2);
    assert!(cut.contains("users.dump: the dump is corrupt"), "{cut}");
    assert!(printed(&run(&["info", "cut"]), 2).contains("does not exist"));
    let mut damaged = before;
    damaged[5_000] ^= 1;
    std::fs::write(file, damaged).unwrap();
    let damaged = printed(&run(&["describe", "--file", file]), 2);
    let wanted = "users.dump: block 0 of the file is damaged; the copy";
    assert!(damaged.contains(wanted), "{damaged}");
}

#[test]
fn a_file_is_built_restored_dumped_and_asked_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [list, built, dumped, bare, key_file] =
        ["list", "built", "dumped", "bare", "key"].map(path);
    std::fs::write(&list, "ada\ngrace\n").unwrap();
    let build = ["build", &list, "--bits", "32", "-o", &built];
    let told = printed(&cuckood().args(build).output().unwrap(), 0);
    let nothing = ["build", "/dev/null", "--capacity=10", "-o", &dumped];
    let warned = printed(&cuckood().args(nothing).output().unwrap(), 0);
    assert!(warned.contains("says no to everything"), "{warned}");
    printed(&run(&["restore", "copy", &built]), 0);
    let found = "true\tada\nfalse\tbob\n";
    assert_eq!(printed(&run(&["exists", "copy", "ada", "bob"]), 0), found);
    printed(&run(&["dump", "copy", &dumped]), 0);
    let described = printed(&run(&["describe", "--file", &dumped, "--json"]), 0);
    let described: Value = serde_json::from_str(&described).unwrap();
    let digest = described["digest"].as_str().unwrap();
    assert!(told.ends_with(&format!("digest {digest}\n")), "{told}");
    printed(&run(&["create", "rated", "error_rate=0.02"]), 0);
    for key_of_file in ["rated", "copy"] {
        printed(&run(&["dump", key_of_file, &bare, "--without-key"]), 0);
        let of_file = printed(&run(&["describe", "--file", &bare, "--json"]), 0);
        let of_file: Value = serde_json::from_str(&of_file).unwrap();
        let described = server.get_json(&format!("/filters/{key_of_file}"));
        assert_eq!(of_file["error_rate"], described["error_rate"]);
    }

    printed(&run(&["dump", "copy", "--without-key", &bare]), 0);
    let keyless = printed(&run(&["exists", "--file", &bare, "ada"]), 2);
    assert!(keyless.contains("--key-file"), "{keyless}");
    let FileKey::Here(key) = FilterFile::open(&built).unwrap().header().key else {
        panic!("it has a key");
    };
    // Flags may stand before the operation and behind it.
    let ask = ["--file", &bare, "exists", "--key-file", &key_file];
    let asked = |key: &str, code| {
        std::fs::write(&key_file, format!("{key}\n")).unwrap();
        printed(&run(&[&ask[..], &["ada", "bob"]].concat()), code)
    };
    assert_eq!(asked(&hex::encode(key.0), 0), found);
    assert!(asked(&"0".repeat(32), 2).contains("not the key of the file's hash"));
    assert!(asked("ada", 2).contains("32 hexadecimal digits"));
    let of_a_server = run(&["exists", "copy", "ada", "--key-file", &key_file]);
    assert!(printed(&of_a_server, 2).contains("name that with --file"));
}

#[test]
fn a_file_of_millions_takes_items_as_soon_as_it_is_restored() {
    // More of its pages are due to be split than one commit may write.
    const ITEMS: u64 = 6_500_000;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    let run = |arguments: &[&str]| filter(server.port(), arguments).output().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [list, built] = ["list", "built"].map(path);
    let lines = |of: std::ops::Range<u64>| -> String { of.map(|it| format!("{it}\n")).collect() };
    std::fs::write(&list, lines(0..ITEMS)).unwrap();
    let build = ["build", &list, "--error-rate", "0.000001", "-o", &built];
    printed(&cuckood().args(build).output().unwrap(), 0);
    for (copy, first) in [("one", 1), ("many", 20_000)] {
        printed(&run(&["restore", copy, &built]), 0);
        let mut loading = cuckood();
        loading.args(["load", "--server", &server.url(""), "--filter", copy, "-"]);
        let more = lines(ITEMS..ITEMS + first);
        printed(&piped(loading, more.as_bytes()), 0);
        assert_eq!(server.items(copy), ITEMS + first);
    }
}

#[test]
fn the_server_of_all_commands_may_be_a_list_of_pods_or_a_url() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let port = server.port();
    for name in [
        format!("127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port},http://127.0.0.1:1"),
    ] {
        let mut listing = filter(1, &["ls"]);
        printed(&listing.env("CUCKOOD_SERVER", &name).output().unwrap(), 0);
        let mut loading = cuckood();
        loading.env("CUCKOOD_SERVER", &name);
        loading.args(["load", "--filter", "f", "--create", "capacity=1000", "-"]);
        let loaded = printed(&piped(loading, b"ada\n"), 0);
        assert!(loaded.contains(&format!("cuckood: server http://127.0.0.1:{port}\n")));
    }
    assert_eq!(server.items("f"), 3);
    // The start says where people find the console.
    let console = format!("http://127.0.0.1:{port}/console");
    assert!(server.log().contains(&console), "{}", server.log());
    let load = |arguments: &[&str]| {
        let mut loading = cuckood();
        loading
            .args(["load", "--server", &server.url("")])
            .args(arguments);
        printed(&piped(loading, b"ada\n"), 1)
    };
    assert!(load(&["--filter", "g", "-"]).contains("--create capacity="));
    let other = ["--filter", "f", "--create", "capacity=2000", "-"];
    assert!(load(&other).contains("differs in capacity"));
    let status = ["cluster", "status", "--server", &server.url("")];
    let status = printed(&cuckood().args(status).output().unwrap(), 1);
    assert!(status.contains("in no cluster"), "{status}");
    // Who names the brokers asks them.
    let mut status = cuckood();
    status.args([
        "cluster",
        "status",
        "--log=nats://127.0.0.1:1",
        "--cluster=shop",
    ]);
    status.env("CUCKOOD_SERVER", server.url(""));
    let status = printed(&status.output().unwrap(), 1);
    assert!(!status.contains("in no cluster"), "{status}");
    // Whoever listens there.
    let mut listing = filter(1, &["ls", "--patience-seconds=0"]);
    let listed = listing.env("CUCKOOD_SERVER", "").output().unwrap();
    assert!(!String::from_utf8_lossy(&listed.stderr).contains("is not the address"));
}

#[test]
fn the_help_of_what_a_file_answers_alone_has_the_flags_for_files() {
    let operations =
        "ls create info rm expire dump restore lookup add exists count delete replace values";
    for operation in operations.split(' ') {
        let help = filter(1, &[operation, "--help"]).output().unwrap();
        let help = printed(&help, 0);
        let has_file = ["info", "exists", "count", "values"].contains(&operation);
        for flag in ["--file <", "--key-file <"] {
            assert_eq!(help.contains(flag), has_file, "{operation}: {help}");
        }
    }
    // Wherever they stand, others say that they need a server.
    for refused in [["--file=x", "rm", "k"], ["rm", "--file=x", "k"]] {
        let refused = printed(&filter(1, &refused).output().unwrap(), 2);
        assert!(refused.contains("a file answers exists"), "{refused}");
    }
}

#[test]
fn the_short_help_of_serve_fits_on_a_screen_and_the_long_one_has_every_flag() {
    let help = |flag: &str| {
        let mut asking = cuckood();
        printed(
            &asking
                .args(["serve", flag])
                .env("COLUMNS", "100")
                .output()
                .unwrap(),
            0,
        )
    };
    let short = help("-h");
    let lines = short.lines().count();
    assert!(lines <= 50, "{lines} lines\n{short}");
    for shown in [
        "--listen",
        "--data-dir",
        "--keys-file",
        "--advertise",
        "--help",
    ] {
        assert!(short.contains(shown), "{shown}\n{short}");
    }
    let long = help("--help");
    assert!(
        !short.contains("--max-probes") && long.contains("--max-connections"),
        "{long}"
    );
}
