#!/usr/bin/env python3
"""Files of filters: how quickly they are built, beside adding the same items over HTTP;
how long it takes to open one of a GiB and to ask it, reader by reader; and what clients
that poll by `ETag` cost a server.

    python3 benches/files.py [ITEMS]

Everything is written into a folder of its own. Ten million items unless told otherwise.
"""

import json
import os
import pathlib
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "clients/python/src")]

import cuckood  # noqa: E402
from served import BINARY, Server  # noqa: E402

POLLERS, POLLS = 100, 10_000
ASKED = 1000
TYPESCRIPT = """
import { readFileSync } from "node:fs";
import { FilterFile } from "cuckood";
const began = performance.now();
const file = new FilterFile(readFileSync(process.argv[2]));
const opened = performance.now();
const items = Array.from({ length: 100_000 }, (_, number) => `SUMMER-${number}`);
for (let turn = 0; turn < 10; turn += 1) file.existsMany(items);
const asking = performance.now();
for (let turn = 0; turn < 10; turn += 1) file.existsMany(items);
console.log(opened - began, (performance.now() - asking) * 1e6 / 1_000_000);
"""


def ran(*command, **options):
    """What a command prints, its seconds, seconds of processors, and MiB at most."""
    began = time.monotonic()
    with subprocess.Popen([str(it) for it in command], stdout=subprocess.PIPE, text=True, **options) as running:
        said = running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode not in (0, 1):
        sys.exit(f"{command} failed")
    return said, time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


def write_list(path, count):
    with open(path, "w") as lines:
        for first in range(0, count, 100_000):
            lines.write("".join(f"SUMMER-{number}\n" for number in range(first, min(first + 100_000, count))))


def build(folder, items, server):
    lines, file = folder / "list", folder / "built"
    write_list(lines, items)
    print(f"\n## {items:,} lines, {lines.stat().st_size / items:.1f} bytes each\n")
    print("| | items a second | processor time an item | MiB | bits an item |\n|---|---|---|---|---|")
    said, seconds, processor, most = ran(BINARY, "build", lines, "--error-rate", "0.001", "-o", file)
    bits = file.stat().st_size * 8 / items
    print(f"| `build` | {items / seconds:,.0f} | {processor / items * 1e9:.0f} ns | {most} | {bits:.2f} |")
    before = server_seconds(server)
    command = ["load", "--server", server.url(""), "--filter", "added", "--create", f"capacity={items}", lines]
    _, seconds, processor, _ = ran(BINARY, *command, stderr=subprocess.DEVNULL)
    processor += server_seconds(server) - before
    most = server.memory("VmHWM")
    bits = json.loads(server.ask("GET", "/filters/added"))["slot_bytes"] * 8 / items
    print(f"| `load`, over HTTP | {items / seconds:,.0f} | {processor / items * 1e9:.0f} ns | {most} | {bits:.2f} |")
    print(f"\n{said}")
    return lines


def server_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def readers(folder, lines):
    file, few = folder / "large", folder / "few"
    ran(BINARY, "build", lines, "--capacity", "500000000", "-o", file)
    few.write_text("".join(f"SUMMER-{number}\n" for number in range(ASKED)))
    print(f"\n## A file of {file.stat().st_size >> 20} MiB\n")
    print("| reader | opened in | a question | MiB resident after 1,000 items, what is mapped of the file included |\n|---|---|---|---|")

    def command(of):
        with open(of) as given:
            return ran(BINARY, "filter", "exists", "--quiet", "--file", file, stdin=given)

    _, opened, _, most = command(few)
    _, _, processor, _ = command(lines)
    asked = sum(1 for _ in open(lines))
    print(f"| `cuckood filter exists`, process and lines included | {opened * 1000:.0f} ms | {processor / asked * 1e9:.0f} ns | {most} |")
    ran("cargo", "build", "--release", "--locked", "--package", "cuckood-file", "--example", "timing", cwd=HERE.parent)
    said, *_ = ran(BINARY.parent / "examples/timing", file)
    opened, one_by_one, at_once = map(float, said.split())
    print(f"| Rust, one by one, and many at once | {opened:.1f} ms | {one_by_one:.0f} ns, {at_once:.0f} ns | |")
    ask = f"""
import sys, time
sys.path.insert(0, {str(HERE.parent / "clients/python/src")!r})
import cuckood
before = open("/proc/self/status").read()
began = time.monotonic()
file = cuckood.FilterFile({str(file)!r})
opened = time.monotonic() - began
items = [f"SUMMER-{{number}}" for number in range(100_000)]
file.exists_many(items[:{ASKED}])
after = open("/proc/self/status").read()
began = time.monotonic()
file.exists_many(items)
took = time.monotonic() - began
rss = [int(it.split("VmRSS:")[1].split()[0]) // 1024 for it in (before, after)]
print(opened, took / len(items) * 1e9, rss[1] - rss[0])
"""
    said, *_ = ran(sys.executable, "-c", ask)
    opened, nanos, more = map(float, said.split())
    print(f"| Python | {opened * 1000:.1f} ms | {nanos:,.0f} ns | {more:.0f} more |")
    sys.path.insert(0, str(HERE.parent / "tests/clients"))
    from typescript_project import project

    programs = project(folder)
    (programs / "ask.mjs").write_text(TYPESCRIPT)
    said, _, _, most = ran("node", "ask.mjs", file, cwd=programs)
    opened, nanos = map(float, said.split())
    print(f"| TypeScript, which reads the file | {opened:.0f} ms | {nanos:,.0f} ns | {most} |")


class Poller:
    def __init__(self, port, etag):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.etag, self.got, self.statuses = etag, b"", {}

    def ask(self):
        self.socket.sendall(
            f"GET /filters/polled/dump HTTP/1.1\r\nhost: localhost\r\nif-none-match: {self.etag}\r\n\r\n".encode()
        )

    def is_answered(self):
        """Takes what has come of the answer; of a file its `ETag` is kept, and it is read to its end."""
        self.got += self.socket.recv(1 << 20)
        head, end, body = self.got.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not end or len(body) < (int(length[1]) if length else 0):
            return False
        status = int(head[9:12])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        # There are places for 16 dumps at once: others are refused, and poll again.
        tag = re.search(rb"etag: (.*)", head)
        self.etag = tag[1].decode().strip() if tag else self.etag
        self.got = b""
        return True


def polls(server):
    with cuckood.Client(server.url("")) as client:
        filter = client.filter("polled")
        filter.create(capacity=1000)
        filter.add("first")
        over = threading.Event()

        def change():
            number = 0
            while not over.wait(1):
                filter.add(f"changed-{number}")
                number += 1

        pollers = [Poller(server.port, '"none"') for _ in range(POLLERS)]
        selector = selectors.DefaultSelector()
        for it in pollers:
            selector.register(it.socket, selectors.EVENT_READ, it)
        changing = threading.Thread(target=change)
        changing.start()
        before, began = server_seconds(server), time.monotonic()
        asked, waiting, seconds = 0, list(pollers), 20
        while time.monotonic() < began + seconds:
            # Those that are due: ten thousand a second over all of them.
            due = int((time.monotonic() - began) * POLLS) - asked
            for it in waiting[:due]:
                it.ask()
                asked += 1
            waiting = waiting[max(0, due) :]
            waiting += [key.data for key, _ in selector.select(0.001) if key.data.is_answered()]
        used = server_seconds(server) - before
        over.set()
        changing.join()
    statuses = {}
    for it in pollers:
        for status, count in it.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    print(f"\n## Polls over {POLLERS} connections of a filter that changes once a second\n")
    print(f"{asked / seconds:,.0f} a second, {used / asked * 1e6:.1f} µs of processor time each, answers {statuses}")


def main():
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = Server(BINARY, folder, "--cache-bytes", "2GiB")
        try:
            polls(server)
            lines = build(folder, items, server)
            readers(folder, lines)
        finally:
            server.process.kill()
            server.process.wait()


main()
