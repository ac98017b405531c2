"""Alerts and dashboard: sound by themselves, and about metrics that the real
server has."""

import contextlib
import json
import re
import subprocess
import tempfile
import time
import unittest
from decimal import Decimal
from pathlib import Path

import yaml
from placed import Container, Placed
from support import ALERTS, BINARY, DASHBOARD, ROOT, Server, anchors, tool

ALERT_TESTS = Path(__file__).parent / "alerts.test.yaml"

# What Prometheus adds to every series, and the one that it makes itself.
ADDED_LABELS = {"job", "instance"}
OF_PROMETHEUS = {"up"}


def alerts():
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard():
    return json.loads(DASHBOARD.read_text())


def panels(kind=None):
    found = dashboard()["panels"]
    return [p for p in found if p["type"] != "row" and kind in (None, p["type"])]


def queries():
    """The dashboard's queries as (panel, query), its variables filled in."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], filled_in(target["expr"])


def filled_in(query):
    for variable, value in [
        ("$__rate_interval", "5m"),
        ("$instance", ".*"),
        ("$job", "cuckood"),
    ]:
        query = query.replace(variable, value)
    return query


def selectors(query):
    """Each metric of a query with the labels that its selector names."""
    blanked = re.sub(r'"(?:[^"\\]|\\.)*"', '""', query)
    found = re.findall(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}", blanked)
    bare = re.findall(r"\b(cuckood_\w+|process_\w+|up)\b(?!\s*\{)", blanked)
    return [(name, set(re.findall(r"(\w+)\s*[!=]", inner))) for name, inner in found] + [
        (name, set()) for name in bare
    ]


def run_alert_tests(groups, about=None):
    """Runs the tests of the alerts against these groups of rules; or only the
    tests about one alert."""
    cases = yaml.safe_load(ALERT_TESTS.read_text())
    if about is not None:
        cases["tests"] = [
            case
            for case in cases["tests"]
            if any(one["alertname"] == about for one in case["alert_rule_test"])
        ]
        for case in cases["tests"]:
            case["alert_rule_test"] = [
                one for one in case["alert_rule_test"] if one["alertname"] == about
            ]
    with tempfile.TemporaryDirectory() as desk:
        (Path(desk) / "alerts.yaml").write_text(json.dumps({"groups": groups}))
        (Path(desk) / "tests.yaml").write_text(json.dumps(cases))
        return tool("promtool", "test", "rules", Path(desk) / "tests.yaml", check=False)


class Alerts(unittest.TestCase):
    def test_promtool_accepts_them(self):
        tool("promtool", "check", "rules", ALERTS)

    def test_they_fire_and_stay_quiet_as_their_tests_say(self):
        verdict = run_alert_tests(yaml.safe_load(ALERTS.read_text())["groups"])
        self.assertEqual(verdict.returncode, 0, verdict.stdout + verdict.stderr)

    def test_each_is_shown_to_fire_and_to_stay_quiet(self):
        fires, quiet = set(), set()
        for case in yaml.safe_load(ALERT_TESTS.read_text())["tests"]:
            for one in case["alert_rule_test"]:
                (fires if one["exp_alerts"] else quiet).add(one["alertname"])
        names = {alert["alert"] for alert in alerts()}
        self.assertEqual(fires, names)
        self.assertEqual(quiet, names)

    def test_a_moved_threshold_is_noticed(self):
        for alert in alerts():
            threshold = re.search(r"(> |< |== )([0-9.]+)(?!.*[<>=] )", alert["expr"])
            with self.subTest(alert["alert"], threshold=threshold[0]):
                as_it_is = [{"name": "one", "rules": [alert]}]
                self.assertEqual(run_alert_tests(as_it_is, alert["alert"]).returncode, 0)
                moved = threshold[1] + str(float(threshold[2]) * 1000 + 1000)
                changed = {**alert, "expr": alert["expr"].replace(threshold[0], moved)}
                changed = [{"name": "one", "rules": [changed]}]
                self.assertNotEqual(run_alert_tests(changed, alert["alert"]).returncode, 0)

    def test_each_says_what_it_is_and_where_to_read_on(self):
        for alert in alerts():
            with self.subTest(alert["alert"]):
                self.assertIn(alert["labels"]["severity"], {"critical", "warning"})
                self.assertTrue(alert["annotations"]["summary"])
                self.assertTrue(alert["annotations"]["description"])
                page, anchor = alert["annotations"]["runbook"].split("#")
                self.assertEqual(page, "docs/runbook.md")
                self.assertIn(anchor, anchors(ROOT / page))

    def test_the_runbook_names_each(self):
        runbook = (ROOT / "docs/runbook.md").read_text()
        named = set(re.findall(r"`(Cuckood\w+)`", runbook))
        self.assertEqual(named, {alert["alert"] for alert in alerts()})


class Dashboard(unittest.TestCase):
    def test_panels_have_numbers_of_their_own_and_do_not_overlap(self):
        every = dashboard()["panels"]
        self.assertEqual(len({p["id"] for p in every}), len(every))
        taken = {}
        for panel in every:
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            for cell in (
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            ):
                self.assertNotIn(cell, taken, panel["title"])
                taken[cell] = panel["title"]

    def test_each_panel_says_what_it_shows_and_in_which_unit(self):
        for panel in panels():
            with self.subTest(panel["title"]):
                self.assertTrue(panel["description"].endswith("."))
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
                for asked in [panel, *panel["targets"]]:
                    self.assertEqual(asked["datasource"]["uid"], "${datasource}")

    def test_it_names_only_alerts_that_exist(self):
        named = set(re.findall(r"Cuckood[A-Z]\w+", DASHBOARD.read_text()))
        self.assertLessEqual(named, {alert["alert"] for alert in alerts()})


@contextlib.contextmanager
def pod(*flags):
    """A server that is the only pod of a cluster, so that it has every metric."""
    text = "listen: 0.0.0.0:4222\nhttp: 0.0.0.0:8222\njetstream { store_dir: /data, sync_interval: always }\n"
    broker = Container(
        "nats-server", ["--config", "/conf"], names=["broker"], volumes=["/data"], files={"/conf": text}
    )
    brokers = ["--log=nats://broker:4222", "--log-monitor=http://broker:8222", "--cluster=shop"]
    founding = ["cluster", "found", "--unless-founded", "--lanes=2", "--copies=1", *brokers]
    found = Container("cuckood", founding, names=[])
    with Placed({"broker": broker, "found": found}) as placed:
        placed.start("broker")
        deadline = time.monotonic() + 60
        placed.start("found")
        while placed.running["found"].wait() != 0:
            if time.monotonic() > deadline:
                raise AssertionError(placed.logs())
            time.sleep(0.2)
            placed.start("found")
        line = [*(placed.here("found", it) for it in brokers), "--advertise=http://127.0.0.1:1"]
        with Server(*line, *flags) as server:
            yield server


class AgainstTheServer(unittest.TestCase):
    """Scrapes the real server before and after some work."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as backups, pod(
            f"--backup-dir={backups}", "--metrics-filter-names=5"
        ) as server:
            while "cuckood_lanes_without_leader 0\n" not in server.ask("GET", "/metrics")[1]:
                time.sleep(0.2)
            cls.before = server.ask("GET", "/metrics")[1]
            work(server)
            cls.after = surveyed(server)
        cls.labels = {}
        for name, labels, _ in samples(cls.after):
            cls.labels.setdefault(name, set()).update(labels)

    def unknown(self, query):
        """What a query names that the server does not have."""
        wrong = []
        for metric, labels in selectors(query):
            if metric in OF_PROMETHEUS:
                continue
            if metric not in self.labels:
                wrong.append(metric)
                continue
            wrong += [
                f"{metric}{{{label}}}"
                for label in labels - self.labels[metric] - ADDED_LABELS
            ]
        return wrong

    def test_alerts_are_about_metrics_and_labels_that_exist(self):
        for alert in alerts():
            with self.subTest(alert["alert"]):
                self.assertTrue(selectors(alert["expr"]))
                self.assertEqual(self.unknown(alert["expr"]), [])

    def test_the_dashboard_is_about_metrics_and_labels_that_exist(self):
        asked = list(queries())
        for variable in dashboard()["templating"]["list"]:
            if variable["type"] == "query":
                asked.append((variable["name"], variable["definition"]))
        for annotation in dashboard()["annotations"]["list"]:
            asked.append((annotation["name"], annotation["expr"]))
        for title, query in asked:
            with self.subTest(title, query=query):
                self.assertTrue(selectors(query))
                self.assertEqual(self.unknown(query), [])

    def test_what_the_server_lacks_is_noticed(self):
        self.assertEqual(
            self.unknown('rate(cuckood_no_such_total{job="x"}[5m])'), ["cuckood_no_such_total"]
        )
        self.assertEqual(self.unknown("sum(cuckood_no_such_bytes)"), ["cuckood_no_such_bytes"])
        self.assertEqual(
            self.unknown('cuckood_page_reads_total{colour="red"}'),
            ["cuckood_page_reads_total{colour}"],
        )

    def answers(self, asked):
        """Evaluates queries over the two scrapes; the verdict of promtool."""
        series = scraped_series(self.before, self.after)
        tests = [
            {"expr": f"count({query}) > bool 0", "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 1}]}
            for query in asked
        ]
        case = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}]}
        with tempfile.TemporaryDirectory() as desk:
            path = Path(desk) / "queries.yaml"
            path.write_text(json.dumps(case))
            return tool("promtool", "test", "rules", path, check=False)

    def test_every_query_of_the_dashboard_has_an_answer(self):
        verdict = self.answers([query for _, query in queries()])
        self.assertEqual(verdict.returncode, 0, verdict.stdout + verdict.stderr)

    def test_a_query_without_an_answer_is_noticed(self):
        # The metric and the label exist, but nothing has this value.
        query = 'rate(cuckood_page_reads_total{source="moon"}[5m])'
        self.assertEqual(self.unknown(query), [])
        self.assertNotEqual(self.answers([query]).returncode, 0)


def work(server):
    """A little of everything that has a metric."""
    items = "\n".join(f"item {n}" for n in range(3000))
    small = {"capacity": 64, "expansion": 0}
    for request in [
        ("PUT", "/filters/seen", {"capacity": 500}),
        ("POST", "/filters/seen/items", items, "text/plain"),
        ("POST", "/filters/seen/exists", items, "text/plain"),
        ("GET", "/filters/seen/exists?item=item+1"),
        ("GET", "/filters/seen/count?item=item+1"),
        ("POST", "/filters/seen/items/delete", items, "text/plain"),
        ("PUT", "/filters/small", small),
        ("POST", "/filters/small/items", items, "text/plain"),
        ("GET", "/filters/missing"),
        ("GET", "/filters"),
        ("DELETE", "/filters/small"),
        ("POST", "/lookup", {"items": "item 1", "filters": ["seen"]}),
    ]:
        status, text = server.ask(*request)
        assert status < 500, (request, status, text)
    if server.ask("GET", "/admin/backups")[0] == 200:
        subprocess.run(
            [BINARY, "backup", "--server", f"127.0.0.1:{server.port}"],
            check=True,
            capture_output=True,
        )


def surveyed(server):
    """The metrics once the survey has found the filters."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        text = server.ask("GET", "/metrics")[1]
        if "cuckood_filter_promised_error_ratio{" in text:
            return text
        time.sleep(0.2)
    raise AssertionError("the survey finds no filter")


def samples(text):
    """(name, labels, value) of each line of the text format."""
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        name, inner, value = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line).groups()
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', inner or ""))
        yield name, labels, Decimal(value)


def scraped_series(before, after):
    """What Prometheus would hold after two scrapes, as promtool is told it."""

    def by_series(text):
        result = {}
        for name, labels, value in samples(text):
            labels = {**labels, "job": "cuckood", "instance": "test:8080"}
            inner = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
            result[f"{name}{{{inner}}}"] = format(value, "f")
        return result

    first, second = by_series(before), by_series(after)
    series = [{"series": 'up{job="cuckood",instance="test:8080"}', "values": "1x6"}]
    for name, value in second.items():
        series.append({"series": name, "values": f"{first.get(name, '_')} {value}x5"})
    return series


if __name__ == "__main__":
    unittest.main()
