"""A project that has the TypeScript client installed, as its users have it."""

import atexit
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
PACKAGE = HERE.parent.parent / "clients/typescript"
TOOLS = HERE / "node_modules"

PAGES = {"readme": PACKAGE / "README.md", "clients": PACKAGE.parent.parent / "docs/clients.md"}

# What stands in a box of a page, and what it is.
SHOWN = re.compile(r"^(.+?); // → (.+)$", re.M)


def project(directory):
    """Installs the client and compiles what tests/clients/typescript has, and the
    examples of the pages; returns that directory."""
    (directory / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
    run("npm", "install", "--no-audit", "--no-fund", "--offline", packed(), at=directory)
    (directory / "node_modules/@types").symlink_to(TOOLS / "@types")
    (directory / "node_modules/undici-types").symlink_to(TOOLS / "undici-types")
    for source in (HERE / "typescript").iterdir():
        shutil.copy(source, directory)
    for name, page in PAGES.items():
        (directory / f"{name}.ts").write_text(examples(page))
        (directory / f"{name}_typed.ts").write_text(typed(page))
    run(TOOLS / ".bin/tsc", "--project", ".", at=directory)
    return directory


@functools.cache
def packed():
    """Builds the package as `npm publish` would; `prepare` compiles it."""
    out = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, out)
    environment = os.environ | {"PATH": f"{TOOLS / '.bin'}:{os.environ['PATH']}"}
    run("npm", "pack", "--offline", "--pack-destination", out, at=PACKAGE, env=environment)
    return next(pathlib.Path(out).glob("*.tgz"))


def examples(page):
    """The boxes of a page as one program that compares what they show."""
    program, shown = SHOWN.subn(r"assert.deepEqual(\1, \2);", boxes(page, "ts"))
    return f'import assert from "node:assert/strict";\n{program}console.log("{shown} values as shown");\n'


def typed(page):
    """The boxes of a page whose types are compared alone: they need what is not there."""
    return 'import { Client } from "cuckood";\ndeclare const client: Client;\n' + boxes(page, "typescript")


def boxes(page, language):
    return "".join(re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S))


def run(*words, at, **options):
    ran = subprocess.run(words, cwd=at, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if ran.returncode != 0:
        raise AssertionError(f"{words[0]} failed:\n{ran.stdout}")
    return ran.stdout
