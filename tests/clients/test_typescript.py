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
from typescript_project import PACKAGE, project, run  # noqa: E402

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

    def test_it_does_what_it_says(self):
        ran = subprocess.run(
            ["node", "--test", "--test-reporter=tap", "client.test.js"], cwd=self.programs, env=self.environment,
        )
        self.assertEqual(ran.returncode, 0)
        self.assertGreater(self.proxy.lost, 0)

    def test_the_examples_of_its_page_work_as_printed(self):
        said = run("node", "readme.js", at=self.programs, env=self.environment)
        self.assertRegex(said, r"^[2-9]\d values as shown")

    def test_what_is_generated_is_current(self):
        with tempfile.TemporaryDirectory(dir=PACKAGE) as out:
            run(PACKAGE / "generate", pathlib.Path(out).name, at=PACKAGE)
            for part in ("src/models", "dist"):
                run("diff", "-r", part, pathlib.Path(out) / part, at=PACKAGE)


if __name__ == "__main__":
    unittest.main()
