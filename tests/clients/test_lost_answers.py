"""What the clients promise about changes: made once, although three answers in
ten are lost and the server is killed and started again in the middle."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from lossy import LossyProxy  # noqa: E402
from served import BINARY, ROOT, Server  # noqa: E402
from typescript_project import project  # noqa: E402

ADDS = 1000
SEED = 20261122

class LostAnswers(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_python_adds_each_item_once(self):
        self.add_through_a_lossy_proxy("python", [sys.executable, HERE / "python/add_all.py"])

    def test_typescript_adds_each_item_once(self):
        (self.directory / "project").mkdir()
        programs = project(self.directory / "project")
        self.add_through_a_lossy_proxy("typescript", ["node", programs / "add_all.js"])

    def add_through_a_lossy_proxy(self, language, program):
        server = Server(BINARY, self.directory)
        proxy = LossyProxy(server.port, 0.3, SEED)
        try:
            server.ask("PUT", "/filters/counted", b'{"capacity": 4000, "fingerprint_bits": 32}')
            # Some items once, some several times.
            items = [f"item-{number % 617}" for number in range(ADDS)]
            environment = os.environ | {
                "CUCKOOD_SERVER": proxy.url, "PYTHONPATH": str(ROOT / "clients/python/src"), "no_proxy": "*",
            }
            adder = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
            adder.stdin.write("\n".join(items))
            adder.stdin.close()
            for _ in range(ADDS // 2):
                adder.stdout.readline()
            server.process.kill()
            server.process.wait()
            server = Server(BINARY, self.directory, port=server.port)
            with adder.stdout:
                rest = adder.stdout.read().split()
            self.assertEqual(adder.wait(), 0)
            self.assertEqual(len(rest), ADDS - ADDS // 2)
            self.assert_counts(server, collections.Counter(items))
            print(f"{language}: {ADDS} adds, {proxy.lost} answers lost (seed {SEED}), {proxy.replayed} replayed")
            self.assertGreater(proxy.lost, ADDS // 4)
            self.assertGreater(proxy.replayed, 0)
        finally:
            server.process.kill()
            server.process.wait()
            proxy.stop()

    def assert_counts(self, server, expected):
        self.assertEqual(json.loads(server.ask("GET", "/filters/counted"))["items"], expected.total())
        question = json.dumps({"items": list(expected)}).encode()
        counts = json.loads(server.ask("POST", "/filters/counted/count", question))["results"]
        self.assertEqual(counts, list(expected.values()))


if __name__ == "__main__":
    unittest.main()
