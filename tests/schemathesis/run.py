#!/usr/bin/env python3
"""Starts a server, has schemathesis send it requests made from its own
description, in rounds until there were --cases of them, and prints figures.
Whatever a check finds ends it with exit code 1."""

import argparse
import base64
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from served import BINARY, Server  # noqa: E402

# Cases of each operation in a round; a round of fuzzing is over after it.
MOST_OF_AN_OPERATION = 400
FILTERS = {
    "coupons": {"capacity": 100_000, "error_rate": 0.001},
    "sessions": {"capacity": 1000, "fingerprint_bits": 12, "ttl_seconds": 1_000_000},
    "redis": {"layout": "classic", "capacity": 1000},
    "joins": {"capacity": 1000, "value_bits": 16, "values_per_item": 4},
    "readers": {
        "capacity": 1000,
        "attributes": [{"name": "plan", "values": ["free", "pro"]}, {"name": "tag", "hash_bits": 5}],
    },
}


def scandump():
    """The frames of a filter that RedisBloom dumped."""
    recorded = json.loads((HERE.parent / "fixtures/redisbloom/default_half_full.json").read_text())
    frames = b""
    for pair in recorded["scandump"]:
        chunk = base64.b64decode(pair["data_base64"])
        frames += struct.pack("<qI", pair["iterator"], len(chunk)) + chunk
    return frames


def prepare(server, directory):
    """Filters to ask, and dumps to restore."""
    for key, fields in FILTERS.items():
        server.ask("PUT", f"/filters/{key}", json.dumps(fields).encode())
        path, lines = "items", b"SPRING-24\nAUTUMN-24\n17\n"
        if "value_bits" in fields:
            path, lines = "values", b"SPRING-24\t17\nSPRING-24\t3\n"
        if "attributes" in fields:
            path, lines = "values?attributes=plan,tag", b"SPRING-24\tpro\tDE\n17\tfree\tAT\n"
        server.ask("POST", f"/filters/{key}/{path}", lines, "text/plain")
    (directory / "dump").write_bytes(server.ask("GET", "/filters/coupons/dump"))
    (directory / "scandump").write_bytes(scandump())


def round_of(server, directory, seed, cases, first):
    """Runs schemathesis once; returns how many cases it made, and how it ended."""
    environment = dict(
        os.environ,
        CUCKOOD_TEST_DUMP=str(directory / "dump"),
        CUCKOOD_TEST_SCANDUMP=str(directory / "scandump"),
        SCHEMATHESIS_HOOKS="hooks",
        PYTHONPATH=str(HERE),
    )
    # What is tried systematically is the same every time.
    phases = "examples,coverage,fuzzing,stateful" if first else "fuzzing,stateful"
    command = [pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", HERE / "schemathesis.toml"]
    command += ["run", server.url("/openapi.json"), "--checks", "all", "--phases", phases]
    command += ["--header", f"Authorization: Bearer {server.key}"]
    command += ["--seed", str(seed), "--max-examples", str(cases), "--request-timeout", "60"]
    ran = subprocess.run(command, env=environment, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    made = re.search(r"^  (\d+) generated", ran.stdout, re.M)
    return int(made[1]) if made else 0, ran.returncode, ran.stdout


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=400)
    options.add_argument("--seed", type=int, default=20261121)
    options.add_argument("--binary", default=BINARY)
    options.add_argument("--seconds", type=int, default=3600, help="no further round after so many")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        keys = directory / "keys.json"
        add = [asked.binary, "keys", "add", "tester", "--scope", "admin", "--keys-file", keys]
        key = subprocess.run(add, stdout=subprocess.PIPE, check=True, text=True).stdout.split()[-1]
        flags = ["--keys-file", keys, "--backup-dir", directory / "backups", "--backup-keep", "2"]
        # The description names the largest bound that a server may be given.
        flags += ["--max-chain-length", "65536"]
        server = Server(asked.binary, directory, *flags, key=key)
        try:
            sys.exit(run(asked, server, directory))
        finally:
            server.process.kill()


def run(asked, server, directory):
    prepare(server, directory)
    operations = sum(len(path) for path in json.loads(server.ask("GET", "/openapi.json"))["paths"].values())
    started, made, rounds = time.monotonic(), 0, 0
    before = server.memory("VmRSS")
    while made < asked.cases and time.monotonic() - started < asked.seconds:
        most = max(2, min(MOST_OF_AN_OPERATION, (asked.cases - made) // operations))
        cases, status, said = round_of(server, directory, asked.seed + rounds, most, rounds == 0)
        made, rounds = made + cases, rounds + 1
        if status != 0 or cases == 0 or server.process.poll() is not None:
            print(said)
            print("the end of the server's log:", *server.log.read_text().splitlines()[-5:], sep="\n")
            print(f"schemathesis: {made} cases in {rounds} rounds from seed {asked.seed}, and it found something")
            return 1
    seconds = time.monotonic() - started
    resident, most = server.memory("VmRSS"), server.memory("VmHWM")
    ended = server.stop()
    print(
        f"schemathesis: {made} cases over {operations} operations in {rounds} rounds from seed {asked.seed}, "
        f"0 failures, {seconds:.0f} s; the server's memory was {before} MiB, is {resident} MiB, at most {most} MiB; "
        f"it ended with exit code {ended}"
    )
    return ended


if __name__ == "__main__":
    main()
