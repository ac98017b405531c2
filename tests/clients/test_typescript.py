"""The TypeScript client against real servers, and its page."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from lossy import LossyProxy  # noqa: E402
from served import BINARY, Server  # noqa: E402
from typescript_project import PACKAGE, packed, project, run  # noqa: E402

# A compaction that the server begins would refuse the one that is asked for.
PLAIN = ("--compaction-threshold", "0")
SMALL = ("--max-batch-items", "1000", "--max-body-bytes", "128KiB", "--max-probes", "1500")


class TypeScript(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.server, small = (cls.serve(flags) for flags in (PLAIN, SMALL))
        cls.proxy = LossyProxy(cls.server.port, 0.5, seed=4)
        cls.addClassCleanup(cls.proxy.stop)
        (cls.directory / "project").mkdir()
        cls.programs = project(cls.directory / "project")
        cls.environment = os.environ | {
            "CUCKOOD_SERVER": cls.server.url(""), "SMALL_SERVER": small.url(""), "LOSSY_SERVER": cls.proxy.url,
        }

    @classmethod
    def serve(cls, flags):
        server = Server(BINARY, pathlib.Path(tempfile.mkdtemp(dir=cls.directory)), *flags)
        cls.addClassCleanup(server.process.wait)
        cls.addClassCleanup(server.process.kill)
        return server

    def assert_passes(self, *programs):
        ran = subprocess.run(
            ["node", "--test", "--test-reporter=tap", *programs], cwd=self.programs, env=self.environment,
        )
        self.assertEqual(ran.returncode, 0)

    def test_it_does_what_it_says(self):
        self.assert_passes("client.test.js")
        self.assertGreater(self.proxy.lost, 0)

    def test_imports_are_whole_from_every_kind_of_source(self):
        self.assert_passes("imports.test.js")

    def test_it_holds_with_thousands_of_calls_at_once(self):
        self.assert_passes("load.test.js")

    def test_the_examples_of_its_pages_work_as_printed(self):
        for page, fewest in (("readme", 30), ("clients", 3)):
            said = run("node", f"{page}.js", at=self.programs, env=self.environment)
            self.assertGreaterEqual(int(said.split()[0]), fewest)

    def test_what_is_packed_is_what_is_compiled_and_no_more(self):
        sources = [source.relative_to(PACKAGE / "src") for source in (PACKAGE / "src").rglob("*.ts")]
        built = {f"package/dist/{source.with_suffix(end)}" for source in sources for end in (".js", ".d.ts")}
        listed = set(run("tar", "--list", "--file", packed(), at=PACKAGE).split())
        self.assertEqual(listed, built | {"package/package.json", "package/README.md"})

    def test_what_is_generated_is_current(self):
        with tempfile.TemporaryDirectory(dir=PACKAGE) as out:
            run(PACKAGE / "generate", pathlib.Path(out).name, at=PACKAGE)
            run("diff", "-r", "src/models", pathlib.Path(out) / "src/models", at=PACKAGE)


if __name__ == "__main__":
    unittest.main()
