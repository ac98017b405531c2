"""The Python client against a real server, the synchronous and the asynchronous
one, and the pages that show it."""

import asyncio
import contextlib
import doctest
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import tomllib
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "clients/python/src")]

import cuckood  # noqa: E402
import httpx  # noqa: E402
from cuckood._retry import Attempts, Backoff, Request  # noqa: E402
from lossy import LossyProxy  # noqa: E402
from served import BINARY, ROOT, Server, free_port  # noqa: E402

PACKAGE = ROOT / "clients/python"
# Their examples are run, and their types checked.
PAGES = (PACKAGE / "README.md", ROOT / "docs/clients.md")


class Served(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.server = Server(BINARY, pathlib.Path(cls.directory.name), *cls.FLAGS)
        cls.addClassCleanup(cls.server.process.wait)
        cls.addClassCleanup(cls.server.process.kill)

    def client(self, **options):
        client = cuckood.Client(options.pop("url", self.server.url("")), **options)
        self.addCleanup(client.close)
        return client


class Calls(Served):
    # A compaction that the server begins would refuse the one that is asked for.
    FLAGS = ("--compaction-threshold", "0")

    def test_filters_are_created_described_listed_and_dropped(self):
        client = self.client()
        coupons = client.filter("coupons")
        self.assertFalse(coupons.is_there())
        made = coupons.create(capacity=1000, error_rate=0.001, ttl_seconds=3600)
        self.assertEqual((made.key, made.capacity, made.items), ("coupons", 1000, 0))
        self.assertGreater(made.expires_at, made.created_at)
        self.assertIsNone(coupons.expire_after(None).expires_at)
        self.assertEqual(coupons.info().sub_filters[0].items, 0)
        client.filter("copy").create(capacity=10)
        self.assertEqual([line.key for line in client.filters("co", page=1)], ["copy", "coupons"])
        self.assertEqual(client.preview(capacity=1000, error_rate=0.001).slot_bytes, made.slot_bytes)
        client.filter("copy").drop()
        self.assertEqual([line.key for line in client.filters("co")], ["coupons"])

    def test_items_are_added_found_counted_and_deleted(self):
        client = self.client()
        users = client.filter("users")
        self.assertEqual(users.add("ada", create={"capacity": 1000, "fingerprint_bits": 32}), "added")
        self.assertEqual(users.add_many(["ada", 7, b"\xff\0"]).results, ["added"] * 3)
        self.assertEqual(users.add("ada", only_if_absent=True), "exists")
        self.assertEqual(users.exists_many(["7", b"\xff\0", "alan"]), [True, True, False])
        self.assertEqual(users.count_many(["ada", 7, "alan"]), [2, 1, 0])
        self.assertEqual(users.delete_many(["ada", "alan"]), [True, False])
        self.assertEqual((users.count("ada"), users.exists("alan"), users.delete(7)), (1, False, True))
        self.assertEqual(users.locate("ada").count, 1)
        found = client.lookup(["ada", "alan"], filters=["users", "none"])
        self.assertEqual((found.results, found.missing_filters), ([["users"], []], ["none"]))
        self.assertEqual(client.lookup(["ada"], prefix="use", first=True).results, [["users"]])

    def test_what_would_be_taken_for_something_else_is_refused(self):
        for url in ("", [], ["", ""], [self.server.url(""), ""]):
            with self.subTest(url=url), self.assertRaisesRegex(ValueError, "url is empty"):
                cuckood.Client(url)
        for seconds in (0, -1, float("nan"), float("inf")):
            with self.subTest(seconds), self.assertRaisesRegex(ValueError, "timeout is .*above 0"):
                cuckood.Client(timeout=seconds)
        with self.assertRaisesRegex(ValueError, "patience is -1.*from 0"):
            cuckood.Client(patience=-1)
        for given in (None, "5"):
            with self.subTest(given), self.assertRaisesRegex(TypeError, f"{given!r} is no number of seconds"):
                cuckood.Client(patience=given)
        with self.assertRaisesRegex(ValueError, "key of the filter is empty"):
            self.client().filter("")
        with self.assertRaisesRegex(TypeError, "'abc' is one key"):
            self.client().lookup(["ada"], filters="abc")

    def test_what_has_another_type_is_refused_in_words(self):
        client = self.client()
        users = client.filter("typed")
        users.create(capacity=10)
        for says, call in {
            "idempotency_key is 7: pass a str": lambda: users.add("ada", idempotency_key=7),
            "idempotency_key is b'x': pass a str": lambda: users.drop(idempotency_key=b"x"),
            "a key or id is 7: pass a str": lambda: client.filter(7),
            "a key or id is 8: pass a str": lambda: users.import_items(["ada"], import_id=8),
            "a key or id is None: pass a str": lambda: client.backup(None),
            "None is no item": lambda: users.locate(None),
            "1.5 is no item": lambda: users.locate(1.5),
            "None is no list of items: pass a list": lambda: users.add_many(None),
            "7 is no list of items: pass a list": lambda: client.lookup(7, prefix="t"),
            "1.5 is no list of items: pass a list, or import_file": lambda: users.import_items(1.5),
            "2 is no list of items": lambda: users.add_values(2),
            r"\(\) is no entry": lambda: users.add_values([()]),
            r"\('ada',\) is no entry": lambda: users.import_items([("ada",)]),
            r"\('ada', 1, 2, 3\) is no entry": lambda: users.add_values([("ada", 1, 2, 3)]),
            "7 is one key, not many": lambda: client.lookup(["ada"], filters=7),
            "has no form in JSON: .*of a filter its key": lambda: users.merge(users),
            "str is no dump: pass bytes, or .*open": lambda: users.restore("a.dump"),
            "NoneType is no dump": lambda: users.restore(None),
            "url is 7: pass a str": lambda: cuckood.Client(7),
            r"url is \[7\]: pass a str": lambda: cuckood.Client([7]),
            "api_key is of type bytes: pass a str": lambda: cuckood.Client(api_key=b"secret"),
            "pass an httpx.Client$": lambda: cuckood.Client(http=httpx.AsyncClient()),
        }.items():
            with self.subTest(says), self.assertRaisesRegex(TypeError, says):
                call()
        for wrong in (0, "7", 1.5, None):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, f"max_in_flight is {wrong!r}: an integer from 1"):
                cuckood.Client(max_in_flight=wrong)
        self.assertEqual(users.info().items, 0)

    def test_what_no_header_can_have_is_refused_before_it_is_sent_and_no_key_is_printed(self):
        for key in ("\u00fcmlaut", "sec ret", "sec\nret"):
            with self.subTest(key), self.assertRaisesRegex(ValueError, "other characters than visible ASCII") as refused:
                cuckood.Client(api_key=key)
            self.assertNotIn(key, str(refused.exception))
        # The line of a file.
        keyed = self.client(api_key=" a-key\n").filter("keyed")
        self.assertEqual(keyed._transport._headers, {"authorization": "Bearer a-key"})
        with mock.patch.dict(os.environ, CUCKOOD_API_KEY="a-key\r\n"):
            self.assertEqual(self.client().filter("a")._transport._headers, {"authorization": "Bearer a-key"})
        users = self.client().filter("nothing")
        for key in ("redeemed-\u00fc", "a b", "", "x" * 256):
            for call in (users.delete, users.add):
                with self.subTest(key), self.assertRaisesRegex(ValueError, "idempotency_key is .*1 to 255 visible ASCII"):
                    call("P2", idempotency_key=key)

    def test_a_client_that_is_closed_says_so(self):
        closed = cuckood.Client(self.server.url(""))
        closed.close()
        closed.close()
        users = closed.filter("users")
        for call in (users.info, lambda: users.exists("a"), lambda: users.add("a"), users.dump().__enter__, closed.is_ready):
            with self.assertRaisesRegex(cuckood.CuckoodError, "the client is closed"):
                call()

        async def calls():
            async with cuckood.AsyncClient(self.server.url("")) as client:
                await client.is_ready()
            for ask in (client.filter("users").info, client.is_ready):
                with self.assertRaisesRegex(cuckood.CuckoodError, "the client is closed"):
                    await ask()

        asyncio.run(calls())

    def test_a_dump_is_asked_for_again_where_no_connection_was_made(self):
        self.client().filter("later").create(capacity=10)
        refused = iter([True, True, False])

        def answer(request):
            if next(refused):
                raise httpx.ConnectError("refused")
            return httpx.Response(200, content=b"dump", headers={"etag": "1"})

        later = self.client(http=httpx.Client(transport=httpx.MockTransport(answer))).filter("later")
        with later.dump() as pieces:
            self.assertEqual(b"".join(pieces), b"dump")
        # Who has an older one asks in its own time, and what may have begun is not sent again.
        refused = iter([True, False])
        with self.assertRaises(cuckood.NoAnswerError), later.dump_unless("1"):
            pass
        broken = mock.Mock(side_effect=httpx.ReadError("gone"))
        once = self.client(http=httpx.Client(transport=httpx.MockTransport(broken))).filter("later")
        with self.assertRaises(cuckood.NoAnswerError), once.dump():
            pass
        self.assertEqual(broken.call_count, 1)

    def test_a_dump_that_is_refused_for_now_is_asked_for_again(self):
        def problem(status, code, **headers):
            return httpx.Response(status, json={"code": code, "detail": "later"}, headers=headers)

        def answers():
            yield problem(503, "overloaded", **{"retry-after": "0"})
            yield problem(429, "too_many", **{"retry-after": "0"})
            yield httpx.Response(200, content=b"dump")
            # Whether that has begun nobody knows.
            yield problem(502, "unknown")

        async def dumps(given, asked):
            http = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: asked.append(request) or next(given)))
            async with cuckood.AsyncClient("http://127.0.0.1:1", http=http) as client:
                async with client.filter("later").dump(without_key=True) as pieces:
                    self.assertEqual(b"".join([it async for it in pieces]), b"dump")
                with self.assertRaises(cuckood.ProblemError):
                    async with client.filter("later").dump():
                        pass

        asked = []
        asyncio.run(dumps(answers(), asked))
        self.assertEqual([it.url.query for it in asked], [b"without_key=true"] * 3 + [b""])

    def test_patience_may_be_endless(self):
        endless = self.client(patience=float("inf")).filter("endless")
        self.assertEqual(endless.add("ada", create={"capacity": 100}), "added")

    def test_windows_are_asked_within_seconds(self):
        client = self.client()
        mails = client.filter("mails")
        mails.create(capacity=1000, window_seconds=86400)
        self.assertEqual(mails.add_many(["ada", "ada"]).results, ["added", "refreshed"])
        self.assertEqual(mails.exists_many(["ada", "alan"], within_seconds=86400), [True, False])
        found = client.lookup(["ada", "alan"], filters=["mails"], within_seconds=86400)
        self.assertEqual(found.results, [["mails"], []])
        with self.assertRaises(cuckood.InvalidRequest):
            client.lookup(["ada"], filters=["mails"], within_seconds=86401)

    def test_a_filter_moves_by_its_dump_and_compacts(self):
        client = self.client()
        source, copy = client.filter("source"), client.filter("target")
        source.add_many(range(5000), create={"capacity": 100})
        with source.dump() as pieces:
            dump = b"".join(pieces)
        self.assertEqual(copy.restore(dump).items, 5000)
        self.assertEqual(copy.restore(iter([dump[:100], dump[100:]]), replace=True).items, 5000)
        with self.assertRaises(cuckood.FilterExists):
            copy.restore(dump)
        copy.delete_many(range(4900))
        self.assertRegex(copy.compact().status_url, "compaction$")
        self.assertIn(copy.compaction().state, ("running", "complete", "done"))

    def test_a_dump_is_restored_from_whatever_gives_its_bytes(self):
        client = self.client()
        source = client.filter("whole")
        source.add_many(range(500_000), create={"capacity": 500_000})
        with source.dump() as pieces:
            dump = b"".join(pieces)
        path = pathlib.Path(self.directory.name) / "whole.dump"
        path.write_bytes(dump)
        reads = []

        class Noted(io.FileIO):
            def read(self, size=-1):
                reads.append((size, threading.current_thread()))
                return super().read(size)

        cut = [dump[:100_000], dump[100_000:]]
        for given in (lambda: dump, lambda: cut, lambda: iter(cut), lambda: (it for it in cut), lambda: io.BytesIO(dump),
                      lambda: self.enterContext(open(path, "rb")), lambda: self.enterContext(Noted(path))):
            self.assertEqual(client.filter("again").restore(given(), replace=True).items, 500_000)

            async def restored():
                async with cuckood.AsyncClient(self.server.url("")) as client:
                    return await client.filter("again").restore(given(), replace=True)

            reads.clear()
            self.assertEqual(asyncio.run(restored()).items, 500_000)
        self.assertGreater(len(reads), len(dump) >> 20)
        self.assertTrue(all(0 < size <= 1 << 20 and thread is not threading.main_thread() for size, thread in reads))

        async def moved():
            async with cuckood.AsyncClient(self.server.url("")) as client, client.filter("whole").dump() as pieces:
                return await client.filter("again").restore(pieces, replace=True)

        self.assertEqual(asyncio.run(moved()).items, 500_000)

    def test_siblings_are_merged_and_strangers_refused(self):
        client = self.client()
        client.filter("monday").create(capacity=100)
        for name in ("tuesday", "wednesday"):
            client.filter(name).add_many([name, "ada"], create={"sibling_of": "monday"})
        self.assertEqual(client.filter("monday").merge("tuesday", "wednesday").items, 4)
        self.assertEqual(client.filter("monday").count("ada"), 2)
        client.filter("stranger").create(capacity=100)
        with self.assertRaises(cuckood.ProblemError) as refused:
            client.filter("monday").merge("stranger")
        self.assertEqual(refused.exception.code, "not_siblings")

    def test_every_error_has_its_class_and_code(self):
        client = self.client()
        with self.assertRaises(cuckood.FilterNotFound) as missing:
            client.filter("nothing").exists("a")
        self.assertEqual((missing.exception.status, missing.exception.code), (404, "filter_not_found"))
        self.assertTrue(missing.exception.request_id)
        with self.assertRaises(cuckood.InvalidRequest) as refused:
            client.filter("f").create(capacity=0, error_rate=2)
        pointers = {field.pointer for field in refused.exception.errors}
        self.assertEqual(pointers, {"/capacity", "/error_rate"})
        client.filter("f").create(capacity=10)
        with self.assertRaises(cuckood.FilterDiffers):
            client.filter("f").create(capacity=20)
        with self.assertRaises(cuckood.FilterExists):
            client.filter("f").create(only_new=True)
        with self.assertRaises(cuckood.ImportNotFound):
            client.filter("f").import_progress("none")
        with self.assertRaises(TypeError):
            client.filter("f").add(True)
        with self.assertRaisesRegex(TypeError, "is one item, not many"):
            client.filter("f").add_many("abc")
        with self.assertRaises(cuckood.Forbidden):
            client.backups()
        nobody = self.client(url=f"http://127.0.0.1:{free_port()}", patience=0)
        self.assertFalse(nobody.is_ready())
        with self.assertRaises(cuckood.NoAnswerError):
            nobody.filter("f").info()
        with self.assertRaises(cuckood.NoAnswerError), nobody.filter("f").dump():
            pass
        other = self.client(http=httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, text="<p>"))))
        with self.assertRaises(cuckood.NotUnderstoodError):
            other.filter("f").info()

    def test_an_idempotency_key_of_ones_own_makes_a_change_once(self):
        orders = self.client().filter("orders")
        for _ in range(3):
            orders.add("hedy", create={"fingerprint_bits": 32}, idempotency_key="order-1")
        self.assertEqual(orders.count("hedy"), 1)

    def test_an_import_tells_its_progress_and_resumes_where_it_was(self):
        guests = self.client().filter("guests")
        guests.create(capacity=200_000)
        seen = []
        note = lambda report: seen.append(report.committed_lines)
        report = guests.import_items(range(120_001), import_id="list", on_progress=note)
        self.assertEqual((report.added, seen), (120_001, [50_000, 100_000, 120_001]))
        again = guests.import_items(range(120_001), import_id="list", on_progress=note)
        self.assertEqual((again.added, len(seen)), (120_001, 3))
        more = guests.import_items(range(120_003), import_id="list")
        self.assertEqual((more.committed_lines, guests.info().items), (120_003, 120_003))
        self.assertEqual(guests.import_items([]).added, 0)

    def test_an_import_is_made_once_although_answers_are_lost(self):
        proxy = LossyProxy(self.server.port, 0.5, seed=4)
        self.addCleanup(proxy.stop)
        lossy = self.client(url=proxy.url).filter("lossy")
        lossy.create(capacity=600_000)
        last = lossy.import_items({"item": f"line\n{n}"} for n in range(500_000))
        self.assertEqual((last.added, lossy.info().items), (500_000, 500_000))
        self.assertGreater(proxy.lost, 0)

    def test_the_asynchronous_client_has_the_same_calls(self):
        async def calls():
            async def names():
                for number in range(3):
                    yield f"name-{number}"

            async with cuckood.AsyncClient(self.server.url("")) as client:
                crowd = client.filter("crowd")
                await crowd.create(capacity=5000)
                await asyncio.gather(*(crowd.add(f"user-{n}") for n in range(50)))
                self.assertEqual((await crowd.info()).items, 50)
                self.assertEqual((await crowd.import_items(names())).added, 3)
                self.assertEqual([it.key async for it in client.filters("crowd")], ["crowd"])
                async with crowd.dump() as pieces:
                    dump = b"".join([piece async for piece in pieces])
                self.assertEqual((await client.filter("crowd2").restore(dump)).items, 53)
                with self.assertRaises(cuckood.FilterNotFound):
                    await client.filter("nothing").count("a")

        asyncio.run(calls())
        public = lambda kind: {name for name in dir(kind) if not name.startswith("_")}
        self.assertEqual(public(cuckood.Filter), public(cuckood.AsyncFilter))
        self.assertEqual(public(cuckood.Client) - {"close"}, public(cuckood.AsyncClient) - {"aclose"})


class SmallLimits(Served):
    FLAGS = ("--max-batch-items", "1000", "--max-body-bytes", "128KiB", "--max-probes", "1500")

    def test_batches_are_split_to_the_limits_and_joined_in_order(self):
        limits = cuckood.BatchLimits()
        client = self.client(limits=limits)
        small = client.filter("small")
        items = [f"{'x' * (number % 97)}-{number}" for number in range(7001)]
        added = small.add_many(items, create={"capacity": 20_000, "fingerprint_bits": 32})
        self.assertEqual((len(added.results), set(added.results)), (7001, {"added"}))
        self.assertEqual(small.info().items, 7001)
        self.assertLessEqual(limits.items, 1000)
        absent = [item + "?" for item in items]
        mixed = [item for pair in zip(items, absent) for item in pair]
        self.assertEqual(small.exists_many(mixed), [True, False] * 7001)
        self.assertEqual(client.lookup(mixed, filters=["small"]).results, [["small"], []] * 7001)
        self.assertEqual(small.delete_many(mixed), [True, False] * 7001)

    def test_what_was_done_before_a_failure_is_told(self):
        once = self.client(limits=cuckood.BatchLimits(items=2)).filter("once")
        once.create(capacity=100)
        with self.assertRaises(cuckood.InvalidRequest) as refused:
            once.add_many(["a", "b", 2**70, "c"])
        self.assertEqual(refused.exception.completed, ["added", "added"])
        self.assertEqual(once.info().items, 2)

    def test_a_batch_with_a_key_of_ones_own_is_not_split(self):
        keyed = self.client().filter("keyed")
        with self.assertRaises(cuckood.TooLarge):
            keyed.add_many(range(2000), create={}, idempotency_key="mine")
        self.assertFalse(keyed.is_there())

    def test_a_full_filter_says_why(self):
        full = self.client().filter("full").add_many(range(3000), create={"capacity": 100, "expansion": 0})
        self.assertEqual((full.results[0], full.results[-1], full.full_reason), ("added", "full", "expansion_off"))


class Retries(unittest.TestCase):
    REQUEST = Request("POST", "/x")

    def attempts(self, *, patience=60.0, chance=1.0):
        self.now = 0.0
        return Attempts(Backoff(patience, chance=lambda: chance, clock=lambda: self.now))

    def problem(self, status, code="", retry_after=None):
        return cuckood.ProblemError(status, code, "", retry_after=retry_after)

    def test_pauses_grow_to_a_bound_and_are_random(self):
        attempts = self.attempts()
        pauses = [attempts.after_problem(self.REQUEST, self.problem(503)) for _ in range(8)]
        self.assertEqual(pauses, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
        self.assertEqual(self.attempts(chance=0.25).after_problem(self.REQUEST, self.problem(503)), 0.025)

    def test_retry_after_is_a_lower_bound(self):
        attempts = self.attempts(chance=0.5)
        self.assertEqual(attempts.after_problem(self.REQUEST, self.problem(429, retry_after=7)), 7.05)
        with self.assertRaises(cuckood.ProblemError):
            attempts.after_problem(self.REQUEST, self.problem(429, retry_after=61))

    def test_patience_ends(self):
        attempts = self.attempts(patience=10)
        self.now = 10.0
        with self.assertRaises(cuckood.NoAnswerError):
            attempts.after_silence(self.REQUEST, httpx.ReadError("gone"))

    def test_only_what_can_pass_is_sent_again(self):
        once = Request("PUT", "/x", repeatable=False)
        for request, problem, again in (
            (self.REQUEST, self.problem(409, "idempotency_in_flight"), True),
            (self.REQUEST, self.problem(500, "outcome_unknown"), True),
            (self.REQUEST, self.problem(409, "filter_differs"), False),
            (self.REQUEST, self.problem(507, "disk_full"), False),
            (once, self.problem(503), True),
            (once, self.problem(500, "outcome_unknown"), False),
            (self.REQUEST, self.problem(503, "outcome_pending"), True),
            (once, self.problem(503, "outcome_pending"), False),
        ):
            with self.subTest(problem=problem, repeatable=request.repeatable):
                if again:
                    self.attempts().after_problem(request, problem)
                else:
                    with self.assertRaises(cuckood.ProblemError):
                        self.attempts().after_problem(request, problem)
        self.attempts().after_silence(once, httpx.ConnectError("refused"))
        with self.assertRaises(cuckood.NoAnswerError):
            self.attempts().after_silence(self.REQUEST, httpx.UnsupportedProtocol("ftp"))
        with self.assertRaises(cuckood.NoAnswerError):
            self.attempts().after_silence(once, httpx.ReadError("gone"))

    def test_a_change_may_be_made_if_one_of_its_attempts_was_sent(self):
        attempts, change = self.attempts(), Request("POST", "/x", headers={"idempotency-key": "mine"})
        attempts.after_silence(change, httpx.ReadError("gone"))
        self.now = 61.0
        with self.assertRaisesRegex(cuckood.NoAnswerError, "refused.: the change may be made$"):
            attempts.after_silence(change, httpx.ConnectError("refused"))
        with self.assertRaisesRegex(cuckood.NoAnswerError, "gone.: the change may be made$"):
            self.attempts(patience=0.0).after_silence(Request("POST", "/x/import"), httpx.ReadError("gone"))


class Package(Served):
    def test_what_is_generated_is_current(self):
        subprocess.run([sys.executable, PACKAGE / "generate.py", "--check"], check=True)

    def test_the_clients_have_the_version_of_the_server(self):
        versions = [
            tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"],
            tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["version"],
            json.loads((ROOT / "clients/typescript/package.json").read_text())["version"],
        ]
        self.assertEqual(len(set(versions)), 1, versions)

    def test_the_examples_of_its_pages_work_as_printed(self):
        os.environ["CUCKOOD_SERVER"] = self.server.url("")
        self.addCleanup(os.environ.pop, "CUCKOOD_SERVER")
        self.enterContext(contextlib.chdir(self.directory.name))
        for page in PAGES:
            ran = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
            self.assertEqual(ran.failed, 0)
            self.assertGreater(ran.attempted, 9)

    def test_pip_installs_it_with_its_types(self):
        with tempfile.TemporaryDirectory() as target:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "--target", target, PACKAGE], check=True)
            where = subprocess.run(
                [sys.executable, "-c", "import cuckood; print(cuckood.__file__); cuckood.Client().filter('a')"],
                env={"PYTHONPATH": target}, check=True, stdout=subprocess.PIPE, text=True,
            ).stdout
            self.assertTrue(where.startswith(target), where)
            self.assertTrue((pathlib.Path(target) / "cuckood/py.typed").exists())


if __name__ == "__main__":
    unittest.main()
