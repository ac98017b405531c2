"""A project that has the TypeScript client installed, as its users have it."""

import json
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent
PACKAGE = HERE.parent.parent / "clients/typescript"
TOOLS = HERE / "node_modules"

# What stands in a box of the README, and what it is.
SHOWN = re.compile(r"^(.+?); // → (.+)$", re.M)


def project(directory):
    """Installs the client and compiles what tests/clients/typescript has, and the
    examples of the README; returns that directory."""
    (directory / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
    run("npm", "install", "--no-audit", "--no-fund", "--offline", PACKAGE, at=directory)
    (directory / "node_modules/@types").symlink_to(TOOLS / "@types")
    (directory / "node_modules/undici-types").symlink_to(TOOLS / "undici-types")
    for source in (HERE / "typescript").iterdir():
        shutil.copy(source, directory)
    (directory / "readme.ts").write_text(examples())
    run(TOOLS / ".bin/tsc", "--project", ".", at=directory)
    return directory


def examples():
    """The boxes of the README as one program that compares what they show."""
    boxes = re.findall(r"^```ts\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)
    program, shown = SHOWN.subn(r"assert.deepEqual(\1, \2);", "".join(boxes))
    return f'import assert from "node:assert/strict";\n{program}console.log("{shown} values as shown");\n'


def run(*words, at, **options):
    ran = subprocess.run(words, cwd=at, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if ran.returncode != 0:
        raise AssertionError(f"{words[0]} failed:\n{ran.stdout}")
    return ran.stdout
