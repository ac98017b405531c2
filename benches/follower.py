#!/usr/bin/env python3
"""A follower that was away catches up, in turns with a cache for all pages and with one
for a quarter of them: items that it applies a second, and what it writes to its disk.

    benches/follower.py target/release/cuckood .venv/bin/nats-server 30000000
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from new_pod import free_port, metric, start_broker, text, wait

ROUNDS = 3
LANES = 1


def main(cuckood, nats_server, items):
    folder = Path(tempfile.mkdtemp(prefix="follower-"))
    broker, _, flags = start_broker(nats_server, folder)
    running = {"broker": broker}

    def pod(name, cache):
        address = f"http://127.0.0.1:{free_port()}"
        running[name] = subprocess.Popen(
            [cuckood, "serve", *flags, f"--listen={address.removeprefix('http://')}", f"--advertise={address}"]
            + [f"--data-dir={folder / name}", f"--cache-bytes={cache}", f"--log-keep-bytes={8 << 30}"],
            stderr=open(folder / f"{name}.log", "a"),
            stdout=subprocess.DEVNULL,
        )
        return address

    def catches_up(cache):
        started = time.monotonic()
        address = pod("b", cache)
        wait("the follower is ready", lambda: text(f"{address}/readyz") == "ok\n")
        return address, time.monotonic() - started

    def stop(name):
        running[name].send_signal(signal.SIGTERM)
        running.pop(name).wait()

    added = 0

    def add(count):
        nonlocal added
        listed = folder / "items"
        with listed.open("w") as out:
            out.writelines(f"{it}\n" for it in range(added, added + count))
        subprocess.run([cuckood, "load", f"--server={leader}", "--filter=all", listed], check=True)
        added += count

    try:
        time.sleep(1)
        subprocess.run([cuckood, "cluster", "found", *flags, f"--lanes={LANES}", "--copies=1"], check=True)
        more = items // 30
        everything = 1 << 30
        leader = pod("a", everything)
        wait("the leader is ready", lambda: text(f"{leader}/readyz") == "ok\n", 60)
        subprocess.run(
            [cuckood, "filter", "create", f"--server={leader.removeprefix('http://')}", "all"]
            + [f"capacity={items + 2 * ROUNDS * more}", "fingerprint_bits=32", "expansion=0"],
            check=True,
        )
        address, _ = catches_up(everything)
        add(items)
        wait("the follower has all", lambda: json.loads(text(f"{address}/filters/all"))["items"] == added)
        quarter = json.loads(text(f"{leader}/filters/all"))["slot_bytes"] // 4
        print(f"{items} items in {4 * quarter >> 20} MiB; {more} more each time", flush=True)
        for _ in range(ROUNDS):
            for what, cache in [("for all", everything), ("for a quarter", quarter)]:
                stop("b")
                # What a start takes by itself.
                _, alone = catches_up(cache)
                stop("b")
                add(more)
                address, took = catches_up(cache)
                written = Path(f"/proc/{running['b'].pid}/io").read_text()
                written = int(written.split("\nwrite_bytes: ")[1].split("\n")[0])
                print(
                    f"cache {what}: {more / (took - alone):.0f} items a second, {took:.1f} s of it {alone:.1f} s to start,"
                    f" {written / more:.0f} bytes written an item,"
                    f" {metric(address, 'cuckood_folded_pages_total'):.0f} pages folded,"
                    f" {metric(address, 'cuckood_parked_bytes') / 1024:.0f} KiB parked",
                    flush=True,
                )
                assert json.loads(text(f"{address}/filters/all"))["items"] == added
    finally:
        for process in reversed(running.values()):
            process.terminate()
        for process in running.values():
            process.wait()
        subprocess.run(["rm", "-r", folder], check=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
