#!/usr/bin/env python3
"""Counts the instructions that a server executes for a question and for an added item.

    python3 benches/instructions.py [--rounds N] [BINARY ...]

Unlike a time, a count hardly depends on what else the machine does, so two
binaries can be compared by it. What counts is the server's own code, that of
its libraries included, without the kernel's. Needs perf (Debian's linux-perf)
and a processor whose counters may be read.
"""

import argparse
import json
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
from served import BINARY, Server

BATCH = 1_000


class Connection:
    """Sends requests one after another over one connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request):
        self.socket.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self.socket.recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 20"):
            sys.exit(f"refused: {received!r}")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(body) < length:
            body += self.socket.recv(65536)


def get(item):
    return f"GET /filters/f/exists?item={item} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def post(path, items):
    body = "\n".join(items).encode()
    return (
        f"POST /filters/f/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


def counted(server, connection, requests):
    """Instructions that the server executes while it answers requests."""
    pid = str(server.process.pid)
    command = ["perf", "stat", "-x", ",", "-e", "instructions:u", "-p", pid]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as perf:
        # perf says nothing when it has begun; what it misses of the first
        # requests would count for the rest, so the requests wait.
        time.sleep(0.3)
        try:
            for request in requests:
                connection.send(request)
        finally:
            perf.send_signal(signal.SIGINT)
        said = perf.stderr.read()
    try:
        return int(next(line for line in said.splitlines() if "instructions" in line).split(",")[0])
    except (StopIteration, ValueError):
        sys.exit(f"perf counts no instructions here: {said}")


def post_json(path, items):
    body = json.dumps({"items": items}).encode()
    return (
        f"POST /filters/f/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


def measure(binary, rounds):
    """The median of the rounds for each row."""
    rows = {}
    with tempfile.TemporaryDirectory() as directory:
        server = Server(binary, pathlib.Path(directory))
        try:
            connection = Connection(server.port)
            put = b'{"capacity": 4000000}'
            connection.send(
                b"PUT /filters/f HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(put), put)
            )
            for batch in range(300):
                connection.send(post("items", [f"warm-{batch}-{item}" for item in range(BATCH)]))
            for round in range(rounds + 1):
                work = {
                    "question, one a request": (4_000, [get(f"warm-{n % 300}-{round}") for n in range(4_000)]),
                    "question, 1,000 lines a request": (
                        200 * BATCH,
                        [post("exists", [f"warm-{n}-{i * 2}" for i in range(BATCH)]) for n in range(200)],
                    ),
                    "added item, one a request": (
                        2_000,
                        [post("items", [f"one-{round}-{n}"]) for n in range(2_000)],
                    ),
                    "added item, 1,000 lines a request": (
                        200 * BATCH,
                        [post("items", [f"add-{round}-{n}-{i}" for i in range(BATCH)]) for n in range(200)],
                    ),
                    "question, 1,000 a request as JSON": (
                        200 * BATCH,
                        [post_json("exists", [f"warm-{n}-{i * 2}" for i in range(BATCH)]) for n in range(200)],
                    ),
                    "added item, 1,000 a request as JSON": (
                        200 * BATCH,
                        [post_json("items", [f"json-{round}-{n}-{i}" for i in range(BATCH)]) for n in range(200)],
                    ),
                }
                for row, (items, requests) in work.items():
                    instructions = counted(server, connection, requests) / items
                    # The first round warms up.
                    if round > 0:
                        rows.setdefault(row, []).append(instructions)
        finally:
            server.process.terminate()
            server.process.wait()
    return {row: statistics.median(values) for row, values in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("binaries", nargs="*", default=[BINARY])
    options = parser.parse_args()
    results = [measure(binary, options.rounds) for binary in options.binaries]
    for row, first in results[0].items():
        line = f"{row:36}" + "".join(f"{result[row]:12,.0f}" for result in results)
        if len(results) > 1:
            line += f"   last : first {results[-1][row] / first:.3f}"
        print(line)


if __name__ == "__main__":
    main()
