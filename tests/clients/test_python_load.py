"""The Python client under load: every kind of source of an import, thousands of calls
at once, and what it says when it fails. CUCKOOD_LINES lines are imported from each
source (20000), CUCKOOD_CALLS calls made at once (2000)."""

import asyncio
import codecs
import contextlib
import datetime
import gzip
import io
import logging
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "clients/python/src")]

import cuckood  # noqa: E402
import httpx  # noqa: E402
from cuckood._async.connections import AsyncConnections  # noqa: E402
from served import free_port  # noqa: E402
from test_python import Served  # noqa: E402

LINES = int(os.environ.get("CUCKOOD_LINES", 20_000))
CALLS = int(os.environ.get("CUCKOOD_CALLS", 2_000))


class Imports(Served):
    """Whatever gives the lines, exactly these are in the filter afterwards."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.items = [f"line-{number}" for number in range(LINES)]
        directory = pathlib.Path(cls.directory.name)
        cls.text, cls.windows, cls.packed, cls.json = (
            directory / name for name in ("lines.txt", "windows.txt", "lines.txt.gz", "lines.ndjson.gz")
        )
        cls.text.write_text("".join(f"{item}\n" for item in cls.items))
        # As an editor on Windows writes it, without an end of the last line.
        cls.windows.write_bytes(codecs.BOM_UTF8 + "\r\n".join(cls.items).encode())
        cls.packed.write_bytes(gzip.compress(cls.text.read_bytes()))
        cls.json.write_bytes(gzip.compress("".join(f'"{item}"\n' for item in cls.items).encode()))

    def sources(self):
        def slow():
            for number, item in enumerate(self.items):
                if number % (LINES // 10) == 0:
                    time.sleep(0.05)
                yield item

        opened = lambda *how, **words: self.enterContext(open(*how, **words))
        return {
            "list": self.items,
            "tuple": tuple(self.items),
            "keys of a dictionary": dict.fromkeys(self.items).keys(),
            "generator": (item for item in self.items),
            "slow generator": slow(),
            "map": map(str, self.items),
            "text file": opened(self.text),
            "text file with a mark": opened(self.windows, encoding="utf-8"),
            "binary file": opened(self.text, "rb"),
            "binary file of Windows": opened(self.windows, "rb"),
            "text file, ends as they are": opened(self.windows, encoding="utf-8", newline=""),
            "gzip file": self.enterContext(gzip.open(self.packed)),
            "gzip file as text": self.enterContext(gzip.open(self.packed, "rt")),
            "string file": io.StringIO(self.text.read_text()),
            "lines of a generator over a file": (line for line in opened(self.text)),
            "dictionaries": ({"item": item} for item in self.items),
        }

    def asynchronous(self):
        async def fast():
            for item in self.items:
                yield item

        async def slow():
            for number, item in enumerate(self.items):
                if number % (LINES // 10) == 0:
                    await asyncio.sleep(0.05)
                yield item

        async def each_by_itself():
            for item in self.items[: LINES // 10]:
                await asyncio.sleep(0)
                yield item
            for item in self.items[LINES // 10 :]:
                yield item

        class Iterable:
            def __aiter__(self):
                return fast()

        async def stream():
            for line in self.text.read_bytes().splitlines(keepends=True):
                yield line

        return {
            "async generator": fast(), "slow async generator": slow(), "one that waits": each_by_itself(),
            "async iterable": Iterable(), "lines of a stream": stream(),
        }

    def assert_exactly_there(self, key, report, seconds):
        """Asks the server, not the client that is tested."""
        client = self.client()
        self.assertEqual((report.added, report.committed_lines, report.state), (LINES, LINES, "complete"))
        self.assertEqual(client.filter(key).info().items, LINES)
        self.assertEqual(client.filter(key).count_many(self.items), [1] * LINES)
        if LINES >= 1_000_000:
            print(f"{key}: {LINES} lines in {seconds:.1f} s", flush=True)
        client.filter(key).drop()

    def fresh(self, client, key):
        client.filter(key).create(capacity=LINES, fingerprint_bits=32)
        return client.filter(key)

    def test_every_source_is_imported_exactly(self):
        client = self.client()
        for name, source in self.sources().items():
            with self.subTest(name):
                key = f"sync-{name.replace(' ', '-')}"
                filter, began = self.fresh(client, key), time.monotonic()
                self.assert_exactly_there(key, filter.import_items(source), time.monotonic() - began)

    def test_every_source_is_imported_exactly_by_the_asynchronous_client(self):
        async def each():
            async with cuckood.AsyncClient(self.server.url("")) as client:
                for name, source in {**self.sources(), **self.asynchronous()}.items():
                    with self.subTest(name):
                        key = f"async-{name.replace(' ', '-')}"
                        filter, began = client.filter(key), time.monotonic()
                        await filter.create(capacity=LINES, fingerprint_bits=32)
                        report = await filter.import_items(source)
                        await asyncio.to_thread(self.assert_exactly_there, key, report, time.monotonic() - began)

        asyncio.run(each())

    def test_every_file_is_imported_exactly(self):
        async def with_async(path, key):
            async with cuckood.AsyncClient(self.server.url("")) as client:
                return await client.filter(key).import_file(path)

        client = self.client()
        for path in (self.text, self.windows, str(self.packed), self.json):
            name = pathlib.Path(path).name
            with self.subTest(name):
                filter, began = self.fresh(client, name), time.monotonic()
                self.assert_exactly_there(name, filter.import_file(path), time.monotonic() - began)
                self.fresh(client, name)
                self.assert_exactly_there(name, asyncio.run(with_async(path, name)), 0)

    def test_an_import_tells_how_far_it_is_and_takes_up_a_file_again(self):
        guests, told = self.fresh(self.client(), "resumed"), []

        def torn(lines):
            yield from lines[: LINES // 2]
            raise OSError("the disk is gone")

        with self.assertRaises(OSError):
            guests.import_items(torn([*self.items, *self.items]), import_id="file")
        report = guests.import_file(self.packed, import_id="file", on_progress=told.append)
        self.assertEqual(report, told[-1])
        self.assert_exactly_there("resumed", report, 0)

        async def asynchronous():
            async def tell(report):
                told.append(report.committed_lines)

            async with cuckood.AsyncClient(self.server.url("")) as client:
                await client.filter("told").create(capacity=LINES)
                return await client.filter("told").import_file(self.text, on_progress=tell)

        self.assertEqual(asyncio.run(asynchronous()).committed_lines, told[-1])

    def test_fewer_lines_than_are_committed_are_another_list(self):
        path = pathlib.Path(self.directory.name) / "shorter.txt"
        for number in range(4):
            path.write_text("".join(f"{it}\n" for it in range(10, 10 + number)))

            async def names():
                for it in range(10, 10 + number):
                    yield str(it)

            async def asynchronous(give):
                async with cuckood.AsyncClient(self.server.url("")) as client:
                    return await give(client.filter("autumn"))

            autumn = self.fresh(self.client(), "autumn")
            self.assertEqual(autumn.import_items(["a", "b", "c"], import_id="autumn-1").added, 3)
            for give in (
                lambda: autumn.import_items(range(number), import_id="autumn-1"),
                lambda: autumn.import_file(path, import_id="autumn-1"),
                lambda: asyncio.run(asynchronous(lambda it: it.import_items(range(number), import_id="autumn-1"))),
                lambda: asyncio.run(asynchronous(lambda it: it.import_items(names(), import_id="autumn-1"))),
                lambda: asyncio.run(asynchronous(lambda it: it.import_file(path, import_id="autumn-1"))),
            ):
                if number == 3:
                    self.assertEqual(give().committed_lines, 3)
                    continue
                with self.assertRaisesRegex(
                    cuckood.CuckoodError, f"3 lines are committed, and {number} were given: .*a new list needs a new import_id",
                ):
                    give()

    def test_a_slow_source_is_committed_while_it_gives(self):
        chunks = [*cuckood._each.chunks((time.sleep(0.6) or str(number) for number in range(10)), 0)]
        self.assertGreater(len(chunks), 1)
        self.assertEqual(b"".join(chunk.content for chunk in chunks).split(), [b"%d" % n for n in range(10)])

    def test_an_item_is_what_was_given_but_for_the_end_of_its_line(self):
        odd = self.fresh(self.client(), "odd")
        given = ["a\n", "b\r\n", b"c\n", b"\xff\xfe\n", "d\r", "", "\n", "tab\there", 7, {"item": "two\nlines"}, {"item": "e\n"}, b"f"]
        ends = [b"g\r", b"\xff\r", b"h\r\r\n", b"\r", "i\r", {"item": "j\r"}, b"k\r"]
        report = odd.import_items(["\ufefffirst", *given, *ends])
        self.assertEqual((report.added, report.blank_lines), (19, 1))
        there = ["first", "a", "b", "c", b"\xff\xfe", "d\r", "", "tab\there", "7", "two\nlines", "e\n", "f"]
        there += ["g\r", b"\xff\r", "h\r", "\r", "i\r", "j\r", "k\r"]
        self.assertEqual(odd.count_many(there), [1] * len(there))
        for empty in ("", b""):
            odd.import_items([empty])
        self.assertEqual(odd.count(""), 3)
        for unsayable in (b"\xff\n\r", {"item": b"\xff\n"}):
            with self.assertRaisesRegex(ValueError, "add_many"):
                odd.import_items([unsayable])
        for refused in ("abc", b"abc"):
            with self.assertRaisesRegex(TypeError, "is one item, not many"):
                odd.import_items(refused)
        with self.assertRaisesRegex(TypeError, "import_file"):
            odd.import_items(self.text)
        for pieces in ([b"a\nb"], ["a", "b\r\nc\n"], ["\n\n"]):
            with self.assertRaisesRegex(ValueError, "more than one line: for a file use import_file"):
                odd.import_items(pieces)
        with self.assertRaises(TypeError):
            odd.import_items([None])

    def test_the_last_line_of_a_file_may_lack_its_line_feed(self):
        client = self.client()
        for number, content in enumerate((b"a\r\nb\r", b"a\nb", b"a\r\n\r\nb\r\n\r")):
            path = pathlib.Path(self.directory.name) / f"unended-{number}.txt"
            path.write_bytes(content)
            ways = {
                "path": lambda it: it.import_file(path),
                "binary": lambda it: it.import_items(self.enterContext(open(path, "rb"))),
                "ends as they are": lambda it: it.import_items(self.enterContext(open(path, newline=""))),
            }
            for name, imported in ways.items():
                with self.subTest(name, content=content):
                    filter = client.filter(f"unended-{number}-{name.replace(' ', '-')}")
                    filter.create(capacity=100, fingerprint_bits=32)
                    self.assertEqual(imported(filter).added, 2)
                    self.assertEqual(filter.count_many(["a", "b", "b\r", ""]), [1, 1, 0, 0])

    def test_what_is_packed_is_refused_where_only_a_file_is_unpacked(self):
        packed = self.fresh(self.client(), "packed-stream")
        how = ({"mode": "rb"}, {"errors": "replace", "encoding": "utf-8"}, {"encoding": "latin-1"})
        for words in how:
            with self.subTest(words), open(self.packed, **words) as source:
                with self.assertRaisesRegex(ValueError, r"packed with gzip: import_file\(path\)"):
                    packed.import_items(source)
        self.assertEqual(packed.info().items, 0)

    def test_a_file_of_utf_16_is_refused(self):
        target = self.client().filter("utf-16")
        target.create(capacity=100)
        for name, content in (
            ("little.txt", "ada\n".encode("utf-16")), ("big.ndjson", codecs.BOM_UTF16_BE + '"ada"\n'.encode("utf-16-be")),
            ("packed.gz", gzip.compress("ada\n".encode("utf-16"))),
        ):
            path = pathlib.Path(self.directory.name) / name
            path.write_bytes(content)
            with self.subTest(name), self.assertRaisesRegex(ValueError, f"{name} is UTF-16: convert it to UTF-8"):
                target.import_file(path)
        self.assertEqual(target.info().items, 0)

    def test_bytes_of_a_file_that_are_no_utf_8_are_items_as_they_are(self):
        latin = self.fresh(self.client(), "latin")
        path = pathlib.Path(self.directory.name) / "latin.txt"
        path.write_bytes("M\u00fcller\nada\n".encode("latin-1"))
        self.assertEqual(latin.import_file(path).added, 2)
        self.assertEqual(latin.exists_many(["ada", "M\u00fcller".encode("latin-1"), "M\u00fcller"]), [True, True, False])

    def test_an_item_with_a_lone_surrogate_is_refused_by_its_name(self):
        target = self.client().filter("surrogates")
        target.create(capacity=100)
        lone = "x\ud800"
        for call in (
            lambda: target.add(lone), lambda: target.exists_many(["a", lone]), lambda: target.add_many([b"a", lone]),
            lambda: target.import_items(["a", lone]), lambda: target.import_items([{"item": lone}]),
        ):
            with self.assertRaisesRegex(ValueError, r"^'x\\ud800' is no item: it has a lone surrogate"):
                call()
        self.assertEqual(target.info().items, 0)

    def test_a_dictionary_has_entries(self):
        values = self.client().filter("from-dictionaries")
        values.create(capacity=1000, value_bits=12, fingerprint_bits=32)
        self.assertEqual(values.add_values({"ada": 1, "grace": 2}).results, ["added", "added"])
        self.assertEqual(values.import_items({"alan": 3}).added, 1)
        self.assertEqual(values.has_values({"ada": 1, "grace": 1, "alan": 3}), [True, False, True])
        self.assertEqual(values.delete_values({"ada": 1}), [True])
        with self.assertRaisesRegex(TypeError, r"\(2, 5\) is no value"):
            values.replace_values({"grace": (2, 5)})
        for call in (values.add_values, values.import_items, values.has_values, values.delete_values):
            with self.subTest(call.__name__):
                with self.assertRaisesRegex(TypeError, "is one entry, not many: pass a list"):
                    call({"item": 5, "value": 7})
                with self.assertRaisesRegex(TypeError, "'abc' is one item, not many: pass a list"):
                    call("abc")
        for call in (values.add_values, values.has_values, values.delete_values):
            with self.subTest(call.__name__), self.assertRaisesRegex(TypeError, "'ada' is no entry: .*with a value"):
                call(["ada"])
        for wrong in (["ada"], ("ada", 1), {"item": "ada", "value": 1}):
            for call in (values.add, values.exists, values.delete):
                with self.subTest(wrong), self.assertRaisesRegex(TypeError, "is no item: .*entries with add_values"):
                    call(wrong)
            with self.subTest(wrong), self.assertRaisesRegex(TypeError, "is no item: .*entries with add_values"):
                values.add_many([wrong])
        self.assertEqual(values.info().items, 2)

    def test_values_rows_and_windows_are_imported_from_tuples_mappings_and_lines(self):
        client = self.client()
        values, rows, window = (client.filter(key) for key in ("values", "rows", "window"))
        values.create(capacity=1000, value_bits=12)
        report = values.import_items([("ada", 1), ("ada", 2), {"item": "grace", "value": 3}, {"item": 7, "value": 4}])
        self.assertEqual((report.added, values.values_many(["ada", "grace", "7"])), (4, [[1, 2], [3], [4]]))
        self.assertEqual(values.import_items(io.StringIO("mary\t5\nmary\t6\n")).added, 2)
        self.assertEqual(values.values("mary"), [5, 6])
        rows.create(capacity=1000, attributes=[{"name": "plan", "values": ["free", "pro"]}])
        entries = [("ada", {"plan": "pro"}), {"item": "grace", "attributes": {"plan": "free"}}]
        self.assertEqual(rows.import_items(entries).added, 2)
        self.assertEqual(rows.exists_many(["ada", "grace"], where={"plan": ["pro"]}), [True, False])
        window.create(capacity=1000, window_seconds=datetime.timedelta(days=1))
        self.assertEqual(window.import_items(["ada", "ada"]).exists, 1)
        self.assertTrue(window.exists("ada", within_seconds=datetime.timedelta(hours=23)))
        with self.assertRaisesRegex(ValueError, "whole number of seconds"):
            window.exists("ada", within_seconds=datetime.timedelta(seconds=1.5))

    def test_a_line_that_was_not_imported_is_an_error(self):
        values = self.client().filter("strict")
        values.create(capacity=1000, value_bits=12)
        given = [("ada", 1), ("ada", 5000), "alone", ("grace", 2)]
        with self.assertRaisesRegex(cuckood.ImportIncomplete, "2 bad .line 2: value_too_large, line 3") as incomplete:
            values.import_items(given)
        self.assertEqual((incomplete.exception.report.added, values.info().items), (2, 2))
        self.assertEqual(values.import_items(given, allow_partial=True).bad_lines, 2)
        full = self.client().filter("no-room")
        full.create(capacity=100, expansion=0)
        with self.assertRaisesRegex(cuckood.ImportIncomplete, "without room .expansion_off"):
            full.import_items(range(9000))

    def test_entries_create_their_filter_if_asked(self):
        made = self.client().filter("made")
        with self.assertRaises(cuckood.FilterNotFound):
            made.add_values([("ada", 1)])
        added = made.add_values(iter([{"item": "ada", "value": 1}]), create={"value_bits": 12})
        self.assertEqual((added.results, made.values("ada")), (["added"], [1]))

    def test_an_import_creates_its_filter_if_asked(self):
        client = self.client()
        coupons = client.filter("imported")
        with self.assertRaises(cuckood.FilterNotFound):
            coupons.import_file(self.text)
        with self.assertRaises(FileNotFoundError):
            coupons.import_file(self.text.with_name("none"), create={"capacity": LINES})
        self.assertFalse(coupons.is_there())
        self.assertEqual(coupons.import_file(self.text, create={"capacity": LINES}).added, LINES)
        # One that is there is taken as it is.
        self.assertEqual(coupons.import_items(["more"], create={"capacity": 5}).added, 1)
        self.assertEqual((coupons.info().capacity, coupons.info().items), (LINES, LINES + 1))

    def test_a_filter_that_another_caller_creates_at_the_same_time_is_taken_as_it_is(self):
        other, inner, wanted = self.client(), httpx.HTTPTransport(), {"capacity": 100, "value_bits": 8}

        class Late(httpx.BaseTransport):
            def handle_request(self, request):
                if request.method == "PUT":
                    other.filter(request.url.path.rsplit("/", 1)[1]).create(capacity=1000, value_bits=8)
                return inner.handle_request(request)

            def close(self):
                inner.close()

        late = self.client(http=self.enterContext(httpx.Client(transport=Late())))
        late.filter("raced-values").add_values([("ada", 1)], create=wanted)
        late.filter("raced-import").import_items([("ada", 1)], create=wanted)
        for key in ("raced-values", "raced-import"):
            self.assertEqual((other.filter(key).values("ada"), other.filter(key).info().capacity), ([1], 1000))


class Crowds(Served):
    """Thousands of calls at once: none fails."""

    async def counted(self, work, **options):
        """What `work` says with a client, and how many requests were sent, and at most at once."""
        sent = now = most = 0
        pool = options.pop("pool", None)
        inner = AsyncConnections() if pool is None else httpx.AsyncHTTPTransport(limits=pool)

        class Counting(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request):
                nonlocal sent, now, most
                sent, now = sent + 1, now + 1
                most = max(most, now)
                try:
                    return await inner.handle_async_request(request)
                finally:
                    now -= 1

            async def aclose(self):
                await inner.aclose()

        async with httpx.AsyncClient(transport=Counting()) as http:
            async with cuckood.AsyncClient(self.server.url(""), http=http, **options) as client:
                began = time.monotonic()
                said = await work(client)
                seconds = time.monotonic() - began
        return said, sent, most, seconds

    def at_once(self, work, **options):
        said, sent, most, seconds = asyncio.run(self.counted(work, **options))
        if CALLS >= 10_000:
            print(f"{self.id().rsplit('.')[-1]}: {sent} requests, {most} at once, {seconds:.1f} s", flush=True)
        return said, sent, most

    def test_questions_at_once_are_some_batches(self):
        self.client().filter("asked").add_many(range(CALLS), create={"capacity": CALLS, "fingerprint_bits": 32})

        async def ask(client):
            asked = client.filter("asked")
            found = await asyncio.gather(*(asked.exists(f"no-{n}" if n % 2 else n) for n in range(CALLS)))
            counts = await asyncio.gather(*(asked.count(n) for n in range(CALLS)))
            return found, counts

        (found, counts), sent, most = self.at_once(ask)
        self.assertEqual((found, counts), ([n % 2 == 0 for n in range(CALLS)], [1] * CALLS))
        self.assertLessEqual(sent, 2 * -(-CALLS // 1000))
        self.assertLessEqual(most, 64)

    def test_changes_at_once_wait_for_a_place(self):
        self.client().filter("made").create(capacity=CALLS, fingerprint_bits=32)

        async def add(client):
            made = client.filter("made")
            return await asyncio.gather(*(made.add(n) for n in range(CALLS)))

        said, sent, most = self.at_once(add)
        self.assertEqual((set(said), sent, most), ({"added"}, CALLS, 64))
        self.assertEqual(self.client().filter("made").info().items, CALLS)

    def test_changes_go_together_where_that_was_asked_for(self):
        self.client().filter("batched").create(capacity=CALLS, fingerprint_bits=32)

        async def add(client):
            batched = client.filter("batched")
            added = await asyncio.gather(*(batched.add(n) for n in range(CALLS)))
            deleted = await asyncio.gather(*(batched.delete(n) for n in range(CALLS // 2)))
            return added, deleted

        (added, deleted), sent, _ = self.at_once(add, coalesce_changes=True)
        self.assertEqual((set(added), set(deleted)), ({"added"}, {True}))
        self.assertLessEqual(sent, 2 * -(-CALLS // 1000))
        self.assertEqual(self.client().filter("batched").info().items, CALLS - CALLS // 2)

        async def keyed(client):
            return await asyncio.gather(*(client.filter("batched").add(n, idempotency_key=f"key-{n}") for n in range(3)))

        self.assertEqual(self.at_once(keyed, coalesce_changes=True)[1], 3)

    def test_one_item_that_is_refused_fails_for_itself_alone(self):
        self.client().filter("picky").create(capacity=1000, fingerprint_bits=32)

        async def mixed(client):
            picky = client.filter("picky")
            items = ["ada", 2**70, "grace", "x" * 90_000, "alan", "x\ud800"]
            return [
                await asyncio.gather(*(call(item) for item in items), return_exceptions=True)
                for call in (picky.add, picky.exists)
            ]

        (added, found), sent, _ = self.at_once(mixed, coalesce_changes=True)
        # The batch, each that it names by itself, and the rest.
        self.assertEqual(sent, 8)
        for results, good in ((added, "added"), (found, True)):
            self.assertEqual([results[at] for at in (0, 2, 4)], [good] * 3)
            self.assertRegex(str(results[5]), "lone surrogate")
            for at in (1, 3):
                self.assertIsInstance(results[at], cuckood.InvalidRequest)
                self.assertEqual(results[at].errors[0].pointer, "/items/0")
        self.assertEqual(self.client().filter("picky").info().items, 3)

    def test_what_fails_for_all_fails_for_each(self):
        async def ask(client):
            missing = client.filter("missing")
            return await asyncio.gather(*(missing.exists(n) for n in range(50)), return_exceptions=True)

        said, sent, _ = self.at_once(ask)
        self.assertEqual(({type(it) for it in said}, sent), ({cuckood.FilterNotFound}, 1))

    def test_one_who_gives_up_takes_nobody_along(self):
        self.client().filter("left").add("ada", create={"capacity": 100, "fingerprint_bits": 32})

        async def ask(client):
            left = client.filter("left")
            tasks = [asyncio.ensure_future(left.exists("ada")) for _ in range(10)]
            await asyncio.sleep(0)
            tasks[3].cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

        said, *_ = self.at_once(ask)
        self.assertIsInstance(said.pop(3), asyncio.CancelledError)
        self.assertEqual(said, [True] * 9)

    def test_a_small_pool_of_ones_own_makes_calls_wait(self):
        self.client().filter("pool").create(capacity=1000, fingerprint_bits=32)

        async def add(client):
            return await asyncio.gather(*(client.filter("pool").add(n) for n in range(200)))

        said, sent, _ = self.at_once(add, pool=httpx.Limits(max_connections=3), timeout=datetime.timedelta(seconds=20))
        self.assertEqual((set(said), sent), ({"added"}, 200))

    def test_threads_that_share_a_client_are_bounded(self):
        lock, now, most = threading.Lock(), 0, 0
        inner = httpx.HTTPTransport()

        class Counting(httpx.BaseTransport):
            def handle_request(self, request):
                nonlocal now, most
                with lock:
                    now += 1
                    most = max(most, now)
                try:
                    return inner.handle_request(request)
                finally:
                    with lock:
                        now -= 1

            def close(self):
                inner.close()

        http = self.enterContext(httpx.Client(transport=Counting()))
        shared = self.client(http=http, max_in_flight=8).filter("shared")
        shared.create(capacity=2000, fingerprint_bits=32)
        with ThreadPoolExecutor(100) as pool:
            self.assertEqual(set(pool.map(shared.add, range(1000))), {"added"})
            self.assertTrue(all(pool.map(shared.exists, range(1000))))
        self.assertEqual((shared.info().items, most), (1000, 8))


class Words(Served):
    """What is said when something fails."""

    def test_every_failure_has_a_cause_in_words(self):
        for failure in (
            httpx.ReadError(""), httpx.ReadTimeout(""), httpx.ConnectTimeout(""), httpx.WriteError(""),
            httpx.PoolTimeout(""), httpx.RemoteProtocolError(""), httpx.ConnectError("[Errno 111] refused"),
            httpx.DecodingError(""), httpx.TooManyRedirects(""),
        ):
            def fail(_, failure=failure):
                raise failure

            with self.subTest(type(failure).__name__):
                lost = self.client(http=httpx.Client(transport=httpx.MockTransport(fail)), patience=0)
                with self.assertRaisesRegex(cuckood.NoAnswerError, r"no answer: \w[\w ().\[\]]{10,}$"):
                    lost.filter("f").exists("a")

    def test_without_an_answer_a_change_may_be_made(self):
        def failures(request):
            raise given.pop(0)

        lost = self.client(http=httpx.Client(transport=httpx.MockTransport(failures)), patience=0).filter("f")
        for failure, says, may_be in (
            (httpx.ReadError(""), "the connection broke before the answer", True),
            (httpx.ConnectError("refused"), "no connection could be made .refused.", False),
            (httpx.UnsupportedProtocol("ftp"), "UnsupportedProtocol .ftp.", False),
        ):
            for call in (lambda: lost.restore(iter([b"x"])), lambda: lost.restore(b"x"), lambda: lost.add("a"), lost.drop):
                given = [failure]
                with self.assertRaisesRegex(cuckood.NoAnswerError, says + ": the change may be made" * may_be + "$"):
                    call()
            for call in (lambda: lost.exists("a"), lost.info, lost.dump().__enter__):
                given = [failure]
                with self.assertRaisesRegex(cuckood.NoAnswerError, says + "$"):
                    call()

    def test_one_that_never_answers_is_said_to_be_late(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            late = self.client(url=url, timeout=datetime.timedelta(seconds=0.2), patience=datetime.timedelta(0))
            with self.assertRaisesRegex(cuckood.NoAnswerError, "the answer did not arrive in time"):
                late.filter("f").exists("a")

    def test_an_answer_that_cannot_be_unpacked_is_asked_for_once(self):
        asked = []

        def garbled(request):
            asked.append(request.url.path)
            return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"none"))

        client = self.client(http=httpx.Client(transport=httpx.MockTransport(garbled)))
        with self.assertRaisesRegex(cuckood.NoAnswerError, "the answer is not encoded as it says"):
            client.filter("f").info()
        with self.assertRaisesRegex(cuckood.NoAnswerError, "not encoded"), client.filter("f").dump() as pieces:
            next(pieces)
        self.assertEqual(asked, ["/filters/f", "/filters/f/dump"])

    def test_an_asynchronous_client_can_be_used_in_one_event_loop_after_another(self):
        client, given = cuckood.AsyncClient(self.server.url("")), httpx.AsyncClient()
        loops = client.filter("loops")

        async def calls():
            await loops.add("ada", create={"capacity": 1000})
            return await asyncio.gather(*(loops.count("ada") for _ in range(200)), *(loops.is_there() for _ in range(100)))

        # Connections, places and batches that wait are those of a loop.
        for turn in (1, 2, 3):
            self.assertEqual(asyncio.run(calls()), [turn] * 200 + [True] * 100)

        async def stopped():
            questions = [asyncio.ensure_future(loops.exists("ada")) for _ in range(3)]
            await asyncio.sleep(0)
            return questions

        asyncio.run(stopped())
        self.assertTrue(asyncio.run(loops.exists("ada")))

        async def beside():
            await loops.exists("ada")
            with self.assertRaisesRegex(cuckood.CuckoodError, "another event loop, and the first one is not closed"):
                await asyncio.to_thread(asyncio.run, loops.exists("ada"))

        asyncio.run(beside())
        lent = cuckood.AsyncClient(self.server.url(""), http=given).filter("loops")
        self.assertTrue(asyncio.run(lent.is_there()))
        with self.assertRaisesRegex(cuckood.CuckoodError, "the client of httpx that it was given belongs to the closed one"):
            asyncio.run(lent.is_there())
        asyncio.run(client.aclose())
        with self.assertRaisesRegex(cuckood.CuckoodError, "the client is closed: make another one"):
            asyncio.run(loops.exists("ada"))

    def test_attempts_that_follow_are_logged(self):
        nobody = self.client(url=f"http://127.0.0.1:{free_port()}", patience=0.4)
        with self.assertLogs("cuckood", logging.INFO) as logged, self.assertRaises(cuckood.NoAnswerError):
            nobody.filter("f").exists("a")
        self.assertRegex(logged.output[0], r"POST /filters/f/exists .*: no connection could be made .*attempt 2 follows in 0")

    def test_a_change_says_how_long_its_key_has_to_live(self):
        sent = []

        def note(request):
            sent.append(request.headers)
            return httpx.Response(200, json={"results": ["added"]})

        client = self.client(http=httpx.Client(transport=httpx.MockTransport(note)), timeout=30, patience=60.5)
        client.filter("f").add("a")
        client.filter("f").add("a", idempotency_key="mine")
        self.assertEqual([it.get("idempotency-key-lifetime") for it in sent], ["91", None])


class Trickling:
    """A server that does the next little thing in time, for half a minute: it answers a
    request with `says` and then with blanks, or takes the request itself piece by piece."""

    EVERY, TIMES = 0.02, 1500

    def __init__(self, says):
        self.says = says
        self.ended = threading.Event()
        self.listener = socket.socket()
        # Otherwise a kernel takes it in place of the server.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        connection, _ = self.listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(self.says)
            for _ in range(self.TIMES):
                if self.ended.wait(self.EVERY):
                    return
                connection.sendall(b" ") if self.says else connection.recv(1 << 16)

    def stop(self):
        self.ended.set()
        self.listener.close()


class Deadlines(unittest.TestCase):
    """One attempt ends in time, whatever comes and goes in pieces meanwhile."""

    HEADERS = b"HTTP/1.1 200 OK\r\nx-long: "
    BODY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
    # More than such a server takes.
    DUMP = bytes(100 << 20)

    def trickling(self, says):
        server = Trickling(says)
        self.addCleanup(server.stop)
        return {"url": server.url, "timeout": 1, "patience": 0}

    @contextlib.contextmanager
    def in_time(self, name):
        with self.subTest(name):
            began = time.monotonic()
            with self.assertRaisesRegex(cuckood.NoAnswerError, "in time"):
                yield
            # A busy machine is late, too.
            self.assertLess(time.monotonic() - began, 15)

    def test_an_attempt_of_the_synchronous_client_ends_in_time(self):
        for name, says in (("headers", self.HEADERS), ("answer", self.BODY)):
            with self.in_time(name), cuckood.Client(**self.trickling(says)) as client:
                client.filter("f").exists("ada")
        with self.in_time("request"), cuckood.Client(**self.trickling(b"")) as client:
            client.filter("f").restore(self.DUMP)

    def test_an_attempt_of_the_asynchronous_client_ends_in_time(self):
        async def ask(says, call):
            async with cuckood.AsyncClient(**self.trickling(says)) as client:
                await call(client.filter("f"))

        for name, says in (("headers", self.HEADERS), ("answer", self.BODY)):
            with self.in_time(name):
                asyncio.run(ask(says, lambda it: it.exists("ada")))
        with self.in_time("request"):
            asyncio.run(ask(b"", lambda it: it.restore(self.DUMP)))


class Counting:
    """A server that finds nothing, and counts its connections and the paths it is asked for."""

    def __init__(self):
        counting = self
        self.connections, self.paths = 0, []

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                counting.connections += 1

            def do_POST(self):
                counting.paths.append(self.path)
                self.rfile.read(int(self.headers["content-length"]))
                time.sleep(0.002)
                said = b'{"results": [false]}'
                self.send_response(200)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Connections(unittest.TestCase):
    """Of a client that was given none."""

    def setUp(self):
        self.server = Counting()
        self.addCleanup(self.server.stop)

    def test_there_are_about_as_many_as_calls_at_a_time_and_they_are_kept(self):
        async def ask():
            async with cuckood.AsyncClient(self.server.url, max_in_flight=8) as client:
                f = client.filter("f")
                await asyncio.gather(*(f.exists_many([n]) for n in range(200)))
                at_once = self.server.connections
                for n in range(50):
                    await f.exists_many([n])
            return at_once

        def ask_in_threads():
            with cuckood.Client(self.server.url, max_in_flight=8) as client, ThreadPoolExecutor(50) as threads:
                f = client.filter("f")
                list(threads.map(lambda n: f.exists(str(n)), range(200)))
                at_once = self.server.connections
                for n in range(50):
                    f.exists(str(n))
            return at_once

        for name, asked in (("tasks", lambda: asyncio.run(ask())), ("threads", ask_in_threads)):
            with self.subTest(name):
                self.server.connections = 0
                at_once = asked()
                self.assertIn(at_once, range(2, 9))
                self.assertEqual(self.server.connections, at_once)

    def test_a_proxy_of_the_environment_is_asked(self):
        with mock.patch.dict(os.environ, {"HTTP_PROXY": self.server.url, "NO_PROXY": "", "no_proxy": ""}):
            with cuckood.Client("http://cuckood.invalid:8080") as client:
                self.assertFalse(client.filter("f").exists("ada"))
        self.assertEqual(self.server.paths, ["http://cuckood.invalid:8080/filters/f/exists"])


if __name__ == "__main__":
    unittest.main()
