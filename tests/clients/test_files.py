"""The readers of filters' files, in Python and in TypeScript: they answer as the server of
which the files are, and refuse whatever is no such file."""

import contextlib
import datetime
import hashlib
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "clients/python/src")]

import cuckood  # noqa: E402
from served import BINARY, Server  # noqa: E402
from typescript_project import project  # noqa: E402

# Items that are asked for, of each shape; more by hand.
ASKED = int(os.environ.get("CUCKOOD_FILE_ITEMS", "1500"))
# Changes beside which files are made.
CHANGES = int(os.environ.get("CUCKOOD_FILE_CHANGES", "50000"))
SEED = 20261124

# What a filter is made with, how many items it gets, and how many are deleted again.
SHAPES = {
    "12 bits": ({"capacity": 20_000, "error_rate": 0.03, "promised_growth": 1}, 15_000, 0),
    "16 bits": ({"capacity": 20_000, "error_rate": 0.001, "promised_growth": 1}, 15_000, 0),
    "21 bits": ({"capacity": 20_000, "error_rate": 0.0001, "promised_growth": 1}, 15_000, 0),
    "32 bits": ({"capacity": 20_000, "error_rate": 0.000001, "promised_growth": 1}, 15_000, 0),
    "12 bits, grown": ({"capacity": 2000, "error_rate": 0.1, "promised_growth": 16}, 25_000, 0),
    "16 bits, grown": ({"capacity": 1000, "error_rate": 0.01, "promised_growth": 64}, 25_000, 0),
    "21 bits, grown": ({"fingerprint_bits": 21, "capacity": 1000}, 30_000, 0),
    "32 bits, grown": ({"capacity": 500, "error_rate": 0.000001}, 15_000, 0),
    "within a level": ({"capacity": 2000, "error_rate": 0.1, "promised_growth": 16}, 36_000, 0),
    "without a path": ({"capacity": 200, "error_rate": 0.1, "promised_growth": 1}, 60_000, 0),
    "shrunk": ({"capacity": 1000, "error_rate": 0.01}, 30_000, 21_000),
    "classic": ({"layout": "classic", "capacity": 2000}, 20_000, 2000),
    "buckets of 3": ({"layout": "classic", "capacity": 5000, "bucket_size": 3}, 25_000, 0),
    "4 bits of values": ({"capacity": 2000, "value_bits": 4, "values_per_item": 3, "error_rate": 0.01}, 6000, 0),
    "12 bits of values": ({"capacity": 3000, "value_bits": 12, "values_per_item": 4}, 4000, 1000),
    "rows": ({"capacity": 3000, "attributes": [{"name": "plan", "values": ["free", "pro"]}, {"name": "tag", "hash_bits": 6}]}, 6000, 0),
    "window": ({"capacity": 20_000, "window_seconds": 400, "window_resolution_seconds": 20}, 15_000, 0),
}
WINDOWS = (None, 25, 390)


def fill(filter, shape, chance):
    """Fills a filter; returns items that are there, and some of which there is more than one."""
    create, count, gone = SHAPES[shape]
    filter.create(**create)
    items = [f"item-{number}-{number * 2654435761 & 0xffffff:x}" for number in range(count)]
    if "value_bits" in create:
        entries = [(it, chance.randrange(1 << create["value_bits"])) for it in items for _ in range(chance.randint(1, 4))]
        chance.shuffle(entries)
        filter.add_values(entries)
        filter.delete_values(entries[:gone])
    elif "attributes" in create:
        row = lambda: {"plan": chance.choice(["free", "pro"]), "tag": f"t{chance.randrange(99)}"}
        filter.add_values([(it, row()) for it in items for _ in range(2)])
    else:
        filter.add_many(items)
        if "window" != shape:
            filter.add_many(chance.choices(items[gone:], k=500) + [items[-1]] * 500)
        if gone:
            filter.delete_many(items[:gone])
    return items[gone:]


class Files(unittest.TestCase):
    """Files of every shape, with what the server answers."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        # A compaction would change what is there between a dump and a question.
        cls.server = Server(BINARY, cls.directory, "--compaction-threshold", "0")
        cls.addClassCleanup(cls.server.process.wait)
        cls.addClassCleanup(cls.server.process.kill)
        cls.client = cls.enterClassContext(cuckood.Client(cls.server.url("")))
        cls.chance = random.Random(SEED)
        cls.cases = {shape: cls.case(shape) for shape in SHAPES}

    @classmethod
    def case(cls, shape):
        filter = cls.client.filter(shape.replace(" ", "-").replace(",", ""))
        there = fill(filter, shape, cls.chance)
        asked = [*cls.chance.choices(there, k=ASKED), there[-1]]
        asked += [f"absent-{cls.chance.getrandbits(60)}" for _ in range(ASKED)]
        asked += ["", "é" * 40, "7", "x" * 3000]
        path = cls.directory / f"{filter.key}.cuckoo"
        with filter.dump() as pieces:
            path.write_bytes(b"".join(pieces))
        case = {"path": str(path), "items": asked, "there": ASKED + 1}
        if shape == "window":
            case["windows"] = [cls.within(filter, asked, seconds) for seconds in WINDOWS]
            return case
        case |= {"exists": filter.exists_many(asked), "counts": filter.count_many(asked)}
        if "value_bits" in SHAPES[shape][0]:
            case["values"] = filter.values_many(asked)
        return case

    @staticmethod
    def of_one_epoch(ask):
        """What is answered, all of the same epoch, and when."""
        while True:
            now = time.time()
            answers = ask()
            if now // 20 == time.time() // 20:
                return now, answers

    @classmethod
    def within(cls, filter, asked, seconds):
        now, answers = cls.of_one_epoch(lambda: filter.exists_many(asked, within_seconds=seconds))
        return {"now": now, "seconds": seconds, "exists": answers}

    def test_python_answers_as_the_server_does(self):
        for shape, case in self.cases.items():
            with self.subTest(shape), cuckood.FilterFile(case["path"]) as file:
                file.verify()
                items = case["items"]
                for it in case.get("windows", ()):
                    self.assertEqual(file.exists_many(items, within_seconds=it["seconds"], now=it["now"]), it["exists"])
                if "exists" in case:
                    began = time.monotonic()
                    self.assertEqual(file.exists_many(items), case["exists"])
                    took = time.monotonic() - began
                    self.assertEqual(file.count_many(items), case["counts"])
                    wrong = sum(case["exists"][case["there"] :])
                    print(f"{shape}: {wrong} wrong yes of {ASKED}, {len(items) / took:.0f}/s in Python (seed {SEED})")
                if "values" in case:
                    self.assertEqual(file.values_many(items), case["values"])

    def test_the_command_answers_as_the_server_does(self):
        for shape, case in self.cases.items():
            items = [it for it in case["items"] if it]
            asked = "\n".join(items).encode()

            def said(action, *flags):
                command = [BINARY, "filter", action, "--json", *flags, "--file", case["path"]]
                ran = subprocess.run(command, input=asked, stdout=subprocess.PIPE, check=False)
                lines = [json.loads(line) for line in ran.stdout.splitlines()]
                self.assertEqual([it["item"] for it in lines], items)
                return [next(value for name, value in it.items() if name != "item") for it in lines]

            def told(answers):
                return [answer for it, answer in zip(case["items"], answers, strict=True) if it]

            with self.subTest(shape):
                for action, answers in (("exists", "exists"), ("count", "counts"), ("values", "values")):
                    if answers in case:
                        self.assertEqual(said(action), told(case[answers]))
                # The command asks as of now.
                for seconds in WINDOWS if "windows" in case else ():
                    flags = [f"--within-seconds={seconds}"] if seconds else []
                    server = self.client.filter("window")
                    ask = lambda: (said("exists", *flags), server.exists_many(case["items"], within_seconds=seconds))
                    found, answers = self.of_one_epoch(ask)[1]
                    self.assertEqual(found, told(answers))

    def test_files_of_a_filter_that_changes_have_what_was_there_when_they_were_begun(self):
        filter = self.client.filter("changing")
        filter.create(capacity=100_000)
        added, over, dumps = [0], threading.Event(), 0

        def change():
            while not over.is_set():
                filter.add_many(f"new-{number}" for number in range(added[0], added[0] + 1000))
                added[0] += 1000

        adding = threading.Thread(target=change)
        began = time.monotonic()
        adding.start()
        path = self.directory / "changing.cuckoo"
        try:
            while added[0] < CHANGES or dumps < 3:
                before = added[0]
                with filter.dump() as pieces:
                    content = b"".join(pieces)
                # What is added while it is asked for may be in it.
                after = added[0] + 1000
                path.write_bytes(content)
                with cuckood.FilterFile(path) as file:
                    file.verify()
                    items = file.describe().items
                    self.assertTrue(before <= items <= after, (before, items, after))
                    there = [f"new-{number}" for number in self.chance.choices(range(before), k=500)] if before else []
                    there += [f"new-{number}" for number in range(max(0, items - 1000), items)]
                    self.assertTrue(all(file.exists_many(there)))
                    absent = sum(file.exists_many(f"new-{number}" for number in range(after, after + 1000)))
                    self.assertLess(absent, 30)
                dumps += 1
        finally:
            over.set()
            adding.join()
        rate = added[0] / (time.monotonic() - began)
        print(f"{dumps} files verified beside {added[0]} changes, {60 * rate:.0f} a minute (seed {SEED})")

    def test_a_file_says_what_its_filter_is(self):
        for shape, case in self.cases.items():
            with self.subTest(shape), cuckood.FilterFile(case["path"]) as file:
                filter = self.client.filter(pathlib.Path(case["path"]).stem)
                it, info = file.describe(), filter.info()
                self.assertEqual((it.items, it.layout), (info.items, info.layout))
                if shape != "rows":
                    self.assertEqual(it.value_bits, info.value_bits or 0)
                self.assertEqual(it.window_seconds, info.window_seconds)
                self.assertEqual(it.file_bytes, os.path.getsize(case["path"]))
                self.assertEqual(it.has_attributes, shape == "rows")
                with filter.dump_unless(file.etag) as dump:
                    self.assertIsNone(dump)
                with filter.dump_unless('"another"') as dump:
                    self.assertEqual(dump[0], file.etag)
                    self.assertEqual(b"".join(dump[1]), pathlib.Path(case["path"]).read_bytes())

    def test_without_its_key_a_file_answers_who_has_it(self):
        for shape in ("16 bits, grown", "12 bits of values", "window"):
            case = self.cases[shape]
            filter = self.client.filter(pathlib.Path(case["path"]).stem)
            key = pathlib.Path(case["path"]).read_bytes()[96:112]
            path = self.directory / "bare.cuckoo"
            with filter.dump(without_key=True) as pieces:
                path.write_bytes(b"".join(pieces))
            self.assertNotIn(key, path.read_bytes())
            with self.subTest(shape), cuckood.FilterFile(path) as bare:
                self.assertFalse(bare.describe().has_key)
                with self.assertRaisesRegex(cuckood.FilterFileError, "left out"):
                    bare.exists("ada")
            path.unlink()
            # Fetched, and found there.
            for _ in range(2):
                with cuckood.SyncedFilter(filter, path, key=key) as synced:
                    self.assertFalse(synced.file.describe().has_key)
                    if "exists" in case:
                        self.assertEqual(synced.exists_many(case["items"]), case["exists"])
                    self.assertFalse(synced.refresh())
            path.unlink()

    def test_typescript_answers_as_the_server_and_as_python_does(self):
        for case in self.cases.values():
            with cuckood.FilterFile(case["path"]) as file:
                case |= {"digest": file.verify(), "etag": file.etag}
                if file.describe().has_attributes:
                    case["values"] = file.values_many(case["items"])
        cases = self.directory / "cases.json"
        cases.write_text(json.dumps(self.cases))
        programs = project(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())))
        environment = os.environ | {"CASES": str(cases), "CUCKOOD_SERVER": self.server.url("")}
        ran = subprocess.run(["node", "--test", "--test-reporter=tap", "files.test.js"], cwd=programs, env=environment)
        self.assertEqual(ran.returncode, 0)


def sealed(content):
    """A file with checksums that are right, unless it is no file at all."""
    out = bytearray(content)
    (pages_at,), (sums_at,) = struct.unpack_from("<Q", out, 24), struct.unpack_from("<Q", out, 72)
    if not 256 <= pages_at <= sums_at <= len(out):
        return bytes(content)
    out[12:16] = bytes(4)
    out[12:16] = struct.pack("<I", zlib.crc32(out[:pages_at]))
    blocks = range(pages_at, sums_at, 4096)
    sums = b"".join(struct.pack("<I", zlib.crc32(out[at : at + 4096])) for at in blocks)
    out[sums_at : len(out) - 48] = sums
    out[len(out) - 48 : len(out) - 40] = struct.pack("<II", zlib.crc32(sums), 0)
    return bytes(out)


def bare(content):
    """The file without its key."""
    out = bytearray(content)
    out[96:112], out[160] = hashlib.sha256(content[96:112]).digest()[:16], content[160] | 8
    out = bytearray(sealed(out))
    digested = out[: len(out) - 40]
    for at, size in ((12, 4), (120, 8), (216, 32)):
        digested[at : at + size] = bytes(size)
    out[len(out) - 40 : len(out) - 8] = hashlib.sha256(digested).digest()
    return bytes(out)


class Damaged(unittest.TestCase):
    """Files that are small enough to try much with them: those of the fuzzer."""

    # The first ones are there.
    THERE = 20
    ITEMS = [struct.pack("<I", number) for number in range(60)]

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.files = [it.read_bytes() for it in sorted((HERE.parent.parent / "fuzz/seeds/file").iterdir())]
        self.files = [it for it in self.files if it.startswith(b"CUCKFILE")]
        self.assertGreaterEqual(len(self.files), 10)
        self.chance = random.Random(SEED)

    def opened(self, content):
        path = self.directory / "file"
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        return cuckood.FilterFile(path)

    def answers(self, file, item):
        """All that a file says of an item; None where it refuses to."""
        said = []
        for ask in (lambda: file.exists(item, now=1e9), lambda: file.count(item, now=1e9), lambda: file.values(item)):
            try:
                said.append(ask())
            except cuckood.FilterFileError as error:
                self.assertTrue(str(error))
                said.append(None)
        return said

    def test_what_is_cut_off_or_added_to_is_refused(self):
        for whole in self.files:
            ends = [0, 1, 255, 256, 4096, len(whole) - 48, len(whole) - 1, *self.chance.choices(range(len(whole)), k=40)]
            for end in ends:
                with self.assertRaises(cuckood.FilterFileError):
                    self.opened(whole[:end])
            with self.assertRaisesRegex(cuckood.FilterFileError, "added to"):
                self.opened(whole + b"\0")

    def test_of_other_formats_versions_and_features_each_is_named(self):
        whole = self.files[0]
        for content, said in (
            (b"no such file" * 99, "no file of a filter"),
            (whole[:8] + b"\2\0" + whole[10:], "version 2"),
            (sealed(whole[:160] + b"\x10" + whole[161:]), r"does not know \(bits 0x"),
        ):
            with self.assertRaisesRegex(cuckood.FilterFileError, said):
                self.opened(content)

    def test_a_flipped_bit_is_refused_and_changes_no_answer(self):
        for whole in self.files:
            with self.opened(whole) as file:
                right = [self.answers(file, item) for item in self.ITEMS]
                self.assertEqual([it[0] for it in right[: self.THERE]], [True] * self.THERE)
            for _ in range(40):
                content = bytearray(whole)
                at = self.chance.randrange(len(content))
                content[at] ^= 1 << self.chance.randrange(8)
                try:
                    file = self.opened(content)
                except cuckood.FilterFileError:
                    continue
                with file:
                    with self.assertRaises(cuckood.FilterFileError, msg=f"byte {at}, seed {SEED}"):
                        file.verify()
                    for item, answer in zip(self.ITEMS, right, strict=True):
                        for said, told in zip(self.answers(file, item), answer, strict=True):
                            self.assertIn(said, (told, None))

    def test_what_is_hostile_with_right_checksums_answers_or_is_refused(self):
        opened = 0
        for whole in self.files:
            for number in range(60):
                content = bytearray(whole)
                # Of the header and of what lies behind it.
                places = range(16, 256) if number % 2 else range(4096, len(content) - 48)
                for _ in range(self.chance.choice((1, 3, 400))):
                    content[self.chance.choice(places)] = self.chance.choice((0, 1, 0x7F, 0xFF, self.chance.randrange(256)))
                try:
                    file = self.opened(sealed(content))
                except cuckood.FilterFileError:
                    continue
                with file:
                    opened += 1
                    for item in self.ITEMS[:40]:
                        self.answers(file, item)
        self.assertGreater(opened, 100)

    def test_typescript_refuses_and_answers_as_python_does(self):
        cases = []
        for number, whole in enumerate(self.files):
            (self.directory / f"{number}.whole").write_bytes(whole)
            for turn in range(40):
                content = bytearray(whole)
                places = range(0, 256) if turn % 3 == 0 else range(len(content))
                for _ in range(self.chance.choice((1, 1, 200))):
                    content[self.chance.choice(places)] ^= 1 << self.chance.randrange(8)
                if turn % 4 == 3:
                    content = sealed(content)
                answers = None
                with contextlib.suppress(cuckood.FilterFileError):
                    with self.opened(content) as file:
                        answers = [self.answers(file, item) for item in self.ITEMS]
                path = self.directory / f"{number}-{turn}.damaged"
                path.write_bytes(content)
                cases.append({"path": str(path), "answers": answers})
        (self.directory / "damaged.json").write_text(json.dumps({"items": [it.hex() for it in self.ITEMS], "cases": cases}))
        programs = project(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())))
        ran = subprocess.run(
            ["node", "--test", "--test-reporter=tap", "damaged.test.js"], cwd=programs,
            env=os.environ | {"DAMAGED": str(self.directory / "damaged.json")},
        )
        self.assertEqual(ran.returncode, 0)


class Opened(unittest.TestCase):
    """How files are opened."""

    FILE = HERE.parent.parent / "fuzz/seeds/file/slots-of-16-bits"

    def test_the_standard_library_is_enough(self):
        program = """if True:
            import sys
            sys.modules["httpx"] = sys.modules["httpcore"] = None
            from cuckood import FilterFile, FilterFileError
            with FilterFile(sys.argv[1]) as file:
                file.verify()
                print(file.exists(bytes(4)))
            import cuckood
            assert "Client" in dir(cuckood)
            try:
                cuckood.Client
            except ImportError as error:
                print(error.name)
        """
        environment = os.environ | {"PYTHONPATH": str(HERE.parent.parent / "clients/python/src")}
        ran = subprocess.run(
            [sys.executable, "-c", program, self.FILE], env=environment, text=True, capture_output=True, check=False,
        )
        self.assertEqual((ran.stdout.split(), ran.stderr), (["True", "httpx"], ""))

    def test_one_item_is_not_taken_for_several(self):
        with cuckood.FilterFile(self.FILE) as file:
            for call in (file.exists_many, file.count_many, file.values_many):
                with self.assertRaisesRegex(TypeError, "'abc' is one item, not many: pass a list"):
                    call("abc")

    def test_all_names_are_there_and_no_others(self):
        names = {}
        exec("from cuckood import *", names)
        self.assertLessEqual(set(cuckood.__all__), set(names))
        self.assertLessEqual(set(cuckood.__all__), set(dir(cuckood)))
        with self.assertRaises(AttributeError):
            cuckood.Nonsense

    @unittest.skipUnless(os.path.exists("/proc/self/smaps"), "only Linux tells")
    def test_for_a_question_no_more_is_read_than_it_needs(self):
        def flags():
            smaps = pathlib.Path("/proc/self/smaps").read_text().splitlines()
            at = next(at for at, line in enumerate(smaps) if line.endswith(str(self.FILE.resolve())))
            return next(line for line in smaps[at:] if line.startswith("VmFlags:")).split()

        with cuckood.FilterFile(self.FILE) as file:
            self.assertIn("rr", flags())
            check, seen = file._check, []
            with unittest.mock.patch.object(file, "_check", lambda *where: seen.extend(flags()) or check(*where)):
                file.verify()
            self.assertIn("sr", seen)
            self.assertIn("rr", flags())


class Handing(ThreadingHTTPServer):
    """Hands out a file by its `ETag`, or what it is told to."""

    daemon_threads = True

    def __init__(self, content):
        self.content = content
        self.etag = '"1"'
        self.statuses = []
        self.asked = []
        self.is_broken = False
        # Whether nothing has changed, whatever is asked.
        self.is_unchanged = False
        # Whether a file is asked for without its key in vain.
        self.is_deaf = False
        # How many are refused before one is answered, and what the refusals say.
        self.refusals, self.retry_after = 0, None
        # What comes a byte at a time: nothing, the body, or all of it.
        self.trickles = None
        self.is_over = threading.Event()
        super().__init__(("127.0.0.1", 0), _Hand)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Hand(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        it = self.server
        is_refused = it.is_broken or it.refusals > 0
        it.refusals -= is_refused
        is_known = it.is_unchanged or self.headers.get("if-none-match") == it.etag
        status = 503 if is_refused else 304 if is_known else 200
        content = bare(it.content) if "without_key" in self.path and not it.is_deaf else it.content
        it.asked.append(self.path)
        it.statuses.append(status)
        if it.trickles == "head":
            self.trickle(b"HTTP/1.1 200 OK\r\n" + b"x-slow: 1\r\n" * 1000)
            return
        self.send_response_only(status)
        self.send_header("etag", it.etag)
        if is_refused and it.retry_after is not None:
            self.send_header("retry-after", it.retry_after)
        if status != 304:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if status != 304 and it.trickles:
            self.trickle(content)
        elif status != 304:
            self.wfile.write(content)

    def trickle(self, content):
        with contextlib.suppress(OSError):
            for at in range(len(content)):
                if self.server.is_over.wait(0.02):
                    break
                self.wfile.write(content[at : at + 1])
        self.close_connection = True

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content = json.dumps({"results": [False] * len(asked["items"])}).encode()
        self.send_response_only(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Synced(unittest.TestCase):
    """A file that is kept fresh."""

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.directory / "guests.cuckoo"
        files = HERE.parent.parent / "fuzz/seeds/file"
        self.first, second = ((files / name).read_bytes() for name in ("slots-of-16-bits", "slots-of-12-bits"))
        # One change more than the first.
        self.second = sealed(second[:232] + bytes([second[232] + 1]) + second[233:])
        self.server = Handing(self.first)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.server.is_over.set)
        self.hand(self.first)
        client = self.enterContext(cuckood.Client(self.server.url, patience=0))
        self.filter = client.filter("guests")

    def hand(self, content):
        """Hands out a file, with its own ETag."""
        path = self.directory / "handed"
        path.write_bytes(content)
        with cuckood.FilterFile(path) as file:
            self.server.etag, self.server.content = file.etag, content
        path.unlink()

    def synced(self, **options):
        return self.enterContext(cuckood.SyncedFilter(self.filter, self.path, **{"every": 3600, **options}))

    def wait(self, is_so):
        deadline = time.monotonic() + 30
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_file_is_fetched_once_and_polled_by_its_etag(self):
        synced = self.synced()
        self.assertEqual(self.path.read_bytes(), self.first)
        self.assertFalse(synced.refresh())
        self.assertEqual(self.server.statuses, [200, 304])
        self.hand(self.second)
        before = synced.file
        self.assertTrue(synced.refresh())
        self.assertEqual(self.path.read_bytes(), self.second)
        # Who asks the old one meanwhile still gets its answers.
        before.verify()
        self.assertEqual([it.name for it in self.directory.iterdir()], [self.path.name])
        self.assertLess(synced.age, 30)

    def test_it_is_kept_fresh_in_the_background(self):
        synced = self.synced(every=0.02)
        self.hand(self.second)
        self.wait(lambda: synced.file.describe().etag == self.server.etag)
        self.assertEqual(self.path.read_bytes(), self.second)
        self.server.is_broken = True
        self.wait(lambda: synced.last_error is not None)
        self.assertIsInstance(synced.exists("ada"), bool)
        self.server.is_broken = False
        self.wait(lambda: synced.last_error is None)

    def test_what_is_there_is_used_while_the_server_is_away(self):
        self.path.write_bytes(self.first)
        os.utime(self.path, (time.time() - 500,) * 2)
        self.server.is_broken = True
        synced = self.synced(max_age=400, jitter=0)
        absent = next(it for it in map(str, range(999)) if not synced.file.exists(it))
        self.assertTrue(490 < synced.age < 600, synced.age)
        self.assertIsNone(synced.exists(absent))
        self.server.is_broken = False
        self.assertFalse(synced.refresh())
        self.assertIs(synced.exists(absent), False)
        # The next process knows when that was.
        self.assertLess(time.time() - self.path.stat().st_mtime, 60)

    def test_what_a_file_says_is_as_old_as_that_file(self):
        self.path.write_bytes(self.first)
        os.utime(self.path, (time.time() - 500,) * 2)
        self.server.is_broken = True
        synced = self.synced(max_age=400)
        absent = next(it for it in map(str, range(999)) if not synced.file.exists(it))
        self.wait(lambda: synced.last_error is not None)
        self.server.is_broken = False
        ask = cuckood.FilterFile.exists_many

        def renewed_meanwhile(file, items, **options):
            synced.refresh()
            return ask(file, items, **options)

        with unittest.mock.patch.object(cuckood.FilterFile, "exists_many", renewed_meanwhile):
            self.assertIsNone(synced.exists(absent))
        self.assertIsNone(synced.last_error)
        self.assertIs(synced.exists(absent), False)

    def test_a_file_of_the_future_is_of_unknown_age(self):
        self.path.write_bytes(self.first)
        os.utime(self.path, (time.time() + 10_000,) * 2)
        self.server.is_broken = True
        synced = self.synced(max_age=400)
        self.assertEqual(synced.age, math.inf)
        absent = next(it for it in map(str, range(999)) if not synced.file.exists(it))
        self.assertIsNone(synced.exists(absent))

    def test_a_file_that_was_taken_away_is_fetched_again(self):
        synced = self.synced()
        self.path.unlink()
        synced.refresh()
        self.assertEqual(self.path.read_bytes(), self.first)
        self.assertEqual(self.server.statuses, [200, 304, 200])

    def put(self, content, age):
        """As another process does."""
        part = self.directory / "another.part"
        part.write_bytes(content)
        os.utime(part, (time.time() - age,) * 2)
        part.replace(self.path)

    def test_of_somebody_elses_file_it_says_nothing(self):
        synced = self.synced()
        self.put(self.second, age=5000)
        theirs = self.path.open("rb")
        self.addCleanup(theirs.close)
        synced.refresh()
        # It is as old as it was, and what the server has is in its place.
        self.assertGreater(time.time() - os.fstat(theirs.fileno()).st_mtime, 4000)
        self.assertEqual(self.path.read_bytes(), self.first)
        self.assertEqual(self.server.statuses, [200, 304, 200])

    def test_the_same_file_of_another_process_is_not_fetched_again(self):
        synced = self.synced()
        self.put(self.first, age=5000)
        self.assertFalse(synced.refresh())
        self.assertEqual(self.server.statuses, [200, 304])
        self.assertLess(time.time() - self.path.stat().st_mtime, 60)

    def test_a_file_is_as_old_as_that_which_was_opened(self):
        self.put(self.first, age=5000)
        verify = cuckood.FilterFile.verify

        def replaced_meanwhile(file):
            self.put(self.second, age=0)
            return verify(file)

        self.server.is_broken = True
        with unittest.mock.patch.object(cuckood.FilterFile, "verify", replaced_meanwhile):
            synced = self.synced()
        self.assertGreater(synced.age, 4000)

    def test_the_first_download_waits_for_its_turn(self):
        self.server.refusals, self.server.retry_after = 2, "1"
        with cuckood.Client(self.server.url) as client:
            began = time.monotonic()
            with cuckood.SyncedFilter(client.filter("guests"), self.path, every=3600):
                self.assertGreaterEqual(time.monotonic() - began, 2)
            self.assertEqual(self.server.statuses, [503, 503, 200])
            self.server.refusals, self.server.retry_after = 1, "0"
            with client.filter("guests").dump() as pieces:
                self.assertEqual(b"".join(pieces), self.first)
            # What is no refusal for now is an error at once, and so is what takes longer than the patience.
            self.server.refusals, self.server.retry_after = 1, "61"
            with self.assertRaises(cuckood.Unavailable), client.filter("guests").dump():
                pass

    def test_the_next_ones_wait_as_long_as_the_server_says(self):
        synced = self.synced(every=0.01)
        self.server.is_broken, self.server.retry_after = True, "2"
        self.wait(lambda: synced.last_error is not None)
        asked = len(self.server.statuses)
        time.sleep(1)
        self.assertEqual(len(self.server.statuses), asked)

    def test_what_failed_at_the_same_time_is_tried_again_at_different_times(self):
        self.path.write_bytes(self.first)
        self.server.is_broken = True
        pauses = []
        with unittest.mock.patch("cuckood._synced.random.random", lambda: 0.001 * len(pauses)):
            synced = self.synced()
            wait = synced._closed.wait
            with unittest.mock.patch.object(synced._closed, "wait", lambda pause: pauses.append(pause) or wait(pause)):
                self.wait(lambda: len(pauses) > 3)
        self.assertTrue(all(0 < later < 5 for later in pauses[1:4]), pauses)

    def test_a_download_that_trickles_is_given_up(self):
        synced = self.synced(download_timeout=0.5)
        for self.server.trickles, client in (("body", None), ("head", cuckood.Client(self.server.url, timeout=0.5, patience=0))):
            self.hand(self.second)
            self.server.statuses.clear()
            began = time.monotonic()
            if client is None:
                with self.assertRaisesRegex(cuckood.CuckoodError, "takes longer than 0.5 s: "):
                    synced.refresh()
            else:
                with client, self.assertRaises(cuckood.NoAnswerError), client.filter("guests").dump():
                    pass
            self.assertLess(time.monotonic() - began, 5)
        self.assertEqual([it.name for it in self.directory.iterdir()], [self.path.name])
        self.server.trickles = None
        self.assertTrue(synced.refresh())

    def test_it_closes_while_a_download_trickles(self):
        synced = self.synced(every=0.01)
        self.server.trickles = "body"
        self.hand(self.second)
        self.wait(lambda: 200 in self.server.statuses[1:])
        began = time.monotonic()
        synced.close()
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual([it.name for it in self.directory.iterdir()], [self.path.name])
        with self.assertRaisesRegex(cuckood.CuckoodError, "kept fresh no longer"):
            synced.refresh()

    def test_that_nothing_has_changed_is_no_answer_to_who_did_not_ask_whether(self):
        self.server.is_unchanged = True
        for ask in (self.synced, self.filter.dump().__enter__, self.filter.dump_unless(None).__enter__):
            with self.assertRaisesRegex(cuckood.ProblemError, "304 unknown: .* did not ask whether"):
                ask()
        self.server.is_unchanged = False
        synced = self.synced()
        self.server.is_unchanged = True
        self.assertFalse(synced.refresh())
        self.path.unlink()
        with self.assertRaisesRegex(cuckood.FilterFileError, "sent no file"):
            synced.refresh()

    def test_with_a_key_it_asks_for_files_without(self):
        for statuses in ([200], [200, 304]):
            with cuckood.SyncedFilter(self.filter, self.path, every=3600, key=self.first[96:112]) as synced:
                self.wait(lambda: self.server.statuses == statuses)
                self.assertIsNone(synced.last_error)
                self.assertFalse(synced.file.describe().has_key)
                self.assertIs(synced.exists(Damaged.ITEMS[0]), True)
        self.assertEqual(self.server.asked, ["/filters/guests/dump?without_key=true"] * 2)

    def test_a_path_has_files_of_one_kind_with_their_key_or_without(self):
        key, verify = self.first[96:112], cuckood.FilterFile.verify
        for there, own, options, says in (
            (bare(self.first), self.first, {}, "left out of it: give it as key=, or take another path"),
            (self.first, bare(self.first), {"key": key}, "not left out of it, but key= is given: take another path, or no key"),
        ):
            refused = self.assertRaisesRegex(cuckood.FilterFileError, says)
            self.server.statuses.clear()
            self.path.write_bytes(there)
            with refused:
                self.synced(**options)
            self.assertEqual(self.server.statuses, [])
            self.path.unlink()
            # One that is put there later is left there, and nothing is fetched in vain.
            synced = self.synced(**options)
            self.assertEqual(self.path.read_bytes(), own)
            self.put(there, age=5000)
            with refused:
                synced.refresh()
            self.assertEqual((self.server.statuses, self.path.read_bytes()), ([200], there))
            self.assertIs(synced.exists(Damaged.ITEMS[0]), True)
            self.path.unlink()

            def put_meanwhile(file):
                self.put(there, age=0)
                return verify(file)

            with unittest.mock.patch.object(cuckood.FilterFile, "verify", put_meanwhile), refused:
                self.synced(**options)
            self.assertEqual([it.name for it in self.directory.iterdir()], [self.path.name])
            self.path.unlink()
        self.server.is_deaf = True
        with refused:
            self.synced(key=key)
        self.assertEqual([*self.directory.iterdir()], [])

    def test_it_is_kept_fresh_whatever_goes_wrong(self):
        synced = self.synced(every=0.02)
        with unittest.mock.patch.object(synced, "_downloaded", side_effect=MemoryError()), self.assertLogs("cuckood") as logs:
            self.wait(lambda: isinstance(synced.last_error, MemoryError) and logs.output)
        self.assertTrue(logs.output[0].endswith("can't be renewed: MemoryError"), logs.output)
        self.wait(lambda: synced.last_error is None)

    def test_it_waits_for_any_time(self):
        self.path.write_bytes(self.first)
        for every in (math.inf, datetime.timedelta.max):
            synced = self.synced(every=every)
            self.wait(lambda: len(self.server.statuses) > 0)
            synced._thread.join(0.2)
            self.assertTrue(synced._thread.is_alive())
            self.server.statuses.clear()

    def test_what_an_ended_process_has_left_is_removed_after_an_hour(self):
        self.path = self.directory / "[guests].cuckoo"
        old, new, stuck = (self.directory / f".[guests].cuckoo.{it}.part" for it in ("old", "new", "stuck"))
        old.touch()
        new.touch()
        stuck.mkdir()
        for it in (old, stuck):
            os.utime(it, (time.time() - 3700,) * 2)
        self.synced()
        self.assertEqual({*self.directory.iterdir()}, {new, stuck, self.path})

    def test_a_yes_is_asked_of_the_server_if_it_must_be_current(self):
        synced = self.synced()
        # The server that hands out files has none of the items.
        there = Damaged.ITEMS[0]
        self.assertIs(synced.exists(there), True)
        self.assertIs(synced.exists(there, confirm=True), False)

    def test_what_is_no_right_file_never_gets_the_name(self):
        self.path.write_bytes(b"something else")
        synced = self.synced()
        self.assertEqual(self.path.read_bytes(), self.first)
        damaged = bytearray(self.second)
        damaged[-100] ^= 1
        for content in (bytes(damaged), self.second[:-1], self.second + b"\0", b"no file", b""):
            self.server.content, self.server.etag = content, '"2"'
            with self.assertRaises(cuckood.FilterFileError):
                synced.refresh()
            self.assertEqual(self.path.read_bytes(), self.first)
        self.assertEqual([it.name for it in self.directory.iterdir()], [self.path.name])
        self.assertIsInstance(synced.exists("ada"), bool)

    def test_without_a_file_and_a_server_it_says_why(self):
        self.server.is_broken = True
        with self.assertRaises(cuckood.Unavailable):
            cuckood.SyncedFilter(self.filter, self.path)
        waiting = cuckood.AsyncClient(self.server.url).filter("guests")
        with self.assertRaisesRegex(TypeError, "AsyncFilter is no filter of a Client"):
            cuckood.SyncedFilter(waiting, self.path)
        for wrong in ({"every": 0}, {"max_age": math.nan}, {"jitter": 1}, {"jitter": -0.1}, {"download_timeout": 0}):
            with self.assertRaises(ValueError):
                cuckood.SyncedFilter(self.filter, self.path, **wrong)

    def test_typescript_does_so_too(self):
        programs = project(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())))
        environment = {}
        for name, content in (("FIRST", self.first), ("SECOND", self.second), ("BARE", bare(self.first))):
            environment[name] = str(self.directory / name)
            (self.directory / name).write_bytes(content)
        ran = subprocess.run(
            ["node", "--test", "--test-reporter=tap", "synced.test.js"], cwd=programs, env=os.environ | environment,
        )
        self.assertEqual(ran.returncode, 0)


if __name__ == "__main__":
    unittest.main()
