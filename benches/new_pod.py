#!/usr/bin/env python3
"""A new pod with many items elsewhere, whose records the log no longer has: how long
it takes until it is ready, what is moved, and what questions to the pod that gives it
all take meanwhile.

    benches/new_pod.py target/release/cuckood .venv/bin/nats-server 10000000
"""

import http.client
import json
import math
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

KEEP = 4 << 20
QUESTIONS_A_SECOND = 500
LANES = 4


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def text(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def wait(what, is_so, seconds=3600):
    started = time.monotonic()
    while not is_so():
        if time.monotonic() - started > seconds:
            sys.exit(f"waited for in vain: {what}")
        time.sleep(0.05)
    return time.monotonic() - started


def metric(address, name):
    for line in text(f"{address}/metrics").splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[-1])
    return 0.0


class Questions(threading.Thread):
    """Asks for an item at a fixed rate; notes when each was due and how long it took."""

    def __init__(self, address, items):
        super().__init__(daemon=True)
        self.host, self.items, self.took, self.is_over = address.removeprefix("http://"), items, [], False

    def run(self):
        connection = http.client.HTTPConnection(self.host, timeout=30)
        due = time.monotonic()
        while not self.is_over:
            due += 1 / QUESTIONS_A_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            connection.request("GET", f"/filters/all/exists?item={random.randrange(self.items)}")
            connection.getresponse().read()
            # From when it was due: one that waits behind another one counts.
            self.took.append((due, time.monotonic() - due))

    def percentiles(self, since, until):
        took = sorted(it for due, it in self.took if since <= due < until)
        if not took:
            return "no questions"
        at = [took[min(len(took) - 1, math.ceil(len(took) * q) - 1)] for q in (0.5, 0.99, 0.999)]
        return "p50 {:.2f} ms, p99 {:.2f} ms, p99.9 {:.2f} ms".format(*(1000 * it for it in at)) + f" of {len(took)}"


def start_broker(nats_server, folder):
    """Returns its process, its monitor's address, and the flags of pods that use it."""
    client, monitor = free_port(), f"http://127.0.0.1:{free_port()}"
    (folder / "nats.conf").write_text(
        f"listen: 127.0.0.1:{client}\nhttp: {monitor.removeprefix('http://')}\n"
        f"jetstream {{ store_dir: \"{folder}/nats\", sync_interval: always, max_file_store: 20GB }}\n"
    )
    broker = subprocess.Popen([nats_server, "--config", folder / "nats.conf"], stderr=subprocess.DEVNULL)
    return broker, monitor, [f"--log=nats://127.0.0.1:{client}", f"--log-monitor={monitor}", "--cluster=shop"]


def main(cuckood, nats_server, items):
    folder = Path(tempfile.mkdtemp(prefix="new-pod-"))
    broker, monitor, flags = start_broker(nats_server, folder)
    running = [broker]

    def pod(name):
        address = f"http://127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [cuckood, "serve", *flags, f"--listen={address.removeprefix('http://')}", f"--advertise={address}"]
            + [f"--data-dir={folder / name}", "--cache-bytes=512MiB", f"--log-keep-bytes={KEEP}"],
            stderr=open(folder / f"{name}.log", "w"),
            stdout=subprocess.DEVNULL,
        )
        running.append(process)
        return address

    try:
        time.sleep(1)
        subprocess.run([cuckood, "cluster", "found", *flags, f"--lanes={LANES}", "--copies=1"], check=True)
        pods = [pod("a"), pod("b")]
        for address in pods:
            wait("a pod is ready", lambda: text(f"{address}/readyz") == "ok\n", 60)
        host = pods[0].removeprefix("http://")
        subprocess.run([cuckood, "filter", "create", f"--server={host}", "all", f"capacity={items}"], check=True)
        listed = folder / "items"
        with listed.open("w") as out:
            out.writelines(f"{it}\n" for it in range(items))
        started = time.monotonic()
        subprocess.run([cuckood, "load", f"--server={pods[0]}", "--filter=all", listed], check=True)
        print(f"loaded {items} items in {time.monotonic() - started:.1f} s", flush=True)
        listed.unlink()
        log = f"{monitor}/jsz?streams=1&accounts=1"

        def log_bytes():
            found = json.loads(text(log) or "{}").get("account_details", [])
            streams = [it for account in found for it in account.get("stream_detail", [])]
            return sum(it["state"]["bytes"] for it in streams if it["name"].startswith("CUCKOOD_"))

        print(f"the log has {log_bytes()} bytes", flush=True)
        trimmed = wait("the log is trimmed", lambda: log_bytes() <= KEEP + KEEP // 8)
        print(f"it has {log_bytes()} bytes {trimmed:.1f} s later", flush=True)
        # The new pod asks the one behind its own address first: either may give.
        askers = [Questions(address, items) for address in pods]
        for asker in askers:
            asker.start()
        time.sleep(15)
        started = time.monotonic()
        new = pod("c")
        ready = wait("the new pod is ready", lambda: text(f"{new}/readyz") == "ok\n")
        until = time.monotonic()
        for asker in askers:
            asker.is_over = True
        moved = metric(new, 'cuckood_snapshot_bytes_total{direction="taken"}')
        print(f"ready after {ready:.1f} s, {moved:.0f} bytes moved, {moved / items:.2f} an item")
        for asker, address in zip(askers, pods):
            gave = metric(address, 'cuckood_snapshot_bytes_total{direction="given"}') > 0
            print(f"{'the pod that gave' if gave else 'the other pod'}:")
            print(f"  before: {asker.percentiles(started - 10, started)}")
            print(f"  meanwhile: {asker.percentiles(started, until)}")
        counted = [json.loads(text(f"{address}/filters/all"))["items"] for address in (*pods, new)]
        assert counted == [items] * 3, counted
        print((folder / "c.log").read_text())
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()
        subprocess.run(["rm", "-r", folder], check=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
