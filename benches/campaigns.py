#!/usr/bin/env python3
"""Compares one filter with values with a filter for each value and a lookup.

    python3 benches/campaigns.py [--campaigns N] [--users N] [BINARY]

So many campaigns with so many users each, of whom every one joined four. Which
campaigns has a user joined? Says how many wrong ones are named, what the filters
take, and how long a question takes over one connection.
"""

import argparse
import http.client
import json
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
from served import BINARY, Server

JOINED = 4
SEED = 20_260_102
BATCH = 100


class Asker:
    """Asks over one connection, and keeps the times."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.times = []

    def send(self, method, path, body=None):
        body = body and json.dumps(body)
        begun = time.perf_counter()
        self.connection.request(method, path, body, {"content-type": "application/json"} if body else {})
        answer = self.connection.getresponse()
        read = answer.read()
        self.times.append(time.perf_counter() - begun)
        if answer.status not in (200, 201):
            sys.exit(f"{method} {path}: {answer.status} {read!r}")
        return json.loads(read)

    def median(self):
        """Microseconds, of what was sent since the last time."""
        times, self.times = self.times, []
        return 1e6 * statistics.median(times)


def chunks(items, size):
    return (items[at : at + size] for at in range(0, len(items), size))


def cache_bytes(server):
    metrics = server.ask("GET", "/metrics").decode()
    return int(re.search(r"^cuckood_cache_bytes (\d+)", metrics, re.M)[1])


def measure(ask, named, users, joined):
    """Times of one user and of many a request, and wrong campaigns a user."""
    ask.times = []
    for user in users[:300]:
        named([user])
    one = ask.median()
    wrong = 0
    for batch in chunks(users, BATCH):
        for user, found in zip(batch, named(batch)):
            wrong += len(set(found) - joined.get(user, set()))
            assert joined.get(user, set()) <= set(found), f"a campaign of {user} is missing"
    return one, ask.median() / BATCH, wrong / len(users)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=1_000)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("binary", nargs="?", default=BINARY)
    options = parser.parse_args()
    joined, lists = {}, [[] for _ in range(options.campaigns)]
    chance = random.Random(SEED)
    users = options.campaigns * options.users // JOINED
    for number in range(users):
        user = f"user-{number}"
        joined[user] = set(chance.sample(range(options.campaigns), JOINED))
        for campaign in joined[user]:
            lists[campaign].append(user)
    known = chance.sample(sorted(joined), 20_000)
    absent = [f"nobody-{number}" for number in range(20_000)]

    with tempfile.TemporaryDirectory() as directory:
        server = Server(options.binary, pathlib.Path(directory), "--max-filters", str(options.campaigns + 1))
        try:
            ask = Asker(server.port)
            ask.send("PUT", "/filters/joins", {"capacity": users, "value_bits": 16, "values_per_item": JOINED})
            pairs = [(user, campaign) for campaign, of in enumerate(lists) for user in of]
            chance.shuffle(pairs)
            for batch in chunks(pairs, 10_000):
                entries = [{"item": user, "value": campaign} for user, campaign in batch]
                ask.send("POST", "/filters/joins/values", {"entries": entries})
            cached = {"one filter": cache_bytes(server)}
            for campaign, of in enumerate(lists):
                create = {"capacity": options.users}
                ask.send("POST", f"/filters/c-{campaign:04}/items", {"items": of, "create": create})

            cached["lookup"] = cache_bytes(server) - cached["one filter"]

            def values(some):
                return ask.send("POST", "/filters/joins/values/query", {"items": some})["results"]

            def lookup(some):
                found = ask.send("POST", "/lookup", {"items": some, "prefix": "c-"})["results"]
                return [[int(key[2:]) for key in keys] for keys in found]

            for name, named in (("one filter", values), ("lookup", lookup)):
                for who, some in (("users who joined", known), ("absent users", absent)):
                    one, many, wrong = measure(ask, named, some, joined)
                    print(
                        f"{name}, {who}: {one:,.0f} us alone, {many:,.2f} us of {BATCH} a request, "
                        f"{wrong:.4f} wrong campaigns, {cached[name] / 2**20:.1f} MiB of pages and lists in memory",
                        flush=True,
                    )
        finally:
            server.stop()


if __name__ == "__main__":
    main()
