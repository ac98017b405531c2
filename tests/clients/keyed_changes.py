#!/usr/bin/env python3
"""Single adds, each with an Idempotency-Key of its own that lives for --lifetime seconds,
as fast as the server takes them or at --rate, for --seconds. Says how many were answered
otherwise than with 200, that each item is there once, and how many bytes the server kept for keys at most."""

import argparse
import asyncio
import collections
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from served import BINARY, Server  # noqa: E402

KEPT = re.compile(rb"^cuckood_idempotency_bytes (\d+)", re.M)


def request(number, lifetime):
    body = b'{"items":["item-%d"]}' % number
    return (
        b"POST /filters/keyed/items HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"idempotency-key: %032x\r\nidempotency-key-lifetime: %d\r\ncontent-length: %d\r\n\r\n%s"
        % (number, lifetime, len(body), body)
    )


class Load:
    def __init__(self, asked, port):
        self.asked = asked
        self.port = port
        self.sent = 0
        self.statuses = collections.Counter()
        self.ends = time.monotonic() + asked.seconds
        self.began = time.monotonic()

    async def connection(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        while (now := time.monotonic()) < self.ends:
            due = self.asked.rate * (now - self.began) if self.asked.rate else self.sent + self.asked.pipelined
            if (count := min(int(due) - self.sent, self.asked.pipelined)) <= 0:
                await asyncio.sleep(0.002)
                continue
            writer.write(b"".join(request(self.sent + n, self.asked.lifetime) for n in range(count)))
            self.sent += count
            for _ in range(count):
                head = await reader.readuntil(b"\r\n\r\n")
                self.statuses[head[9:12].decode()] += 1
                await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
        writer.close()

    async def watch(self, server):
        most = 0
        while time.monotonic() < self.ends:
            await asyncio.sleep(min(10, self.asked.seconds / 10))
            kept = int(KEPT.search(await asyncio.to_thread(server.ask, "GET", "/metrics"))[1])
            most = max(most, kept)
            seconds = time.monotonic() - self.began
            print(f"{seconds:.0f} s: {self.statuses.total() / seconds:.0f}/s, {kept} bytes kept", flush=True)
        return most

    async def run(self, server):
        watching = asyncio.ensure_future(self.watch(server))
        await asyncio.gather(*(self.connection() for _ in range(self.asked.connections)))
        return await watching


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--rate", type=int, default=0, help="a second; 0: as many as it takes")
    options.add_argument("--lifetime", type=int, default=90)
    options.add_argument("--connections", type=int, default=200)
    options.add_argument("--pipelined", type=int, default=32)
    options.add_argument("--max-idempotency-bytes", default="384MiB")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        bound = f"--max-idempotency-bytes={asked.max_idempotency_bytes}"
        server = Server(BINARY, pathlib.Path(directory), bound)
        try:
            server.ask("PUT", "/filters/keyed", b'{"capacity": 20000000}')
            load = Load(asked, server.port)
            most = asyncio.run(load.run(server))
            items = re.search(rb'"items":(\d+)', server.ask("GET", "/filters/keyed"))[1].decode()
        finally:
            server.process.kill()
            server.process.wait()
    print(f"{dict(load.statuses)} in {asked.seconds:.0f} s, {items} items, at most {most} bytes kept")
    sys.exit(load.statuses.keys() != {"200"} or int(items) != load.sent)


if __name__ == "__main__":
    main()
