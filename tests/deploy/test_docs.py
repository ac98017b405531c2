"""The pages for operators: their commands work, and what they name exists."""

import re
import subprocess
import unittest

from support import BINARY, ROOT, Server, anchors
from test_monitoring import pod, samples, surveyed, work

EVERY_PAGE = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "deploy/README.md"]
PAGES = [ROOT / "docs/runbook.md", ROOT / "docs/operations.md", ROOT / "deploy/README.md"]


# Where the program has the lines with which a pod of a cluster does not start, or a lane
# stops, or `cuckood cluster` ends; and which kinds of errors there are none of these.
REFUSALS = {
    "crates/engine/src/shared/halt.rs": [],
    "crates/cluster/src/jetstream/error.rs": ["BadName", "BadLanes"],
    "crates/cluster/src/membership/start.rs": ["OtherLog"],
    "crates/cluster/src/membership/past.rs": ["OfAnother", "Behind"],
    "src/commands/epoch.rs": [],
    "src/commands/cluster.rs": [],
}


def refusals(path, kinds):
    """The texts of errors in a source file, but for these kinds, and those that others
    made."""
    text = path.read_text()
    declared = re.findall(r'#\[error\(\s*"((?:[^"\\]|\\.)*)"[^\]]*\)\]\s*(\w+)', text)
    said = re.findall(r'Err\((?:format!\(\s*)?"((?:[^"\\]|\\.)*)"', text)
    return [line for line, kind in declared if kind not in kinds] + said


def boxes(text, language="sh"):
    """The commands in the page's boxes; indented ones are for people."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def missing(text, folders):
    """The files of source or tests that a page names in code, and that are in none of the folders."""
    named = sorted(set(re.findall(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:rs|py|mjs|toml))?)`", text)))
    first = {it.name for folder in folders for it in folder.iterdir() if it.is_dir()}
    return [
        path
        for path in named
        if path.split("/")[0] in first and not any((folder / path).exists() for folder in folders)
    ]


def run(commands, server):
    here = commands.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", here],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=server.home.name,
    )


class Pages(unittest.TestCase):
    def test_their_commands_work(self):
        with Server() as server:
            server.ask("PUT", "/filters/words", {"capacity": 100})
            for page in PAGES:
                for commands in boxes(page.read_text()):
                    with self.subTest(page.name, commands=commands):
                        done = run(commands, server)
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertTrue(done.stdout.strip(), "it prints nothing")

    def test_a_command_that_fails_is_noticed(self):
        with Server() as server:
            for commands in boxes("```sh\ncurl -s 127.0.0.1:8080/metrics | grep no_such\n```\n"):
                self.assertNotEqual(run(commands, server).returncode, 0)

    def test_their_links_lead_somewhere(self):
        for page in EVERY_PAGE:
            text = page.read_text()
            targets = re.findall(r"\]\(([^)\s]+)\)", text)
            for target in targets + re.findall(r'(?:src|srcset)="([^"]+)"', text):
                if "://" in target:
                    continue
                path, _, anchor = target.partition("#")
                linked = (page.parent / path).resolve() if path else page
                with self.subTest(page.name, target=target):
                    self.assertTrue(linked.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(linked))

    def test_they_name_files_that_exist(self):
        folders = [ROOT, ROOT / "src", *ROOT.glob("crates/*/src")]
        self.assertEqual(missing("`src/lib.rs` and `src/no/such.rs`", folders), ["src/no/such.rs"])
        for page in EVERY_PAGE:
            for path in missing(page.read_text(), folders):
                with self.subTest(page.name, path=path):
                    self.fail("there is no such file")

    def test_they_name_metrics_that_exist(self):
        with pod("--metrics-filter-names=5") as server:
            work(server)
            known = {name for name, _, _ in samples(surveyed(server))}
        known |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}
        for page in PAGES:
            text = page.read_text()
            # As in grep's "a_(b|c)".
            for stem, ends in re.findall(r"\b((?:cuckood|process)_\w*)\(([\w|]+)\)", text):
                for end in ends.split("|"):
                    with self.subTest(page.name, metric=stem + end):
                        self.assertTrue(any(name.startswith(stem + end) for name in known))
            for name in re.findall(r"`((?:cuckood|process)_\w+)`", text):
                with self.subTest(page.name, metric=name):
                    family = name.endswith("_") and any(it.startswith(name) for it in known)
                    self.assertTrue(family or name in known)

    def test_the_runbook_has_every_line_with_which_a_pod_of_a_cluster_stops(self):
        runbook = (ROOT / "docs/runbook.md").read_text()
        quoted = [[piece.strip() for piece in it.split("…")] for it in re.findall(r"`([^`\n]+)`", runbook)]

        def is_quoted(line):
            said = re.sub(r"\{[^}]*\}", "\0", line)
            pattern = (".*".join(map(re.escape, pieces)) for pieces in quoted if len("".join(pieces)) > 12)
            return any(re.search(it, said) for it in pattern)

        lines = [line for path, kinds in REFUSALS.items() for line in refusals(ROOT / path, kinds)]
        self.assertGreater(len(lines), 30)
        for line in lines:
            with self.subTest(line):
                self.assertTrue(is_quoted(line), "the runbook does not say what to do about it")
        self.assertFalse(is_quoted("the moon is of {colour} cheese: look at another one"))

    def test_they_name_flags_that_exist(self):
        said = "".join(
            subprocess.run([BINARY, *sub, "--help"], capture_output=True, text=True).stdout
            for sub in (
                ["serve"],
                ["check"],
                ["backup"],
                ["restore"],
                ["healthcheck"],
                ["keys", "add"],
                ["cluster", "found"],
                ["cluster", "new-epoch"],
            )
        )
        known = set(re.findall(r"--[a-z][a-z-]+", said))
        # In code, at its start: other programs' flags follow their names.
        for page in PAGES:
            for flag in re.findall(r"`(--[a-z][a-z-]+)", page.read_text()):
                with self.subTest(page.name, flag=flag):
                    self.assertIn(flag, known)

    def test_they_name_every_flag_of_the_server(self):
        said = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True).stdout
        flags = set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]+)", said, re.MULTILINE)) - {"--help", "--version"}
        self.assertIn("--key-share", flags)
        operators = "".join((ROOT / "docs" / page).read_text() for page in ("limits.md", "operations.md", "cluster.md"))
        for flag in sorted(flags):
            with self.subTest(flag):
                self.assertTrue(re.search(rf"[` ]{flag}\b(?!-)", operators), "no page names it")


if __name__ == "__main__":
    unittest.main()
