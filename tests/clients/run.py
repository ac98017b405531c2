#!/usr/bin/env python3
"""Generates a Python and a TypeScript client from openapi/openapi.json, compiles
both, and has each of them do the same things with a running server."""

import argparse
import compileall
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from served import BINARY, ROOT, Server  # noqa: E402

# What the Python generator has no words for. It leaves them out.
LEFT_OUT = ("text/plain", "application/x-ndjson", "application/vnd.redisbloom.scandump")
KNOWN = {f"Unsupported content type {media_type}" for media_type in LEFT_OUT}
DOCUMENT = ROOT / "openapi/openapi.json"


def command(*words, **options):
    ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if ran.returncode != 0:
        sys.exit(f"{words[0]} failed:\n{ran.stdout}")
    return ran.stdout


def python(directory, url):
    tools = pathlib.Path(sys.executable).parent
    said = command(
        tools / "openapi-python-client", "generate", "--path", DOCUMENT, "--meta", "none",
        "--config", HERE / "openapi-python-client.yaml", "--output-path", directory / "cuckood_client",
        env={"PATH": f"{tools}:/usr/bin:/bin"},
    )
    complaints = set(re.findall(r"^(?:Unsupported|Cannot|ERROR|Error) .*", said, re.M))
    if complaints - KNOWN:
        sys.exit(f"the Python generator complains:\n{said}")
    if not compileall.compile_dir(directory / "cuckood_client", quiet=1):
        sys.exit("the Python client does not compile")
    print(command(sys.executable, HERE / "use_client.py", url, env={"PYTHONPATH": str(directory)}), end="")


def typescript(directory, url):
    for name in ("package.json", "tsconfig.json", "use_client.ts"):
        shutil.copy(HERE / name, directory)
    (directory / "node_modules").symlink_to(HERE / "node_modules")
    run = lambda program, *words: command(directory / "node_modules/.bin" / program, *words, cwd=directory)
    run("openapi-ts", "--input", DOCUMENT, "--output", "client")
    run("tsc", "--project", ".")
    print(command("node", "built/use_client.js", url, cwd=directory), end="")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--binary", default=BINARY)
    asked = options.parse_args()
    for use in (python, typescript):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            (directory / "generated").mkdir()
            server = Server(asked.binary, directory)
            try:
                use(directory / "generated", server.url(""))
            finally:
                server.process.kill()
        print(f"clients: {use.__name__} compiles and works, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
