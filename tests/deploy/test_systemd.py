"""The units for systemd: what they say fits the server and each other."""

import re
import subprocess
import unittest

from support import BINARY, ROOT, known_variables

UNITS = ROOT / "deploy/systemd"


def settings(unit):
    """Each setting of a unit with all its values."""
    found = {}
    for line in (UNITS / unit).read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


class Units(unittest.TestCase):
    def test_the_server_knows_every_variable_and_may_write_where_they_point(self):
        unit = settings("cuckood.service")
        told = dict(pair.split("=", 1) for pair in unit["Environment"])
        self.assertLessEqual(set(told), known_variables())
        writable = {f"/var/lib/{name}" for name in unit["StateDirectory"][0].split()}
        self.assertEqual(set(told.values()), writable)

    def test_the_server_has_longer_to_stop_than_it_takes(self):
        said = subprocess.run(
            [BINARY, "serve", "--help"], capture_output=True, text=True, check=True
        ).stdout
        drain = re.search(r"CUCKOOD_DRAIN_TIMEOUT_SECONDS=\]\s+\[default:\s+(\d+)\]", said)[1]
        (patience,) = settings("cuckood.service")["TimeoutStopSec"]
        self.assertGreaterEqual(int(patience), int(drain) + 60)

    def test_what_they_run_is_what_the_program_can_do(self):
        for unit in UNITS.glob("*.service"):
            (line,) = settings(unit.name)["ExecStart"]
            program, *arguments = line.split()
            self.assertEqual(program, "/usr/local/bin/cuckood")
            subprocess.run([BINARY, *arguments, "--help"], capture_output=True, check=True)

    def test_the_timer_has_a_service_of_its_name_that_needs_the_server(self):
        self.assertTrue((UNITS / "cuckood-backup.timer").exists())
        self.assertEqual(settings("cuckood-backup.service")["Requires"], ["cuckood.service"])


if __name__ == "__main__":
    unittest.main()
