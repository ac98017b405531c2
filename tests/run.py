#!/usr/bin/env python3
"""Runs the suites of Rust tests, JOBS of them at a time: most of their time they wait,
for servers, deadlines and disks. Cargo would run one after the other. What measures
one caller beside another runs first, alone.

    tests/run.py [--jobs JOBS] [ARGUMENT of cargo test …]

Each suite's output is printed as a whole when it ends, with its seconds.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What one caller may cost another is measured: nothing else runs beside it.
ALONE = ["dearest"]
# They take longest, so they begin first.
LONGEST = "engine cluster blackbox chaos api layouts crash cuckood_filter cuckood_cluster".split()

# Tests at a time, where that is more than there are cores: these wait for leases that end
# and brokers that start, and for so little else that two cores are idle.
THREADS = {"cluster": "6"}


def suites(arguments):
    """Builds what `cargo test` would run: each program, and where it runs."""
    build = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    messages = (json.loads(line) for line in built.stdout.splitlines())
    found = [
        (m["target"]["name"], m["executable"], Path(m["manifest_path"]).parent)
        for m in messages
        if m["reason"] == "compiler-artifact" and m["profile"]["test"] and m["executable"]
    ]
    rank = {name: place for place, name in enumerate(LONGEST)}
    return sorted(found, key=lambda it: rank.get(it[0], len(LONGEST)))


def run(suite):
    name, program, directory = suite
    environment = {**os.environ, "CARGO_MANIFEST_DIR": str(directory)}
    if name in ALONE:
        environment["RUST_TEST_THREADS"] = "1"
    if name in THREADS:
        environment.setdefault("RUST_TEST_THREADS", THREADS[name])
    began = time.monotonic()
    done = subprocess.run(
        [program],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    seconds = time.monotonic() - began
    print(f"\n==> {name}: {seconds:.0f} s\n{done.stdout}", flush=True)
    if done.returncode != 0:
        print(f"FAIL: {name}: exit status {done.returncode}", flush=True)
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=3)
    options, arguments = parser.parse_known_args()
    found = suites(arguments)
    codes = [run(suite) for suite in found if suite[0] in ALONE]
    with ThreadPoolExecutor(options.jobs) as pool:
        codes += pool.map(run, [suite for suite in found if suite[0] not in ALONE])
    documented = subprocess.run(["cargo", "test", "--doc", *arguments])
    sys.exit(any(codes) or documented.returncode)


if __name__ == "__main__":
    main()
