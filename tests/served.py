"""A server for tests that are not written in Rust."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).parent.parent
BINARY = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/cuckood"


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """The binary that was built, on a port and in a directory of its own."""

    def __init__(self, binary, directory, *flags, key=None, port=None):
        """`key` is an API key that one of the flags lets in; `port` that of a
        server that ran before."""
        self.key = key
        self.port = port or free_port()
        self.log = directory / "log"
        command = [binary, "serve", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--data-dir", directory / "data", *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CUCKOOD_")}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        for _ in range(600):
            try:
                self.ask("GET", "/readyz")
                return
            except OSError:
                time.sleep(0.1)
                if self.process.poll() is not None:
                    break
        sys.exit(f"the server did not start:\n{self.log.read_text()}")

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def ask(self, method, path, body=None, media_type="application/json"):
        request = urllib.request.Request(self.url(path), data=body, method=method)
        request.add_header("content-type", media_type)
        if self.key:
            request.add_header("authorization", f"Bearer {self.key}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def memory(self, field):
        """Mebibytes that the kernel says."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M)[1]) // 1024

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)
