"""deploy/compose.yaml: what it mounts is there, and what it wires together
fits."""

import json
import tempfile
import unittest
from pathlib import Path

import yaml
from support import ALERTS, BINARY, DASHBOARD, ROOT, Server, known_variables, tool

COMPOSE = ROOT / "deploy/compose.yaml"
GRAFANA = ROOT / "deploy/grafana/provisioning"


def services():
    return yaml.safe_load(COMPOSE.read_text())["services"]


def mounts(service):
    """Files of the repository by where the container sees them."""
    found = {}
    for volume in services()[service]["volumes"]:
        source, target, *mode = volume.split(":")
        if source.startswith("."):
            assert mode == ["ro"], volume
            found[target] = (COMPOSE.parent / source).resolve()
    return found


class Compose(unittest.TestCase):
    def test_it_is_what_compose_reads(self):
        tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)

    def test_a_word_that_compose_does_not_know_is_noticed(self):
        with tempfile.TemporaryDirectory() as desk:
            broken = Path(desk) / "compose.yaml"
            broken.write_text(COMPOSE.read_text().replace("mem_limit:", "memory_limit:"))
            done = tool(
                *("check-jsonschema", "--builtin-schema", "vendor.compose-spec", broken),
                check=False,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("memory_limit", done.stdout)

    def test_what_it_mounts_is_there(self):
        self.assertEqual(
            set(mounts("prometheus").values()),
            {ROOT / "deploy/prometheus/prometheus.yaml", ALERTS},
        )
        self.assertEqual(set(mounts("grafana").values()), {GRAFANA, DASHBOARD})
        for service in services():
            for path in mounts(service).values():
                self.assertTrue(path.exists(), path)

    def test_it_is_reached_from_this_machine_only(self):
        for name, service in services().items():
            for port in service["ports"]:
                self.assertTrue(port.startswith("127.0.0.1:"), (name, port))

    def test_nothing_in_it_has_more_rights_or_memory_than_it_needs(self):
        for name, service in services().items():
            with self.subTest(name):
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertIn("no-new-privileges:true", service["security_opt"])
                self.assertIn("mem_limit", service)
        self.assertTrue(services()["cuckood"]["read_only"])

    def test_the_server_has_memory_for_all_that_it_may_take(self):
        service = services()["cuckood"]
        told = service["environment"]
        defaults = {"CUCKOOD_CACHE_BYTES", "CUCKOOD_BLOCK_CACHE_BYTES", "CUCKOOD_MAX_BUFFERED_BYTES"}
        self.assertFalse(defaults & set(told), "these are reckoned with as they are by default")
        limit, unit = int(service["mem_limit"][:-1]), service["mem_limit"][-1]
        self.assertEqual(unit, "m")
        # As docs/limits.md has it. The caches follow from the limit.
        cache, block_cache, bodies = limit / 4, limit / 16, 256
        plans = min(85 * int(told["CUCKOOD_LANES"]) + cache / 12, 1.5 * cache)
        self.assertLessEqual(1.3 * cache + block_cache + 128 + bodies + plans + 256, limit)

    def test_the_server_knows_every_variable(self):
        self.assertLessEqual(set(services()["cuckood"]["environment"]), known_variables())

    def test_the_dashboard_can_name_filters(self):
        self.assertGreater(int(services()["cuckood"]["environment"]["CUCKOOD_METRICS_FILTER_NAMES"]), 0)

    def test_the_address_of_dockers_proxy_may_have_all_connections(self):
        for path in (COMPOSE, COMPOSE.with_name("compose-cluster.yaml")):
            for name, service in yaml.safe_load(path.read_text())["services"].items():
                if service["image"] == "cuckood" and "ports" in service:
                    with self.subTest(path.name, service=name):
                        told = service["environment"]
                        self.assertEqual(
                            told["CUCKOOD_MAX_CONNECTIONS_PER_ADDRESS"],
                            told.get("CUCKOOD_MAX_CONNECTIONS", "1024"),
                        )

    def test_the_published_port_and_prometheus_are_answered_and_no_other_name_is(self):
        told = services()["cuckood"]["environment"]
        access = {"CUCKOOD_ALLOW_ANONYMOUS", "CUCKOOD_ALLOWED_HOST"}
        self.assertLessEqual(access, set(told))
        settings = [f"{name}={told[name]}" for name in sorted(access)]
        with tempfile.TemporaryDirectory() as desk:

            def command(port):
                serve = ["serve", "--listen", f"0.0.0.0:{port}", "--data-dir", f"{desk}/data"]
                return ["env", *settings, BINARY, *serve]

            with Server(command=command) as server:
                names = ["localhost", "127.0.0.1", "cuckood", "172.18.0.2", "rebound.example.org"]
                asked = [server.ask("GET", "/metrics", host=f"{it}:8080")[0] for it in names]
                self.assertEqual(asked, [200, 200, 200, 200, 403])

    def test_images_have_a_version(self):
        for name, service in services().items():
            if "build" not in service:
                self.assertRegex(service["image"], r":v?\d+\.\d+\.\d+$", name)

    def test_prometheus_takes_its_configuration_with_the_alerts(self):
        with tempfile.TemporaryDirectory() as desk:
            # promtool looks for the rules where the container has them.
            text = mounts("prometheus")["/etc/prometheus/prometheus.yaml"].read_text()
            here = Path(desk) / "prometheus.yaml"
            here.write_text(text.replace("/etc/prometheus/alerts.yaml", str(ALERTS)))
            said = tool("promtool", "check", "config", here).stdout
            self.assertRegex(said, r"SUCCESS: \d+ rules found")
        self.assertIn("/etc/prometheus/alerts.yaml", mounts("prometheus"))

    def test_prometheus_scrapes_the_server_as_the_job_that_rules_look_for(self):
        (job,) = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())[
            "scrape_configs"
        ]
        self.assertEqual(job["job_name"], "cuckood")
        port = services()["cuckood"]["ports"][0].rpartition(":")[2]
        self.assertEqual(job["static_configs"], [{"targets": [f"cuckood:{port}"]}])

    def test_grafana_finds_prometheus_and_the_dashboard(self):
        sources = yaml.safe_load((GRAFANA / "datasources/prometheus.yaml").read_text())
        self.assertEqual(sources["datasources"][0]["url"], "http://prometheus:9090")
        providers = yaml.safe_load((GRAFANA / "dashboards/cuckood.yaml").read_text())
        path = providers["providers"][0]["options"]["path"]
        mounted = f"{path}/cuckood.json"
        self.assertEqual(mounts("grafana")[mounted], DASHBOARD)
        home = services()["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertEqual(home, mounted)
        # The dashboard asks for whatever Prometheus there is.
        (variable,) = [
            v
            for v in json.loads(DASHBOARD.read_text())["templating"]["list"]
            if v["type"] == "datasource"
        ]
        self.assertEqual(variable["query"], sources["datasources"][0]["type"])


if __name__ == "__main__":
    unittest.main()
