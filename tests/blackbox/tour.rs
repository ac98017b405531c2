//! Runs the README and the pages for users: every command of the part between
//! a page's `tour:begin` and `tour:end` marks, in order, and compares what it
//! prints with what the page prints below it. They rot the day this test is
//! gone.
//!
//! How it is read:
//! - A `sh` block is run by `bash -e`, with the binary on its path. A `text` or `json` block right below it
//!   is its output; without one, anything may be printed.
//! - In the output `…` stands for anything within a line. In `json` blocks
//!   white space does not count, so that long answers may be wrapped.
//! - `<!-- tour:restart -->` is where the reader stops the server and starts it
//!   again.
//! - `sh not run` says of a block that nobody runs it.

use crate::ports::free_port;
use crate::server::Server;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The address in the README, which the test replaces by its own.
const PRINTED_ADDRESS: &str = "127.0.0.1:8080";

/// The pages with tours.
const TOURS: [&str; 8] = [
    "README.md",
    "docs/quickstart.md",
    "docs/api.md",
    "docs/files.md",
    "docs/parameters.md",
    "docs/redisbloom.md",
    "docs/values.md",
    "docs/windows.md",
];

/// Pages whose commands `tests/deploy/test_docs.py` runs.
const FOR_OPERATORS: [&str; 4] = [
    "docs/cluster.md",
    "docs/operations.md",
    "docs/runbook.md",
    "deploy/README.md",
];

/// One thing the reader does.
#[derive(Debug, PartialEq)]
enum Step {
    Run {
        line: usize,
        script: String,
        expected: Option<Expected>,
    },
    Restart,
}

/// What a command prints.
#[derive(Debug, PartialEq)]
enum Expected {
    Text(String),
    Json(String),
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text_of(page: &str) -> String {
    let text = std::fs::read_to_string(root().join(page));
    text.unwrap_or_else(|error| panic!("{page}: {error}"))
}

#[test]
fn the_tour_works_as_printed() {
    let steps = steps_of("README.md", &text_of("README.md"));
    assert!(
        steps.contains(&Step::Restart),
        "the tour shows that a restart keeps everything"
    );
    take("README.md", &steps);
}

#[test]
fn the_pages_work_as_printed() {
    for page in TOURS.into_iter().skip(1) {
        let steps = steps_of(page, &text_of(page));
        assert!(!steps.is_empty(), "{page} has no tour");
        take(page, &steps);
    }
}

#[test]
fn every_command_of_the_pages_is_run_or_says_that_it_is_not() {
    let mut pages: Vec<PathBuf> = ["docs", ""]
        .into_iter()
        .flat_map(|directory| std::fs::read_dir(root().join(directory)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push(root().join("deploy/README.md"));
    let mut toured = 0;
    for path in pages {
        let page = path.strip_prefix(root()).unwrap().to_str().unwrap();
        toured += usize::from(TOURS.contains(&page));
        let not_run = match FOR_OPERATORS.contains(&page) {
            true => Vec::new(),
            false => not_run(&text_of(page)),
        };
        assert!(not_run.is_empty(), "{page}: nobody runs {not_run:?}");
    }
    assert_eq!(toured, TOURS.len());
}

/// Lines of boxes with commands that stand outside of the tour and don't say so.
fn not_run(text: &str) -> Vec<usize> {
    let mut touring = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match line.trim() {
            "<!-- tour:begin -->" => touring = true,
            "<!-- tour:end -->" => touring = false,
            "```sh" | "```bash" | "```shell" | "```console" if !touring => found.push(number + 1),
            _ => {}
        }
    }
    found
}

/// Does what the reader of a page does, with a server of its own.
fn take(page: &str, steps: &[Step]) {
    let data = tempfile::tempdir().unwrap();
    let desk = tempfile::tempdir().unwrap();
    let mut server = Server::start_on(free_port(), data.path(), &[]);
    let port = server.port();
    for step in steps {
        match step {
            Step::Restart => {
                server.signal("INT");
                let (status, log) = server.wait();
                assert!(status.success(), "{log}");
                server = Server::start_on(port, data.path(), &[]);
            }
            Step::Run {
                line,
                script,
                expected,
            } => {
                let printed = run(script, port, desk.path(), &format!("{page}:{line}"));
                if let Some(expected) = expected {
                    assert!(
                        expected.matches(&printed),
                        "{page}:{line}\n{script}\n--- the page prints\n{}\n--- the server prints\n{printed}",
                        expected.text()
                    );
                }
            }
        }
    }
    server.stop();
}

/// Runs one block and returns what it printed, with the page's address in it.
fn run(script: &str, port: u16, directory: &Path, place: &str) -> String {
    let own_address = format!("127.0.0.1:{port}");
    let binary = Path::new(env!("CARGO_BIN_EXE_cuckood"));
    let usual = std::env::var_os("PATH").unwrap();
    let path = [binary.parent().unwrap().as_os_str(), &usual].join(OsStr::new(":"));
    let output = Command::new("bash")
        .args(["-e", "-c", &script.replace(PRINTED_ADDRESS, &own_address)])
        .env("PATH", path)
        .env("CUCKOOD_SERVER", &own_address)
        .current_dir(directory)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{place}\n{script}\n{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed.replace(&own_address, PRINTED_ADDRESS)
}

/// The steps between the tour's marks.
fn steps_of(page: &str, text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut touring = false;
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        match line.trim() {
            "<!-- tour:begin -->" => touring = true,
            "<!-- tour:end -->" => touring = false,
            "<!-- tour:restart -->" if touring => steps.push(Step::Restart),
            fence if fence.starts_with("```") => {
                let body: Vec<&str> = lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| *line != "```")
                    .collect();
                let body = body.join("\n");
                if !touring {
                    continue;
                }
                let expected = match fence {
                    "```sh" => {
                        steps.push(Step::Run {
                            line: number + 1,
                            script: body,
                            expected: None,
                        });
                        continue;
                    }
                    "```text" => Expected::Text(body),
                    "```json" => Expected::Json(body),
                    // Other blocks are for the eye.
                    _ => continue,
                };
                match steps.last_mut() {
                    Some(Step::Run {
                        expected: none @ None,
                        ..
                    }) => *none = Some(expected),
                    _ => panic!("{page}:{}: output of no command", number + 1),
                }
            }
            _ => {}
        }
    }
    steps
}

impl Expected {
    fn text(&self) -> &str {
        match self {
            Expected::Text(text) | Expected::Json(text) => text,
        }
    }

    fn matches(&self, printed: &str) -> bool {
        match self {
            Expected::Text(text) => {
                let (expected, printed) = (text.trim(), printed.trim());
                expected.lines().count() == printed.lines().count()
                    && expected
                        .lines()
                        .zip(printed.lines())
                        .all(|(expected, printed)| {
                            line_matches(expected.trim_end(), printed.trim_end())
                        })
            }
            Expected::Json(text) => line_matches(&without_space(text), &without_space(printed)),
        }
    }
}

/// Whether `printed` is `expected`, where `…` stands for anything.
fn line_matches(expected: &str, printed: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else {
        return expected == printed;
    };
    let Some(mut printed) = printed.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match printed.find(part) {
            Some(at) => printed = &printed[at + part.len()..],
            None => return false,
        }
    }
    printed.ends_with(end)
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn the_tour_reader_finds_commands_their_output_and_restarts() {
    let page = "\
```sh
make serve
```
<!-- tour:begin -->
```sh
echo one
```
Then:
```json
{\"a\": 1}
```
<!-- tour:restart -->
```sh
echo two
```
```console
for the eye
```
<!-- tour:end -->
```sh
rm -rf everything
```
";
    let run = |line, script: &str, expected| Step::Run {
        line,
        script: script.to_owned(),
        expected,
    };
    assert_eq!(
        steps_of("page", page),
        [
            run(5, "echo one", Some(Expected::Json("{\"a\": 1}".to_owned()))),
            Step::Restart,
            run(13, "echo two", None),
        ]
    );
}

#[test]
fn the_tour_reader_notices_other_output() {
    assert!(Expected::Text("  7 added".to_owned()).matches("  7 added\n"));
    assert!(!Expected::Text("7 added".to_owned()).matches("8 added\n"));
    assert!(!Expected::Text("7 added".to_owned()).matches("7 added\nand more\n"));
    let json = Expected::Json("{\"at\": \"…\",\n \"n\": 1}".to_owned());
    assert!(json.matches("{\"at\":\"2026\",\"n\":1}"));
    assert!(!json.matches("{\"at\":\"2026\",\"n\":2}"));
    assert!(!json.matches("{\"n\":1}"));
}

#[test]
fn boxes_that_nobody_runs_are_noticed() {
    let page =
        "```sh not run\nreboot\n```\n```sh\none\n```\n<!-- tour:begin -->\n```sh\ntwo\n```\n";
    assert_eq!(not_run(page), [4]);
}
