"""What the checks of the deployment share: where things are, the tools that
`.ci/setup test` installs, and the real server as a process."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/cuckood"
ALERTS = CHART / "files/alerts.yaml"
DASHBOARD = CHART / "files/dashboard.json"
TOOLS = ROOT / ".venv/bin"
BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/cuckood"

# Seconds for a server to be ready, or to stop.
PATIENCE = 60


def tool(name, *arguments, check=True, **more):
    """Runs one of the tools; returns the finished process."""
    done = subprocess.run(
        [TOOLS / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **more,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{name} {arguments}:\n{done.stdout}{done.stderr}")
    return done


def without_settings():
    """The environment less what would tell a server something."""
    return {k: v for k, v in os.environ.items() if not k.startswith("CUCKOOD_")}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def known_variables():
    """Every environment variable that the server reads."""
    said = subprocess.run(
        [BINARY, "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    return set(re.findall(r"\[env: (CUCKOOD_[A-Z_]+)", said))


def anchors(page):
    """What a link can point to in a Markdown page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", it.lower()).replace(" ", "-") for it in headings}


class Server:
    """A running server. Use it in a `with`. By default it is the binary with
    these flags; `command` makes another command line from a port."""

    def __init__(self, *flags, command=None):
        self.port = free_port()
        self.home = tempfile.TemporaryDirectory()
        self.log = Path(self.home.name) / "log"
        line = command(self.port) if command else [
            *(BINARY, "serve", "--listen", f"127.0.0.1:{self.port}"),
            *("--data-dir", Path(self.home.name) / "data", *flags),
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                list(map(str, line)),
                stdout=log,
                stderr=subprocess.STDOUT,
                env=without_settings(),
            )

    def __enter__(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended:\n{self.log.read_text()}")
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.02)
        self.close()
        raise AssertionError(f"the server is not ready:\n{self.log.read_text()}")

    def __exit__(self, *_):
        self.close()

    def ask(self, method, path, body=None, content_type="application/json", host=None):
        """Returns status and text. `host` is the name to call the server by."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"content-type": content_type} if body is not None else {}
        if host is not None:
            headers["host"] = host
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def stop(self):
        """Asks it to stop; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.home.cleanup()


def rendered(*values, name="cuckood", chart=CHART, check=True):
    """The chart's objects with these `--set` values; with `check=False` the
    finished process, for values that are refused."""
    sets = [f"--set={value}" for value in values]
    done = tool("helm", "template", name, chart, *sets, check=check)
    if not check:
        return done
    return [it for it in yaml.safe_load_all(done.stdout) if it]


def copied_chart(directory):
    """A copy of the chart that a test may break."""
    return Path(shutil.copytree(CHART, Path(directory) / "cuckood"))
