"""The types of the Python client, as mypy and Pyright see them in programs of its users."""

import doctest
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from test_python import PACKAGE, PAGES  # noqa: E402

PROGRAM = """
from datetime import timedelta
from typing import assert_type

from cuckood import AsyncClient, Client, Filter, FilterNotFound, Item

client = Client(timeout=timedelta(seconds=5), patience=2)
users: Filter = client.filter("users")
items: list[Item] = ["ada", 7, b"grace"]
assert_type(users.exists("ada", within_seconds=timedelta(hours=1)), bool)
assert_type(users.exists_many(items), list[bool])
assert_type(users.import_items(open("names.txt", "rb")).added, int)
assert_type(users.import_items([("ada", 17), ("grace", 3)]).added, int)
users.create(window_seconds=timedelta(days=1), capacity=10)
try:
    users.info()
except FilterNotFound as error:
    assert_type(error.code, str)


async def ask(client: AsyncClient) -> bool:
    return await client.filter("users").exists("ada")
"""


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.directory / "program.py").write_text(PROGRAM)
        for page in PAGES:
            examples = doctest.DocTestParser().get_examples(page.read_text())
            program = "".join(example.source for example in examples)
            (cls.directory / f"{page.parent.name}_{page.stem.lower()}.py").write_text(program)
        source = os.path.relpath(PACKAGE / "src", cls.directory.resolve())
        config = {"extraPaths": [source], "include": [".", source], "reportUnusedExpression": False}
        (cls.directory / "pyrightconfig.json").write_text(json.dumps(config))

    def check(self, *words):
        ran = subprocess.run(
            words, cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | {"MYPYPATH": str(PACKAGE / "src")},
        )
        return ran.returncode, ran.stdout

    def mypy(self, *paths):
        return self.check(sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.directory / "cache", *paths)

    def pyright(self):
        program = HERE / "node_modules/pyright/index.js"
        return self.check("node", program, "--project", self.directory, "--pythonpath", sys.executable)

    def test_mypy_takes_the_package_its_pages_and_programs(self):
        status, said = self.mypy(PACKAGE / "src/cuckood", *self.directory.glob("*.py"))
        self.assertEqual(status, 0, said)

    def test_pyright_takes_the_package_its_pages_and_programs(self):
        status, said = self.pyright()
        self.assertEqual(status, 0, said)
        self.assertIn("0 errors, 0 warnings", said)

    def test_both_refuse_what_is_wrong(self):
        wrong = self.directory / "wrong.py"
        self.addCleanup(wrong.unlink)
        wrong.write_text("from cuckood import Client\n\nClient().filter(7).exists(None)\n")
        for status, said in (self.mypy(wrong), self.pyright()):
            self.assertNotEqual(status, 0)
            self.assertEqual(said.count("wrong.py:3"), 2, said)


if __name__ == "__main__":
    unittest.main()
