"""What the clients promise about clusters, over three pods: another one is asked
where one fails, each change is made once, and a client reads what it wrote,
whichever pod it asks."""

import asyncio
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "clients/python/src")]

import cuckood  # noqa: E402
import httpx  # noqa: E402
from cuckood._pods import Pods as Addresses  # noqa: E402
from cuckood._pods import Positions  # noqa: E402
from cuckood._retry import Attempts, Backoff, Request  # noqa: E402
from pods import Pods  # noqa: E402
from served import BINARY, Server  # noqa: E402
from typescript_project import project  # noqa: E402

ADDS = 60


class Clusters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Pods())

    def client(self, urls, **options):
        client = cuckood.Client(urls, **options)
        self.addCleanup(client.close)
        return client

    def test_a_client_reads_what_it_wrote_on_any_pod(self):
        client = self.client(self.cluster.urls)
        own = client.filter("own")
        own.create(capacity=1000)
        pods = client._transport._pods
        for number in range(120):
            pods.failed(pods.current)
            own.add(number)
            pods.failed(pods.current)
            self.assertTrue(own.exists(number))
            self.assertEqual(client.lookup([number], filters=["own"]).results, [["own"]])

    def test_a_strong_question_sees_what_another_client_wrote(self):
        writer, reader = self.client(self.cluster.urls[0]), self.client(self.cluster.urls[1], consistency="strong")
        writer.filter("shared").create(capacity=1000)
        for number in range(60):
            writer.filter("shared").add(number)
            self.assertTrue(reader.filter("shared").exists(number))
        self.assertEqual(reader.filter("shared").info().items, 60)
        with self.assertRaises(cuckood.InvalidRequest):
            self.client(self.cluster.urls[0], consistency="weak").filter("shared").info()

    def test_positions_that_the_cluster_does_not_know_are_forgotten(self):
        client = self.client(self.cluster.urls)
        client._transport._positions.note({"cuckood-position": "77.3.5"})
        client.filter("after").create(capacity=10)
        self.assertFalse(client.filter("after").exists("a"))

    def test_the_cluster_is_described(self):
        it = self.client(self.cluster.urls).cluster()
        self.assertEqual((it.cluster, len(it.lanes)), ("shop", 4))
        self.assertLessEqual({pod.address for pod in it.pods}, set(self.cluster.urls))


class FailOver(unittest.TestCase):
    """A pod is killed while a client works with it."""

    def setUp(self):
        self.cluster = self.enterContext(Pods())

    def kill(self):
        self.cluster.pods[0].process.kill()
        self.cluster.pods[0].process.wait()

    def assert_once(self, urls, name):
        with cuckood.Client(urls, consistency="strong") as strong:
            self.assertEqual(strong.filter(name).info().items, ADDS)
            self.assertEqual(strong.filter(name).count_many(range(ADDS)), [1] * ADDS)

    def test_python_goes_on_with_another_pod_and_makes_each_change_once(self):
        names = ["sync", "async", *(f"more-{number}" for number in range(4))]
        with cuckood.Client(self.cluster.urls) as client:
            for name in names:
                # Filters of several lanes, so that the pod leads some.
                client.filter(name).create(capacity=1000, fingerprint_bits=32)
            for number in range(ADDS // 2):
                client.filter("sync").add(number)
            self.kill()
            started = time.monotonic()
            # Questions go on at once.
            self.assertTrue(client.filter("sync").exists(0))
            self.assertLess(time.monotonic() - started, 3)
            for number in range(ADDS // 2, ADDS):
                client.filter("sync").add(number)
            for name in names:
                client.filter(name).add("after")
                self.assertTrue(client.filter(name).exists("after"))
                client.filter(name).delete("after")

        async def others():
            async with cuckood.AsyncClient(self.cluster.urls) as client:
                adds = (client.filter("async").add(number) for number in range(ADDS))
                await asyncio.gather(*adds)
                self.assertTrue(all(await client.filter("async").exists_many(range(ADDS))))

        asyncio.run(others())
        for name in ("sync", "async"):
            self.assert_once(self.cluster.urls[1:], name)

    def test_typescript_does_so_too(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        environment = os.environ | {
            "PODS": ",".join(self.cluster.urls), "LEADER": str(self.cluster.pods[0].process.pid), "ADDS": str(ADDS),
        }
        ran = subprocess.run(
            ["node", "--test", "--test-reporter=tap", "pods.test.js"], cwd=project(directory), env=environment,
        )
        self.assertEqual(ran.returncode, 0)
        self.assert_once(self.cluster.urls[1:], "typed")


class Deaf:
    """An address at which nobody accepts a connection, and nobody refuses one, as that
    of a host that is cut off. Use it in a `with`."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        # What is waiting leaves no room for more.
        self.waiting = [socket.socket() for _ in range(3)]
        for one in self.waiting:
            one.setblocking(False)
            one.connect_ex(self.socket.getsockname())
        return self

    def __exit__(self, *_):
        for one in (self.socket, *self.waiting):
            one.close()


class CutOff(unittest.TestCase):
    """A host is cut off: connections are neither accepted nor refused."""

    def setUp(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.server = Server(BINARY, directory)
        self.addCleanup(self.server.process.wait)
        self.addCleanup(self.server.process.kill)
        self.urls = [self.enterContext(Deaf()).url, self.server.url("")]

    def assert_a_second(self, started):
        # The rest is for a busy machine: without a bound it is 30 s.
        took = time.monotonic() - started
        self.assertTrue(0.9 < took < 5, took)

    def test_python_leaves_the_pod_after_a_second(self):
        with cuckood.Client(self.urls) as client:
            started = time.monotonic()
            client.filter("a").create(capacity=100)
            self.assert_a_second(started)
            self.assertEqual(client.url, self.urls[1])

        async def other():
            async with cuckood.AsyncClient(self.urls) as client:
                started = time.monotonic()
                await client.filter("c").create(capacity=100)
                self.assert_a_second(started)

        asyncio.run(other())

    def test_typescript_does_so_too(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        ran = subprocess.run(
            ["node", "--test", "--test-reporter=tap", "reach.test.js"], cwd=project(directory),
            env=os.environ | {"PODS": ",".join(self.urls)},
        )
        self.assertEqual(ran.returncode, 0)


class Turns(unittest.TestCase):
    REQUEST = Request("POST", "/x")

    def test_each_pod_is_asked_before_the_first_pause(self):
        attempts = Attempts(Backoff(60, chance=lambda: 1.0, clock=lambda: 0.0), pods=3)
        busy = cuckood.ProblemError(503, "not_leading", "", retry_after=1)
        pauses = [attempts.after_problem(self.REQUEST, busy) for _ in range(7)]
        self.assertEqual(pauses, [0, 0, 1.1, 0, 0, 1.2, 0])
        # The rate of a key is the same everywhere.
        attempts = Attempts(Backoff(60, chance=lambda: 1.0, clock=lambda: 0.0), pods=3)
        over = cuckood.ProblemError(429, "rate_limited", "", retry_after=2)
        self.assertEqual(attempts.after_problem(self.REQUEST, over), 2.1)
        silent = httpx.ConnectError("refused")
        self.assertEqual(attempts.after_silence(self.REQUEST, silent), 0)

    def test_a_pod_that_failed_is_left_once(self):
        pods = Addresses(["a:1", "http://b:2/", " https://c"])
        self.assertEqual(pods.current, "http://a:1")
        pods.failed("http://a:1")
        pods.failed("http://a:1")
        self.assertEqual(pods.current, "http://b:2")
        pods.failed("http://b:2")
        self.assertEqual(pods.current, "https://c")
        pods.failed("https://c")
        self.assertEqual(pods.current, "http://a:1")

    def test_the_newest_position_of_each_lane_is_kept(self):
        positions = Positions()
        self.assertEqual(positions.headers(), {})
        for said in ("1.0.5", "1.3.9", "1.0.4"):
            positions.note({"cuckood-position": said})
        self.assertEqual(positions.headers(), {"cuckood-min-position": "1.0.5,1.3.9"})
        positions.note({"cuckood-position": "2.3.1"})
        positions.note({"cuckood-position": "1.3.10"})
        self.assertEqual(positions.headers(), {"cuckood-min-position": "2.3.1"})
        self.assertTrue(positions.forget())
        self.assertFalse(positions.forget())


if __name__ == "__main__":
    unittest.main()
