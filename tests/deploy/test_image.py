"""What the Dockerfile's last stage holds, proven without a registry: the same
files are put together as a root file system and started as the image would be,
as nobody in particular, in a root that can't be written.

The one thing assumed is the base image. Of it only the libraries are needed,
and those that it has are listed here."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import BINARY, PATIENCE, ROOT, Server, free_port, known_variables, rendered
from support import without_settings
from test_chart import ALLOWED, KEYED, container_of, environment, job_of, pod_of

# What gcr.io/distroless/cc has beside data: glibc, libgcc and libstdc++.
LIBRARIES_OF_BASE = {
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6"),
    *("libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2"),
    *("libgcc_s.so.1", "libstdc++.so.6"),
}
NOBODY = 65532


class Stage:
    """The instructions of the Dockerfile's last stage."""

    def __init__(self, text):
        lines = [it for it in text.splitlines() if not it.lstrip().startswith("#")]
        joined = "\n".join(lines).replace("\\\n", " ")
        before, _, last = joined.rpartition("\nFROM ")
        self.base, *instructions = last.splitlines()
        # What the build put into /image, which the last stage copies to /.
        self.installs = re.findall(r"install (?:-\S+ |\d+ )*[^&\n]*/image/\S+", before)
        self.by_name = {}
        for instruction in instructions:
            name, _, rest = instruction.strip().partition(" ")
            if name:
                self.by_name.setdefault(name, []).append(rest.strip())

    def one(self, name):
        (rest,) = self.by_name[name]
        return rest

    def environment(self):
        return dict(pair.split("=", 1) for line in self.by_name["ENV"] for pair in line.split())

    def command(self):
        """Entry point and its default arguments."""
        listed = [re.findall(r'"([^"]*)"', self.one(name)) for name in ("ENTRYPOINT", "CMD")]
        return listed[0], listed[1]

    def healthcheck(self):
        return re.findall(r'"([^"]*)"', self.one("HEALTHCHECK").partition("CMD")[2])


STAGE = Stage((ROOT / "Dockerfile").read_text())


def libraries(binary):
    """The shared libraries that a program needs: name to path on this machine."""
    said = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in said.splitlines():
        words = line.split()
        path = next((word for word in words if word.startswith("/")), None)
        if path is None:
            # The kernel's own is in no file.
            assert words[0].startswith("linux-vdso"), line
            continue
        found[Path(path).name] = Path(path)
    return found


def build_root(root):
    """Makes the image's files below `root`."""
    for line in STAGE.installs:
        words = [
            word.replace("/image/", f"{root}/").replace("target/release/cuckood", str(BINARY))
            for word in shlex.split(line)
        ]
        if os.geteuid() != 0:
            words = shlex.split(re.sub(r"-[og] \d+ ", "", shlex.join(words)))
        subprocess.run(words, check=True)
    for path in libraries(BINARY).values():
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for directory in ("proc", "dev", "tmp", "etc"):
        (root / directory).mkdir(exist_ok=True)
    (root / "secrets/keys").mkdir(parents=True)
    # The cluster's names come from its own server; these are the services'.
    (root / "etc/hosts").write_text("127.0.0.1 cuckood cuckood-headless\n")


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.desk = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.desk.cleanup)
        cls.root = Path(cls.desk.name) / "root"
        build_root(cls.root)

    def setUp(self):
        # A volume starts as a copy of the directory that it is mounted on.
        self.volume = Path(self.desk.name) / self.id()
        # Inside, files of the user who runs this have no owner.
        shutil.copytree(self.root / "data", self.volume)
        self.backups = Path(self.desk.name) / f"{self.id()} backups"
        shutil.copytree(self.root / "backups", self.backups)
        # What a cluster would mount, by directory below /secrets.
        self.secrets = {}

    def inside(self, command, environment=None):
        """The command line that runs this in the image: all of the image's own
        settings, and these."""
        uid, gid = STAGE.one("USER").split(":")
        told = {**STAGE.environment(), **(environment or {})}
        line = ["bwrap", "--unshare-all", "--share-net", "--die-with-parent", "--clearenv"]
        # As in a container, the program is the first process.
        line += ["--as-pid-1"]
        line += ["--uid", uid, "--gid", gid, "--cap-drop", "ALL"]
        line += ["--ro-bind", str(self.root), "/", "--bind", str(self.volume), "/data"]
        line += ["--bind", str(self.backups), "/backups"]
        line += ["--proc", "/proc", "--dev", "/dev"]
        for name, directory in self.secrets.items():
            line += ["--ro-bind", str(directory), f"/secrets/{name}"]
        for name, value in told.items():
            line += ["--setenv", name, value]
        return [*line, "--", *command]

    def run_inside(self, command, environment=None):
        return subprocess.run(
            self.inside(command, environment),
            capture_output=True,
            text=True,
            timeout=60,
            env=without_settings(),
        )

    def serve(self, environment):
        """Runs the image's own command on a port of its own."""
        entry, arguments = STAGE.command()
        return ServerInImage(self, [*entry, *arguments], environment)

    def test_the_binary_needs_no_library_that_the_base_image_lacks(self):
        self.assertTrue(STAGE.base.startswith("gcr.io/distroless/cc-debian12"))
        needed = set(libraries(BINARY))
        self.assertIn("libc.so.6", needed)
        self.assertEqual(needed - LIBRARIES_OF_BASE, set())

    def test_it_holds_the_binary_and_its_two_directories_and_no_shell(self):
        programs = [p for p in (self.root / "usr").rglob("*") if p.is_file()]
        own = [p for p in programs if ".so" not in p.name]
        self.assertEqual([p.name for p in own], ["cuckood"])
        self.assertNotEqual(self.run_inside(["/bin/sh", "-c", "true"]).returncode, 0)
        for name in ("data", "backups"):
            directory = (self.root / name).stat()
            self.assertEqual(directory.st_mode & 0o777, 0o700)
            if os.geteuid() == 0:
                self.assertEqual((directory.st_uid, directory.st_gid), (NOBODY, NOBODY))

    def test_nobody_runs_it(self):
        self.assertEqual(STAGE.one("USER"), f"{NOBODY}:{NOBODY}")

    def test_the_server_knows_every_variable(self):
        self.assertLessEqual(set(STAGE.environment()), known_variables())

    def test_without_a_word_about_access_it_ends_with_one_line_that_says_why(self):
        entry, arguments = STAGE.command()
        ended = self.run_inside([*entry, *arguments])
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertEqual(ended.stdout, "")
        self.assertRegex(ended.stderr, r"^cuckood: --listen 0\.0\.0\.0:\d+ .*--allow-anonymous\n$")
        self.assertEqual(list(self.volume.iterdir()), [])

    def test_it_can_write_nowhere_but_into_its_volume(self):
        environment = {"CUCKOOD_ALLOW_ANONYMOUS": "true", "CUCKOOD_DATA_DIR": "/tmp/data"}
        entry, arguments = STAGE.command()
        ended = self.run_inside([*entry, *arguments], environment)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("/tmp/data", ended.stderr)
        self.assertIn("Read-only file system", ended.stderr)

    def test_it_serves_stops_cleanly_and_keeps_what_it_was_given(self):
        # What many file systems put at their root, for root alone.
        (self.volume / "lost+found").mkdir(mode=0o000)
        environment = {"CUCKOOD_ALLOW_ANONYMOUS": "true"}
        with self.serve(environment) as server:
            self.assertEqual(server.ask("PUT", "/filters/seen", {"capacity": 1000})[0], 201)
            self.assertEqual(server.ask("POST", "/filters/seen/items", {"items": ["one"]})[0], 200)
            self.assertEqual(server.health(), 0)
            self.assertEqual(server.stop(), 0)
            self.assertEqual(server.health(), 1)
        with self.serve(environment) as server:
            self.assertIn("true", server.ask("GET", "/filters/seen/exists?item=one")[1])
            self.assertEqual(server.stop(), 0)

    def test_it_serves_with_the_settings_of_the_chart(self):
        documents = rendered(ALLOWED)
        arguments = container_of(documents)["args"]
        self.assertEqual(arguments, STAGE.command()[1])
        with self.serve(environment(documents)) as server:
            self.assertEqual(server.ask("GET", "/livez")[0], 200)
            self.assertEqual(server.ask("GET", "/filters")[0], 200)
            self.assertEqual(server.stop(), 0)

    def test_it_serves_those_who_have_keys_with_the_settings_of_the_chart(self):
        file = Path(self.desk.name) / f"{self.id()} keys" / "keys.json"
        file.parent.mkdir()
        add = [BINARY, "keys", "add", "job", "--scope=admin", "--keys-file", file]
        made = subprocess.run(add, capture_output=True, text=True, check=True)
        # As a Secret is for the group of the pod.
        file.chmod(0o444)
        self.secrets["keys"] = file.parent
        values = [KEYED, "backup.enabled=true", "access.backupKey.secret=job"]
        documents = rendered(*values, "drain.delaySeconds=0")
        entry, _ = STAGE.command()
        with self.serve(environment(documents)) as server:
            self.assertEqual(server.ask("GET", "/filters")[0], 401)
            self.assertEqual(server.health(), 0)
            (job,) = job_of(documents)["spec"]["containers"]
            here = [a.replace(":9090", f":{server.operations}") for a in job["args"]]
            refused = self.run_inside([*entry, *here])
            self.assertEqual(refused.returncode, 1)
            self.assertIn("401", refused.stderr)
            (variable,) = (it["name"] for it in job["env"])
            asked = self.run_inside([*entry, *here], {variable: made.stdout.strip()})
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertEqual(server.stop(), 0)

    def test_the_charts_job_makes_a_backup_and_its_restore_fills_an_empty_volume(self):
        values = [ALLOWED, "backup.enabled=true", "drain.delaySeconds=0"]
        documents = rendered(*values)
        entry, _ = STAGE.command()
        (self.backups / "lost+found").mkdir(mode=0o000)
        with self.serve(environment(documents)) as server:
            server.ask("PUT", "/filters/seen", {"capacity": 1000})
            server.ask("POST", "/filters/seen/items", {"items": ["one"]})
            (job,) = job_of(documents)["spec"]["containers"]
            here = [a.replace(":9090", f":{server.operations}") for a in job["args"]]
            asked = self.run_inside([*entry, *here])
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertEqual(server.stop(), 0)
        name = f"cuckood-{asked.stdout.split()[1]}.tar"
        shutil.rmtree(self.volume / "cuckood")
        (self.volume / "lost+found").mkdir(mode=0o000)
        # What a restore that was killed has left.
        (self.volume / "cuckood.restoring-1").mkdir()

        documents = rendered(*values, f"restore.backup={name}")
        (init,) = pod_of(documents)["spec"]["initContainers"]
        for said in ("restored", "kept"):
            done = self.run_inside([*entry, *init["args"]])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(said), done.stdout)
        with self.serve(environment(documents)) as server:
            self.assertIn("true", server.ask("GET", "/filters/seen/exists?item=one")[1])


class ServerInImage(Server):
    """The image's server, on a free port of all addresses."""

    def __init__(self, image, command, told):
        self.image = image
        self.told = told
        self.operations = free_port()
        super().__init__(command=lambda port: image.inside(command, self.settings(port)))

    def settings(self, port):
        listen = {**STAGE.environment(), **self.told}["CUCKOOD_LISTEN"]
        own = {"CUCKOOD_LISTEN": f"{listen.rpartition(':')[0]}:{port}"}
        operations = self.told.get("CUCKOOD_ADMIN_LISTEN")
        if operations:
            host = operations.rpartition(":")[0]
            own["CUCKOOD_ADMIN_LISTEN"] = f"{host}:{self.operations}"
        return {**self.told, **own}

    def stop(self):
        # The signal is for the server, not for what holds its namespaces.
        holder = self.process.pid
        (child,) = Path(f"/proc/{holder}/task/{holder}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def health(self):
        """Exit code of the image's health check."""
        return self.image.run_inside(STAGE.healthcheck(), self.settings(self.port)).returncode


if __name__ == "__main__":
    unittest.main()
