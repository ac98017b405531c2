"""The release workflow, which is not run here: it is linted, its scripts are
sound, and what they do is done."""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path

import yaml
from support import BINARY, ROOT, TOOLS, rendered, tool

WORKFLOW = ROOT / ".github/workflows/release.yaml"
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
SCRIPTS = [p for p in (ROOT / ".ci").iterdir() if p.is_file()]


def jobs():
    return yaml.safe_load(WORKFLOW.read_text())["jobs"]


def steps():
    for name, job in jobs().items():
        for step in job["steps"]:
            yield name, step


class Tree:
    """A copy of what `.ci/release` reads, to be changed by a test."""

    def __init__(self, desk):
        self.root = Path(desk) / "tree"
        shutil.copytree(ROOT / ".ci", self.root / ".ci")
        shutil.copytree(ROOT / "deploy", self.root / "deploy")
        for name in ("Cargo.toml", "CHANGELOG.md", "LICENSE", "README.md"):
            shutil.copy(ROOT / name, self.root)

    def replace(self, name, old, new):
        path = self.root / name
        text = path.read_text()
        assert old in text, (name, old)
        path.write_text(text.replace(old, new, 1))

    def release(self, *arguments):
        return subprocess.run(
            [self.root / ".ci/release", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000", "HELM": str(TOOLS / "helm")},
        )


class Workflow(unittest.TestCase):
    def test_it_is_what_github_reads(self):
        tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", WORKFLOW)

    def test_an_auditor_finds_nothing_to_complain_about(self):
        tool("zizmor", "--offline", "--no-progress", "--persona=pedantic", WORKFLOW)

    def test_what_the_auditor_looks_for_is_found(self):
        with tempfile.TemporaryDirectory() as desk:
            broken = Path(desk) / "release.yaml"
            text = re.sub(r"actions/checkout@\w+", "actions/checkout@v5", WORKFLOW.read_text())
            broken.write_text(text)
            done = tool("zizmor", "--offline", "--no-progress", broken, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("unpinned-uses", done.stdout)

    def test_its_scripts_are_what_bash_reads(self):
        for name, step in steps():
            if "run" in step:
                with self.subTest(name, step=step["name"]):
                    subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)

    def test_what_it_runs_is_there(self):
        named = {
            path
            for _, step in steps()
            for path in re.findall(r"(?:^|[\s(])(\.ci/[\w-]+)", step.get("run", ""))
        }
        self.assertLessEqual({".ci/run", ".ci/release"}, named)
        for path in named:
            self.assertTrue(os.access(ROOT / path, os.X_OK), path)

    def test_scripts_see_only_variables_that_they_are_given(self):
        given_by_github = {"GITHUB_SHA", "GITHUB_REPOSITORY_OWNER"}
        shared = set(yaml.safe_load(WORKFLOW.read_text())["env"])
        for name, step in steps():
            run = step.get("run", "")
            used = set(re.findall(r"\$\{?([A-Z_]+)", run))
            given = shared | given_by_github | set(step.get("env", {}))
            given |= set(jobs()[name].get("env", {}))
            self.assertLessEqual(used, given, step.get("name"))
            self.assertNotIn("${{", run, "what comes from outside comes as a variable")

    def test_it_builds_the_stages_that_the_dockerfile_has(self):
        stages = set(re.findall(r"^FROM \S+ AS (\w+)", (ROOT / "Dockerfile").read_text(), re.M))
        wanted = {t for _, s in steps() for t in re.findall(r"--target (\w+)", s.get("run", ""))}
        self.assertEqual(wanted, {"binary"})
        self.assertLessEqual(wanted, stages)

    def test_it_checks_in_the_image_that_the_dockerfile_builds_in(self):
        first = re.search(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.M)[1]
        self.assertEqual(jobs()["check"]["container"]["image"], first)

    def test_only_jobs_that_publish_may_write(self):
        self.assertEqual(yaml.safe_load(WORKFLOW.read_text())["permissions"], {})
        self.assertEqual(jobs()["check"]["permissions"], {"contents": "read"})
        for name in ("draft", "build", "publish"):
            self.assertTrue(jobs()[name]["needs"], f"{name} waits for the checks")


class Scripts(unittest.TestCase):
    def setUp(self):
        desk = tempfile.TemporaryDirectory()
        self.addCleanup(desk.cleanup)
        self.desk = Path(desk.name)
        self.tree = Tree(self.desk)
        # As the commit of a release would.
        heading = re.search(rf"^## {re.escape(VERSION)} - \S+$", self.text("CHANGELOG.md"), re.M)
        self.tree.replace("CHANGELOG.md", heading[0], f"## {VERSION} - 2031-02-03")

    def text(self, name):
        return (self.tree.root / name).read_text()

    def test_they_are_what_bash_reads(self):
        for script in SCRIPTS:
            subprocess.run(["bash", "-n", script], check=True)

    def test_the_tag_of_this_version_is_taken(self):
        done = self.tree.release("version", f"v{VERSION}")
        self.assertEqual((done.returncode, done.stdout), (0, f"{VERSION}\n"), done.stderr)

    def test_any_other_tag_is_refused(self):
        for tag in ("v9.9.9", VERSION, f"v{VERSION}-rc.1"):
            done = self.tree.release("version", tag)
            self.assertNotEqual(done.returncode, 0, tag)
            self.assertIn(tag, done.stderr)

    def test_a_chart_of_another_version_is_refused(self):
        self.tree.replace("deploy/helm/cuckood/Chart.yaml", f'"{VERSION}"', '"9.9.9"')
        done = self.tree.release("version", f"v{VERSION}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("appVersion is 9.9.9", done.stderr)

    def test_a_version_that_the_changelog_does_not_date_is_refused(self):
        self.tree.replace("CHANGELOG.md", f"## {VERSION} - 2031-02-03", f"## {VERSION} - unreleased")
        for command in (("version", f"v{VERSION}"), ("notes", VERSION)):
            done = self.tree.release(*command)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("CHANGELOG.md", done.stderr)

    def test_notes_are_the_section_of_the_version_and_no_other(self):
        (self.tree.root / "CHANGELOG.md").write_text(
            "# Changelog\n## [Unreleased]\n- soon\n## 1.2.3 - 2031-02-03\n### Added\n- this\n"
            "## 1.2.2 - 2031-01-01\n- before\n"
        )
        done = self.tree.release("notes", "1.2.3")
        self.assertEqual((done.returncode, done.stdout), (0, "### Added\n- this\n"))
        self.assertNotEqual(self.tree.release("notes", "1.2").returncode, 0)

    def test_an_archive_holds_the_binary_and_what_belongs_to_it(self):
        binary = self.desk / "binary"
        binary.write_bytes(b"what was built")
        for directory in ("one", "two"):
            done = self.tree.release("archive", binary, "linux-amd64", self.desk / directory)
            self.assertEqual(done.returncode, 0, done.stderr)
        name = f"cuckood-{VERSION}-linux-amd64"
        packed = (self.desk / "one" / f"{name}.tar.gz").read_bytes()
        self.assertEqual(packed, (self.desk / "two" / f"{name}.tar.gz").read_bytes())
        said = (self.desk / "one" / f"{name}.tar.gz.sha256").read_text()
        self.assertEqual(said, f"{hashlib.sha256(packed).hexdigest()}  {name}.tar.gz\n")
        with tarfile.open(self.desk / "one" / f"{name}.tar.gz") as archive:
            members = {m.name: m for m in archive.getmembers()}
            archive.extract(f"{name}/cuckood", self.desk)
        files = {"cuckood", "LICENSE", "README.md", "CHANGELOG.md", "cuckood.service"}
        files |= {"cuckood-backup.service", "cuckood-backup.timer"}
        self.assertEqual(set(members), {name} | {f"{name}/{file}" for file in files})
        self.assertEqual({(m.uid, m.gid, m.mtime) for m in members.values()}, {(0, 0, 10**9)})
        self.assertEqual((self.desk / name / "cuckood").read_bytes(), b"what was built")
        self.assertEqual(members[f"{name}/cuckood"].mode, 0o755)

    def test_the_binary_says_its_version_as_the_workflow_asks(self):
        said = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, f"cuckood {VERSION}\n")

    def test_a_packed_chart_installs_the_published_image(self):
        done = self.tree.release("chart", "registry.example.com/lists/cuckood", self.desk)
        self.assertEqual(done.returncode, 0, done.stderr)
        documents = rendered("access.allowAnonymous=true", chart=done.stdout.strip())
        (pod,) = [d for d in documents if d["kind"] == "StatefulSet"]
        self.assertEqual(
            pod["spec"]["template"]["spec"]["containers"][0]["image"],
            f"registry.example.com/lists/cuckood:{VERSION}",
        )


if __name__ == "__main__":
    unittest.main()
