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

    def test_checksums_of_rocksdb_are_equal_with_and_without_instructions_for_them(self):
        home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        crate = max(home.glob("registry/src/*/librocksdb-sys-*"))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            flags = ["-O2", "-std=c++20", "-Irocksdb", "-Irocksdb/include", "-DROCKSDB_PLATFORM_POSIX", "-DOS_LINUX"]
            compile = [COMPILER, *flags, "-o", folder / "crc.o", "-c", "rocksdb/util/crc32c.cc"]
            subprocess.run(compile, cwd=crate, check=True)
            (folder / "main.cc").write_text(CHECKSUMS)
            subprocess.run(["c++", "-o", "main", "main.cc", "crc.o"], cwd=folder, check=True)
            said = subprocess.check_output([folder / "main"], text=True)
        # The check value of CRC-32C (RFC 3720) is that of these nine digits.
        self.assertEqual(said, "e3069283 0 differ\n")


CHECKSUMS = """
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
namespace rocksdb::crc32c {
uint32_t Extend(uint32_t, const char*, size_t);
uint32_t ExtendPortable(uint32_t, const char*, size_t);
}
using namespace rocksdb::crc32c;
int main() {
  std::vector<char> bytes(1 << 15);
  for (auto& byte : bytes) byte = rand();
  int differ = 0;
  for (int i = 0; i < 20000; i++) {
    const char* from = bytes.data() + rand() % 4096;
    size_t size = i < 5000 ? i : rand() % 20000;
    uint32_t crc = rand();
    differ += Extend(crc, from, size) != ExtendPortable(crc, from, size);
  }
  printf("%08x %d differ\\n", Extend(0, "123456789", 9), differ);
}
"""

if __name__ == "__main__":
    unittest.main()
