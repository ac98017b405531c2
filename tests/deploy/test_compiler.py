"""`.cargo/cxx`, through which RocksDB is compiled: joined sources have the symbols that
they have one by one, also where they can't be joined."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

COMPILER = Path(__file__).parents[2] / ".cargo" / "cxx"


class Compiler(unittest.TestCase):
    def compiled(self, sources: dict[str, str]) -> tuple[set[str], set[str], list[str]]:
        """Compiles them in one group; the symbols of the first object and of the last
        one, and what was said of sources that could not be joined."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "rocksdb").mkdir()
            for source, text in sources.items():
                (folder / "rocksdb" / source).write_text(text)
            (folder / "rocksdb_lib_sources.txt").write_text("".join(f"{it}\n" for it in sources))
            objects = []
            for source in sources:
                objects.append(folder / f"{source}.o")
                subprocess.run(
                    [COMPILER, "-O0", "-o", objects[-1], "-c", f"rocksdb/{source}"],
                    cwd=folder, env=os.environ | {"UNITY_GROUPS": "1"}, check=True, capture_output=True,
                )
            symbols = [
                {line.split()[-1] for line in subprocess.check_output(["nm", "--defined-only", it], text=True).splitlines()}
                for it in objects
            ]
            return symbols[0], symbols[-1], [it.read_text() for it in folder.glob("*.alone")]

    def test_sources_are_joined_in_the_object_of_the_last_one(self):
        first, last, alone = self.compiled({"a.cc": "int a() { return 1; }", "b.cc": "int b() { return 2; }"})
        self.assertEqual((first, last, alone), (set(), {"_Z1av", "_Z1bv"}, []))

    def test_what_cannot_be_joined_is_compiled_one_by_one_and_said(self):
        same = "static int same() { return 1; } "
        first, last, alone = self.compiled({
            "a.cc": same + "int a() { return same(); }", "b.cc": same + "int b() { return same(); }",
        })
        self.assertEqual((first, last - {"_ZL4samev"}), (set(), {"_Z1av", "_Z1bv"}))
        self.assertEqual(len(alone), 1)
        self.assertIn("rocksdb/a.cc rocksdb/b.cc", alone[0])

    def test_a_source_that_no_compiler_takes_is_an_error(self):
        with self.assertRaises(subprocess.CalledProcessError):
            self.compiled({"a.cc": "int a() { return 1; }", "b.cc": "int b( {"})


if __name__ == "__main__":
    unittest.main()
