#!/usr/bin/env python3
"""Has clients of RedisBloom, in versions that are pinned, do what their users do:
with a plain server, and with one that asks for TLS and a key."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from served import BINARY, ROOT, Server, free_port  # noqa: E402

# Another version of a package that .venv has, in a directory of its own.
REDIS_5 = ROOT / ".venv/redis-5"

# Clients for Rust are a package of their own.
RUST = HERE / "rust/Cargo.toml"


def run(*words, **options):
    environment = dict(os.environ, **options.pop("variables", {}))
    ran = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=900, env=environment, **options,
    )
    if ran.returncode != 0:
        sys.exit(f"{words} failed:\n{ran.stdout}")
    return ran.stdout.strip()


def certificate(directory):
    """A certificate for this machine that signs itself."""
    run(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-addext", "basicConstraints=critical,CA:FALSE",
        "-keyout", directory / "key.pem", "-out", directory / "cert.pem",
    )
    return directory / "cert.pem", directory / "key.pem"


def use(port, *secured):
    print(run(sys.executable, HERE / "use_redis.py", port, *secured))
    older = {"PYTHONPATH": str(REDIS_5)}
    told = run(sys.executable, HERE / "use_redis.py", port, *secured, variables=older)
    assert "redis-py 5." in told, told
    print(told)
    print(run(sys.executable, HERE / "use_others.py", port, *secured))
    print(run("node", HERE / "use_redis.mjs", port, *secured))
    trusted = {"SSL_CERT_FILE": str(secured[0])} if secured else {}
    cargo = ("cargo", "run", "--quiet", "--locked", "--manifest-path", RUST, "--")
    print(run(*cargo, port, *secured, variables=trusted))
    print(run(sys.executable, HERE / "use_tools.py", port, *secured))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--binary", default=BINARY)
    asked = options.parse_args()
    started = time.monotonic()
    run("cargo", "build", "--quiet", "--locked", "--manifest-path", RUST)
    with tempfile.TemporaryDirectory() as directory:
        directory, port = pathlib.Path(directory), free_port()
        server = Server(asked.binary, directory, "--redis-listen", f"127.0.0.1:{port}")
        try:
            use(port)
        finally:
            server.process.kill()
    with tempfile.TemporaryDirectory() as directory:
        directory, port = pathlib.Path(directory), free_port()
        cert, cert_key = certificate(directory)
        keys = directory / "keys.json"
        key = run(asked.binary, "keys", "add", "app", "--keys-file", keys, "--scope", "admin").split()[-1]
        log = open(directory / "log", "wb")
        server = subprocess.Popen(
            [asked.binary, "serve", "--listen", f"127.0.0.1:{free_port()}", "--redis-listen", f"127.0.0.1:{port}",
             "--data-dir", directory / "data", "--keys-file", keys, "--tls-cert", cert, "--tls-key", cert_key],
            stdout=log, stderr=log,
        )
        try:
            for _ in range(600):
                if b'"serving"' in (directory / "log").read_bytes():
                    break
                time.sleep(0.1)
            use(port, cert, key)
        finally:
            server.kill()
    print(f"clients: those of RedisBloom work, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
