"""The Helm chart and the manifests rendered from it: what it makes is what
Kubernetes takes, and what can't work is refused before it is installed."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
import tomllib
import unittest
from pathlib import Path

import cloudcoil.models.prometheus_operator.v1 as prometheus_operator
import kubernetes_validate
import yaml
from pydantic import ValidationError
from support import BINARY, CHART, ROOT, Server, copied_chart, known_variables, rendered, tool

ALLOWED = "access.allowAnonymous=true"
KEYED = "access.keys.secret=cuckood-keys"

# Every part that can be turned on, in the two ways that differ most.
SMALLEST = [ALLOWED, "networkPolicy.enabled=false", "serviceAccount.create=false"]
LARGEST = [
    KEYED,
    "access.backupKey.secret=cuckood-backup-key",
    "tls.secret=cuckood-tls",
    "tls.clientAuthorities.secret=callers",
    "image.digest=sha256:" + "0" * 64,
    "image.pullSecrets={registry}",
    "settings.CUCKOOD_WAL_SYNC=interval:100",
    "settings.CUCKOOD_MAX_BATCH_ITEMS=1000000",
    "resources.limits.cpu=4",
    "persistence.storageClass=fast",
    "persistence.annotations.backup=daily",
    "redis.enabled=true",
    "redis.allowFlush=true",
    "backup.enabled=true",
    "backup.keep=3",
    "backup.storageClass=slow",
    "backup.annotations.region=other",
    "restore.backup=cuckood-20310203T031700Z.tar",
    "service.type=LoadBalancer",
    "service.annotations.internal=yes",
    "serviceAccount.annotations.role=none",
    "podDisruptionBudget.enabled=true",
    "ingress.enabled=true",
    "ingress.className=nginx",
    "ingress.host=cuckood.example.com",
    "ingress.tlsSecret=certificate",
    "serviceMonitor.enabled=true",
    "serviceMonitor.labels.release=monitoring",
    "prometheusRule.enabled=true",
    "prometheusRule.labels.release=monitoring",
    "prometheusRule.runbookUrl=https://example.com/runbook.md",
    "dashboard.enabled=true",
    "dashboard.annotations.folder=Storage",
    "podAnnotations.note=one",
    "podLabels.team=lists",
    "nodeSelector.disk=ssd",
    "tolerations[0].operator=Exists",
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
    "nodeSelectorTerms[0].matchExpressions[0].key=disk",
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
    "nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
    "priorityClassName=important",
]
BROKERS = [f"nats-{broker}.nats-headless.nats" for broker in range(3)]
CLUSTER = [
    "replicas=3",
    "log.servers={" + ",".join(f"nats://{it}:4222" for it in BROKERS) + "}",
    "log.monitors={" + ",".join(f"http://{it}:8222" for it in BROKERS) + "}",
    "cluster.name=shop",
]
# Everything that a cluster can have.
LARGEST_CLUSTER = [
    *(it for it in LARGEST if not it.startswith(("restore.", "tls.clientAuthorities."))),
    *(*CLUSTER, "cluster.lanes=4", "cluster.copies=1", "log.unsafe=true"),
    *("log.credentials.secret=broker-user", "log.founder.secret=broker-founder", "log.authority.secret=broker-authority"),
    "cluster.key.secret=cuckood-cluster",
    "networkPolicy.brokers[0].podSelector.matchLabels.app=nats",
    "topologySpreadConstraints[0].topologyKey=rack",
    "topologySpreadConstraints[0].maxSkew=1",
    "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
]
VARIANTS = {
    "defaults": [ALLOWED],
    "keys": [KEYED],
    "smallest": SMALLEST,
    "largest": LARGEST,
    "cluster": [ALLOWED, *CLUSTER],
    "largest cluster": LARGEST_CLUSTER,
}

# The oldest that Chart.yaml names, and the newest whose schemas there are.
KUBERNETES = ["1.25", kubernetes_validate.latest_version()]
OPERATOR_KINDS = {
    "ServiceMonitor": prometheus_operator.ServiceMonitor,
    "PrometheusRule": prometheus_operator.PrometheusRule,
}


def validate(document):
    """Refuses an object that Kubernetes, or the Prometheus operator, would."""
    model = OPERATOR_KINDS.get(document["kind"])
    if model is None:
        for version in KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)
        return
    # What the definition does not know is dropped, which the way back shows.
    known = model.model_validate(document)
    back = known.model_dump(by_alias=True, exclude_unset=True, mode="json")
    if back != document:
        raise ValueError(f"{document['kind']} has fields that the operator does not know")


def only(documents, kind, name=None):
    found = [
        d for d in documents if d["kind"] == kind and name in (None, d["metadata"]["name"])
    ]
    assert len(found) == 1, (kind, name, len(found))
    return found[0]


def pod_of(documents):
    return only(documents, "StatefulSet")["spec"]["template"]


def job_of(documents):
    return only(documents, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]


def container_of(documents):
    (container,) = pod_of(documents)["spec"]["containers"]
    return container


def environment(documents):
    env = container_of(documents)["env"]
    return {it["name"]: it["value"] for it in env if "value" in it}


def selects(selector, labels):
    return selector.items() <= labels.items()


def restricted_violations(pod):
    """What the Pod Security Standard "restricted" would refuse in a pod."""
    spec, wrong = pod["spec"], []
    for shared in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(shared):
            wrong.append(shared)
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"}
    allowed |= {"persistentVolumeClaim", "projected", "secret", "name"}
    for volume in spec.get("volumes", []):
        wrong += sorted(set(volume) - allowed)
    of_pod = spec.get("securityContext", {})
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        own = container.get("securityContext", {})
        both = {**of_pod, **own}
        if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
            wrong.append("runAsNonRoot")
        if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            wrong.append("seccompProfile")
        if own.get("allowPrivilegeEscalation") is not False:
            wrong.append("allowPrivilegeEscalation")
        if own.get("privileged"):
            wrong.append("privileged")
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            wrong.append("capabilities.drop")
        if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            wrong.append("capabilities.add")
        if any("hostPort" in port for port in container.get("ports", [])):
            wrong.append("hostPort")
    return wrong


class Accepted(unittest.TestCase):
    def test_helm_lints_it(self):
        for name, values in VARIANTS.items():
            with self.subTest(name):
                tool("helm", "lint", "--strict", CHART, *[f"--set={it}" for it in values])

    def test_kubernetes_and_the_operator_take_every_object(self):
        for name, values in VARIANTS.items():
            documents = rendered(*values)
            self.assertGreaterEqual(len(documents), 3)
            for document in documents:
                with self.subTest(name, kind=document["kind"]):
                    validate(document)

    def test_every_template_is_among_what_is_checked(self):
        documents = [*rendered(*LARGEST), *rendered(*LARGEST_CLUSTER)]
        made = len({(it["kind"], it["metadata"]["name"]) for it in documents})
        templates = [t for t in (CHART / "templates").glob("*.yaml")]
        # service.yaml makes two, and so does backup.yaml.
        self.assertEqual(made, len(templates) + 2)

    def test_a_pod_security_of_restricted_lets_the_pods_in(self):
        for name, values in VARIANTS.items():
            with self.subTest(name):
                self.assertEqual(restricted_violations(pod_of(rendered(*values))), [])
        self.assertEqual(restricted_violations(job_of(rendered(*LARGEST))), [])
        founding = only(rendered(*LARGEST_CLUSTER), "Job")["spec"]["template"]
        self.assertEqual(restricted_violations(founding), [])

    def test_yamllint_finds_nothing_to_complain_about(self):
        rules = "{extends: default, rules: {line-length: disable, document-start: disable, braces: {max-spaces-inside: 1}}}"
        tool(
            *("yamllint", "--strict", "--config-data", rules),
            *(CHART / "Chart.yaml", CHART / "values.yaml", CHART / "files/alerts.yaml"),
            *(ROOT / "tests/deploy/alerts.test.yaml", ROOT / "deploy/nats/values.yaml"),
            *(ROOT / "deploy").glob("compose*.yaml"),
            *(ROOT / "deploy/kubernetes").rglob("kustomization.yaml"),
        )


class Refused(unittest.TestCase):
    def refuses(self, *values, words):
        done = rendered(*values, check=False)
        self.assertNotEqual(done.returncode, 0, values)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_several_servers_without_a_log_that_they_share(self):
        self.refuses(
            *(ALLOWED, "replicas=3"),
            words=["replicas is 3 and log.servers is empty", "log.monitors", "cluster.name"],
        )

    def test_clusters_that_can_not_work(self):
        def without(name):
            return [it for it in CLUSTER if not it.startswith(name)]

        for values, word in [
            (without("cluster.name"), "log.servers needs cluster.name"),
            (without("log.monitors"), "log.servers needs log.monitors"),
            (["cluster.name=shop"], "cluster.name needs log.servers"),
            ([*CLUSTER, "cluster.name=a.b"], "cluster.name"),
            ([*CLUSTER, "cluster.copies=2"], "copies"),
            ([*CLUSTER, "log.servers={nats-0:4222}"], "servers"),
            ([*CLUSTER, "log.monitors={nats://nats-0:4222}"], "monitors"),
            ([*CLUSTER, "tls.secret=a", "tls.clientAuthorities.secret=b"], "clientAuthorities"),
            (
                [*CLUSTER, "backup.enabled=true", "restore.backup=cuckood-20310203T031700Z.tar"],
                "restore.backup is for a server in no cluster",
            ),
        ]:
            with self.subTest(values):
                self.refuses(ALLOWED, *values, words=[word])

    def test_a_server_open_to_anybody_unless_that_was_said(self):
        self.refuses(
            "replicas=1",
            words=["needs API keys", "access.keys.secret=", "access.allowAnonymous=true"],
        )

    def test_keys_and_none_at_once(self):
        self.refuses(ALLOWED, KEYED, words=["access.allowAnonymous contradicts"])

    def test_backups_that_nobody_could_ask_for(self):
        self.refuses(KEYED, "backup.enabled=true", words=["access.backupKey.secret"])

    def test_certificates_of_callers_without_tls(self):
        self.refuses(ALLOWED, "tls.clientAuthorities.secret=a", words=["needs tls.secret"])

    def test_names_that_do_not_exist(self):
        self.refuses(ALLOWED, "replicaCount=1", words=["replicaCount"])
        self.refuses(ALLOWED, "memory.cacheMib=64", words=["cacheMib"])
        self.refuses(ALLOWED, "settings.WAL_SYNC=never", words=["WAL_SYNC"])

    def test_settings_that_the_chart_makes_itself(self):
        own = {
            **environment(rendered(ALLOWED, "backup.enabled=true")),
            **environment(rendered(*LARGEST[:4])),
            **environment(rendered(*(it for it in LARGEST_CLUSTER if "settings." not in it))),
        }
        self.assertLessEqual({"CUCKOOD_CACHE_BYTES", "CUCKOOD_TLS_CLIENT_CA"}, set(own))
        # Only a default, behind an ingress.
        del own["CUCKOOD_MAX_CONNECTIONS_PER_ADDRESS"]
        for name in own:
            self.refuses(ALLOWED, f"settings.{name}=1", words=[name, "the chart sets it"])

    def test_values_that_can_not_work(self):
        for value, word in [
            ("memory.cacheMiB=16", "cacheMiB"),
            ("memory.cacheMiB=256Mi", "cacheMiB"),
            ("memory.lanes=0", "lanes"),
            ("memory.maxBodyMiB=512", "memory.bodiesMiB"),
            ("persistence.size=10GB", "size"),
            ("image.digest=latest", "digest"),
            ("access.keys.secret=A_B", "secret"),
            ("tls.cert=a", "cert"),
            ("ingress.enabled=true", "ingress.host"),
            ("backup.schedule=daily", "schedule"),
            ("restore.backup=/etc/passwd", "restore.backup"),
            ("restore.backup=cuckood-20310203T031700Z.tar", "backup.enabled"),
            ("service.type=ExternalName", "service.type"),
            ("networkPolicy.clients[0].podSelectors=x", "podSelectors"),
            ("serviceMonitor.interval=often", "interval"),
            ("drain.flushSeconds=0", "flushSeconds"),
        ]:
            with self.subTest(value):
                self.refuses(ALLOWED, value, words=[word])


class Noticed(unittest.TestCase):
    """The checks themselves can fail."""

    def test_a_bad_service_monitor(self):
        good = only(rendered(*LARGEST), "ServiceMonitor")
        validate(good)
        for break_it in [
            lambda spec: spec.update(endpoint=spec.pop("endpoints")),
            lambda spec: spec["endpoints"][0].update(interval="often"),
            lambda spec: spec["endpoints"][0].update(prt="http"),
            lambda spec: spec["selector"].update(matchLabels=["cuckood"]),
            lambda spec: spec.pop("selector"),
        ]:
            bad = json.loads(json.dumps(good))
            break_it(bad["spec"])
            with self.assertRaises((ValidationError, ValueError), msg=bad):
                validate(bad)

    def test_a_bad_prometheus_rule(self):
        bad = only(rendered(*LARGEST), "PrometheusRule")
        del bad["spec"]["groups"][0]["rules"][0]["expr"]
        with self.assertRaises(ValidationError):
            validate(bad)

    def test_a_field_that_kubernetes_does_not_know(self):
        bad = only(rendered(ALLOWED), "StatefulSet")
        bad["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            validate(bad)

    def test_a_template_that_is_broken(self):
        with tempfile.TemporaryDirectory() as desk:
            chart = copied_chart(desk)
            template = chart / "templates/statefulset.yaml"
            template.write_text(template.read_text().replace("serviceName:", "servicename:"))
            done = tool("helm", "template", "cuckood", chart, f"--set={ALLOWED}")
            broken = [it for it in yaml.safe_load_all(done.stdout) if it]
            with self.assertRaises(kubernetes_validate.ValidationError):
                validate(only(broken, "StatefulSet"))

    def test_a_pod_that_restricted_would_refuse(self):
        for break_it, wrong in [
            (lambda s: s["securityContext"].pop("runAsNonRoot"), "runAsNonRoot"),
            (lambda s: s["securityContext"].pop("seccompProfile"), "seccompProfile"),
            (lambda s: s.update(hostNetwork=True), "hostNetwork"),
            (lambda s: s.update(volumes=[{"name": "x", "hostPath": {}}]), "hostPath"),
            (
                lambda s: s["containers"][0]["securityContext"]["capabilities"].pop("drop"),
                "capabilities.drop",
            ),
        ]:
            pod = pod_of(rendered(ALLOWED))
            break_it(pod["spec"])
            self.assertEqual(restricted_violations(pod), [wrong])


class Consistent(unittest.TestCase):
    def test_its_version_of_the_server_is_the_servers(self):
        cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual(chart["appVersion"], cargo["workspace"]["package"]["version"])
        image = container_of(rendered(ALLOWED))["image"]
        self.assertEqual(image, f"cuckood:{chart['appVersion']}")

    def test_the_schema_knows_every_value_and_the_values_every_name(self):
        schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        self.assertEqual(set(schema) - {"global"}, set(values))
        for name, part in values.items():
            if "properties" in schema[name]:
                self.assertEqual(set(schema[name]["properties"]), set(part), name)

    def test_every_value_is_used(self):
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        templates = "".join(t.read_text() for t in (CHART / "templates").iterdir())
        for name, part in values.items():
            self.assertIn(f".Values.{name}", templates)
            for inner in part if isinstance(part, dict) else []:
                used = rf"\.Values\.{name}\.{inner}\b|\.{inner}\b"
                self.assertRegex(templates, used, f"{name}.{inner}")

    def test_the_server_knows_every_variable(self):
        self.assertLessEqual(set(environment(rendered(*LARGEST))), known_variables())

    def test_every_variable_of_the_server_can_be_set(self):
        more = ["backup.enabled=true", "redis.enabled=true", "redis.allowFlush=true"]
        own = {*environment(rendered(*LARGEST[:4])), *environment(rendered(ALLOWED, *more))}
        own |= set(environment(rendered(*LARGEST_CLUSTER)))
        others = sorted(known_variables() - own)
        self.assertIn("CUCKOOD_KEY_SHARE", others)
        settings = [f"settings.{name}=7" for name in others]
        with_all = environment(rendered(ALLOWED, *settings))
        for name in others:
            with self.subTest(name):
                self.assertEqual(with_all[name], "7")

    def test_numbers_reach_the_server_as_numbers(self):
        self.assertEqual(environment(rendered(*LARGEST))["CUCKOOD_MAX_BATCH_ITEMS"], "1000000")

    def test_the_memory_limit_is_what_the_page_computes(self):
        formula = (
            "1.3 × cache + block cache + 128 MiB + 1.25 × bodies"
            " + cold reads + plans + records + 128 MiB\n"
        )
        self.assertIn(formula, (ROOT / "docs/limits.md").read_text())

        def limit(*values):
            limits = container_of(rendered(ALLOWED, *values))["resources"]["limits"]
            return int(limits["memory"].removesuffix("Mi"))

        def computed(lanes, cache=256, block_cache=64, bodies=256, in_cluster=False):
            plans = min(85 * lanes + cache / 12, 1.5 * cache)
            records = 6 * lanes if in_cluster else 0
            return 1.3 * cache + block_cache + 128 + 1.25 * bodies + 64 + plans + records + 128

        large = ("memory.cacheMiB=4096", "memory.blockCacheMiB=512")
        for values, expected in [
            ((), computed(2)),
            (("memory.lanes=3", "memory.bodiesMiB=1022"), computed(3, bodies=1022)),
            (("memory.cacheMiB=33",), computed(2, cache=33)),
            ((*large, "memory.lanes=16"), computed(16, 4096, 512)),
            (CLUSTER, computed(8, in_cluster=True)),
            ((*CLUSTER, *large, "cluster.lanes=32"), computed(32, 4096, 512, in_cluster=True)),
        ]:
            with self.subTest(values):
                # Each part is a whole number.
                self.assertAlmostEqual(limit(*values), expected, delta=3)
        self.assertEqual(limit(*CLUSTER), 1469)
        documents = rendered(ALLOWED, "resources.limits.memory=3Gi")
        self.assertEqual(container_of(documents)["resources"]["limits"]["memory"], "3Gi")

    def test_memory_is_requested_as_it_is_limited(self):
        for values in VARIANTS.values():
            resources = container_of(rendered(*values))["resources"]
            self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])

    def test_the_pod_has_longer_to_stop_than_the_server_takes(self):
        for values in ([ALLOWED], [ALLOWED, "drain.timeoutSeconds=300"]):
            documents = rendered(*values)
            told = environment(documents)
            drain = int(told["CUCKOOD_DRAIN_DELAY_SECONDS"])
            drain += int(told["CUCKOOD_DRAIN_TIMEOUT_SECONDS"])
            grace = pod_of(documents)["spec"]["terminationGracePeriodSeconds"]
            self.assertGreaterEqual(grace, drain + 10)

    def test_liveness_does_not_ask_for_storage_and_the_others_do(self):
        container = container_of(rendered(ALLOWED))
        self.assertEqual(container["livenessProbe"]["httpGet"]["path"], "/livez")
        self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/readyz")
        startup = container["startupProbe"]
        self.assertEqual(startup["httpGet"]["path"], "/readyz")
        self.assertGreaterEqual(startup["periodSeconds"] * startup["failureThreshold"], 600)

    def test_services_policies_and_monitors_find_the_pod(self):
        documents = rendered(*LARGEST, name="prod")
        pod = pod_of(documents)["metadata"]["labels"]
        ports = {port["name"] for port in container_of(documents)["ports"]}
        services = [d for d in documents if d["kind"] == "Service"]
        for service in services:
            self.assertTrue(selects(service["spec"]["selector"], pod))
            for port in service["spec"]["ports"]:
                self.assertIn(port["targetPort"], ports)
        for kind in ("NetworkPolicy", "PodDisruptionBudget", "StatefulSet"):
            spec = only(documents, kind)["spec"]
            selector = spec["podSelector" if kind == "NetworkPolicy" else "selector"]
            self.assertTrue(selects(selector["matchLabels"], pod), kind)
        headless = only(documents, "StatefulSet")["spec"]["serviceName"]
        self.assertIn(headless, {s["metadata"]["name"] for s in services})
        # One of the two, or everything would be scraped twice.
        wanted = only(documents, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
        scraped = [s for s in services if selects(wanted, s["metadata"]["labels"])]
        self.assertEqual([s["metadata"]["name"] for s in scraped], [headless])
        backend = only(documents, "Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]
        self.assertEqual(backend["service"]["name"], "prod-cuckood")

    def test_backups_go_to_a_volume_that_outlives_the_release(self):
        documents = rendered(*LARGEST, name="prod")
        claim = only(documents, "PersistentVolumeClaim")["metadata"]
        self.assertEqual(claim["annotations"]["helm.sh/resource-policy"], "keep")
        volumes = {it["name"]: it for it in pod_of(documents)["spec"]["volumes"]}
        volume = volumes["backups"]
        self.assertEqual(volume["persistentVolumeClaim"]["claimName"], claim["name"])
        told = environment(documents)
        mounts = {m["mountPath"]: m["name"] for m in container_of(documents)["volumeMounts"]}
        mounts = {path: name for path, name in mounts.items() if "secrets" not in path}
        self.assertEqual(mounts, {"/data": "data", "/backups": volume["name"]})
        self.assertTrue(told["CUCKOOD_BACKUP_DIR"].startswith("/backups/"))
        self.assertTrue(told["CUCKOOD_DATA_DIR"].startswith("/data/"))
        # Turned on later, it changes nothing that can't be changed.
        claims = [
            only(rendered(*values), "StatefulSet")["spec"]["volumeClaimTemplates"]
            for values in ([ALLOWED], [ALLOWED, "backup.enabled=true"])
        ]
        self.assertEqual(*claims)

    def test_a_restore_goes_where_the_server_looks(self):
        documents = rendered(*LARGEST)
        (init,) = pod_of(documents)["spec"]["initContainers"]
        told = environment(documents)
        self.assertEqual(
            init["args"],
            [
                *("restore", "--unless-present"),
                f"--backup={told['CUCKOOD_BACKUP_DIR']}/cuckood-20310203T031700Z.tar",
                f"--data-dir={told['CUCKOOD_DATA_DIR']}",
            ],
        )
        self.assertEqual(init["image"], container_of(documents)["image"])
        self.assertNotIn("initContainers", pod_of(rendered(ALLOWED))["spec"])

    def test_the_job_reaches_the_server_and_is_not_taken_for_it(self):
        documents = rendered(*LARGEST, "networkPolicy.clients=null", name="prod")
        job = job_of(documents)
        labels = job["metadata"]["labels"]
        services = [d for d in documents if d["kind"] == "Service"]
        for service in services:
            self.assertFalse(selects(service["spec"]["selector"], labels))
        policy = only(documents, "NetworkPolicy")["spec"]
        self.assertFalse(selects(policy["podSelector"]["matchLabels"], labels))
        (rule,) = policy["ingress"]
        self.assertEqual([port["port"] for port in rule["ports"]], ["operations"])
        peers = [peer.get("podSelector") for peer in rule["from"]]
        self.assertIn({"matchLabels": labels}, peers)
        (container,) = job["spec"]["containers"]
        command, server = container["args"]
        self.assertEqual(command, "backup")
        scheme, address = server.removeprefix("--server=").split("://")
        self.assertEqual(scheme, "https")
        name, port = address.split(":")
        ports = {
            (s["metadata"]["name"], port["targetPort"]): port["port"]
            for s in services
            for port in s["spec"]["ports"]
        }
        self.assertEqual(ports[name, "operations"], int(port))

    def test_two_releases_in_a_namespace_keep_to_themselves(self):
        one, other = rendered(ALLOWED, name="one"), rendered(ALLOWED, name="other")
        names = [{(d["kind"], d["metadata"]["name"]) for d in docs} for docs in (one, other)]
        self.assertFalse(names[0] & names[1])
        pod = pod_of(one)["metadata"]["labels"]
        for service in (d for d in other if d["kind"] == "Service"):
            self.assertFalse(selects(service["spec"]["selector"], pod))

    def test_secrets_are_mounted_where_the_server_looks(self):
        documents = rendered(*LARGEST)
        told, spec = environment(documents), pod_of(documents)["spec"]
        volumes = {it["name"]: it.get("secret") for it in spec["volumes"]}
        mounts = {it["mountPath"]: it for it in container_of(documents)["volumeMounts"]}
        for variable, secret in [
            ("CUCKOOD_KEYS_FILE", "cuckood-keys"),
            ("CUCKOOD_TLS_CERT", "cuckood-tls"),
            ("CUCKOOD_TLS_KEY", "cuckood-tls"),
            ("CUCKOOD_TLS_CLIENT_CA", "callers"),
        ]:
            path = Path(told[variable])
            mount = mounts[str(path.parent)]
            # A part of a volume would never be exchanged.
            self.assertNotIn("subPath", mount)
            self.assertTrue(mount["readOnly"])
            volume = volumes[mount["name"]]
            self.assertEqual(volume["secretName"], secret)
            self.assertIn(path.name, {item["path"] for item in volume["items"]})
            self.assertEqual(volume["defaultMode"], 0o440)
        self.assertNotIn("CUCKOOD_ALLOW_ANONYMOUS", told)
        self.assertNotIn("volumes", pod_of(rendered(ALLOWED))["spec"])

    def test_the_server_answers_to_the_names_by_which_the_cluster_calls_it(self):
        documents = rendered(ALLOWED, "backup.enabled=true", "access.clusterDomain=lists.local")
        names = environment(documents)["CUCKOOD_ALLOWED_HOST"].split(",")
        for service in [d for d in documents if d["kind"] == "Service"]:
            name = service["metadata"]["name"]
            for suffix in ["", ".default", ".default.svc", ".default.svc.lists.local"]:
                self.assertIn(name + suffix, names)
        (argument,) = [a for a in job_of(documents)["spec"]["containers"][0]["args"] if "//" in a]
        self.assertIn(re.search(r"//([^:]+):", argument)[1], names)
        # Of an ingress and of others, if they are named; with keys only then.
        more = ["access.allowedHosts={lists.example.org}"]
        ingress = ["ingress.enabled=true", "ingress.host=cuckood.example.com"]
        names = environment(rendered(ALLOWED, *more, *ingress))["CUCKOOD_ALLOWED_HOST"].split(",")
        self.assertLessEqual({"lists.example.org", "cuckood.example.com"}, set(names))
        self.assertNotIn("CUCKOOD_ALLOWED_HOST", environment(rendered(KEYED, *ingress)))
        names = environment(rendered(KEYED, *more))["CUCKOOD_ALLOWED_HOST"].split(",")
        self.assertLessEqual({"lists.example.org", "cuckood", "cuckood-headless"}, set(names))

    def test_the_job_has_its_key_and_believes_the_servers_authority(self):
        documents = rendered(*LARGEST)
        (container,) = job_of(documents)["spec"]["containers"]
        told = {it["name"]: it for it in container["env"]}
        key = told["CUCKOOD_API_KEY"]["valueFrom"]["secretKeyRef"]
        self.assertEqual(key, {"name": "cuckood-backup-key", "key": "api-key"})
        self.assertEqual(told["CUCKOOD_CA_FILE"]["value"], "/secrets/tls/ca.crt")
        (volume,) = job_of(documents)["spec"]["volumes"]
        self.assertEqual(volume["secret"]["items"], [{"key": "ca.crt", "path": "ca.crt"}])
        plain = rendered(ALLOWED, "backup.enabled=true")
        self.assertNotIn("env", job_of(plain)["spec"]["containers"][0])

    def test_probes_and_scrapers_go_where_operations_are(self):
        for values, scheme in (([ALLOWED], "HTTP"), (LARGEST, "HTTPS")):
            container = container_of(rendered(*values))
            port = {it["name"]: it["containerPort"] for it in container["ports"]}["operations"]
            listens = environment(rendered(*values))["CUCKOOD_ADMIN_LISTEN"]
            self.assertEqual(listens, f"0.0.0.0:{port}")
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                asks = container[probe]["httpGet"]
                self.assertEqual((asks["port"], asks["scheme"]), ("operations", scheme))
        (endpoint,) = only(rendered(*LARGEST), "ServiceMonitor")["spec"]["endpoints"]
        self.assertEqual((endpoint["port"], endpoint["scheme"]), ("operations", "https"))
        self.assertEqual(endpoint["tlsConfig"]["ca"]["secret"]["name"], "cuckood-tls")

    def test_scrapers_reach_the_port_of_operations_alone(self):
        policy = only(rendered(ALLOWED, "serviceMonitor.enabled=true"), "NetworkPolicy")
        clients, scrapers = policy["spec"]["ingress"]
        self.assertEqual([port["port"] for port in clients["ports"]], ["http"])
        self.assertEqual(clients["from"], [{"podSelector": {}}])
        self.assertEqual([port["port"] for port in scrapers["ports"]], ["operations"])
        self.assertIn("namespaceSelector", scrapers["from"][0])

    def test_no_clients_means_nobody(self):
        policy = only(rendered(ALLOWED, "networkPolicy.clients=null"), "NetworkPolicy")
        self.assertEqual(policy["spec"]["ingress"], [])
        policy = only(rendered(ALLOWED), "NetworkPolicy")
        (rule,) = policy["spec"]["ingress"]
        self.assertEqual(rule["from"], [{"podSelector": {}}])
        self.assertEqual(policy["spec"]["egress"], [])

    def test_the_controller_of_the_ingress_reaches_the_port_of_http_alone(self):
        ingress = ("ingress.enabled=true", "ingress.host=a.example.com", "redis.enabled=true")
        controller = "networkPolicy.ingressController[0].podSelector.matchLabels.app=ingress"
        policy = only(rendered(ALLOWED, *ingress, controller), "NetworkPolicy")
        _, rule = policy["spec"]["ingress"]
        self.assertEqual([port["port"] for port in rule["ports"]], ["http"])
        self.assertEqual(rule["from"], [{"podSelector": {"matchLabels": {"app": "ingress"}}}])
        without = only(rendered(ALLOWED, controller), "NetworkPolicy")
        self.assertEqual(len(without["spec"]["ingress"]), 1)

    def test_one_address_may_have_all_connections_behind_an_ingress(self):
        name, all_of_them = "CUCKOOD_MAX_CONNECTIONS_PER_ADDRESS", "settings.CUCKOOD_MAX_CONNECTIONS=5000"
        ingress = ("ingress.enabled=true", "ingress.host=a.example.com")
        self.assertNotIn(name, environment(rendered(ALLOWED)))
        self.assertEqual(environment(rendered(ALLOWED, *ingress))[name], "1024")
        self.assertEqual(environment(rendered(ALLOWED, *ingress, all_of_them))[name], "5000")
        own = environment(rendered(ALLOWED, *ingress, all_of_them, f"settings.{name}=7"))
        self.assertEqual(own[name], "7")

    def test_ingress_lets_through_what_the_server_takes(self):
        ingress = only(rendered(*LARGEST), "Ingress")
        annotations = ingress["metadata"]["annotations"]
        # Imports and restores are longer than --max-body-bytes.
        self.assertEqual(annotations["nginx.ingress.kubernetes.io/proxy-body-size"], "0")
        self.assertEqual(annotations["nginx.ingress.kubernetes.io/proxy-request-buffering"], "off")

    def test_alerts_reach_the_cluster_as_they_are(self):
        groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
        plain = only(rendered(ALLOWED, "prometheusRule.enabled=true"), "PrometheusRule")
        self.assertEqual(plain["spec"]["groups"], groups)
        for group in only(rendered(*LARGEST), "PrometheusRule")["spec"]["groups"]:
            for rule in group["rules"]:
                anchor = rule["annotations"]["runbook"].split("#")[1]
                self.assertEqual(
                    rule["annotations"]["runbook_url"], f"https://example.com/runbook.md#{anchor}"
                )

    def test_the_dashboard_reaches_the_cluster_as_it_is(self):
        config = only(rendered(*LARGEST), "ConfigMap")
        self.assertEqual(
            json.loads(config["data"]["cuckood.json"]),
            json.loads((CHART / "files/dashboard.json").read_text()),
        )


class Cluster(unittest.TestCase):
    """What three pods have that one does not."""

    def setUp(self):
        self.documents = rendered(ALLOWED, *CLUSTER, "backup.enabled=true", name="prod")

    def test_each_pod_says_where_others_reach_it(self):
        env = container_of(self.documents)["env"]
        names = [it["name"] for it in env]
        # Kubernetes fills in what stands before.
        for filled_in in ("POD_NAME", "POD_NAMESPACE"):
            self.assertLess(names.index(filled_in), names.index("CUCKOOD_ADVERTISE"))
        told = environment(self.documents)
        own = "http://$(POD_NAME).prod-cuckood-headless.$(POD_NAMESPACE).svc.cluster.local:8080"
        self.assertEqual(told["CUCKOOD_ADVERTISE"], own)
        headless = only(self.documents, "Service", "prod-cuckood-headless")["spec"]
        self.assertIn({"name": "http", "port": 8080, "targetPort": "http"}, headless["ports"])
        self.assertTrue(headless["publishNotReadyAddresses"])
        client = only(self.documents, "Service", "prod-cuckood")["spec"]
        self.assertNotIn("publishNotReadyAddresses", client)
        names = told["CUCKOOD_ALLOWED_HOST"].split(",")
        for pod in range(3):
            self.assertIn(f"prod-cuckood-{pod}.prod-cuckood-headless", names)

    def test_with_a_certificate_pods_speak_tls_and_believe_its_authority(self):
        documents = rendered(*LARGEST_CLUSTER)
        told = environment(documents)
        self.assertTrue(told["CUCKOOD_ADVERTISE"].startswith("https://$(POD_NAME)."))
        self.assertEqual(told["CUCKOOD_CLUSTER_CA_FILE"], "/secrets/tls/ca.crt")
        self.assertEqual(told["CUCKOOD_CLUSTER_KEY_FILE"], "/secrets/cluster/cluster.key")
        self.assertNotIn("CUCKOOD_CLUSTER_KEY_FILE", environment(self.documents))
        volumes = {it["name"]: it for it in pod_of(documents)["spec"]["volumes"]}
        files = {it["path"] for it in volumes["tls"]["secret"]["items"]}
        self.assertEqual(files, {"tls.crt", "tls.key", "ca.crt"})
        self.assertEqual([it["path"] for it in volumes["cluster"]["secret"]["items"]], ["cluster.key"])
        (backup,) = job_of(documents)["spec"]["containers"]
        host = told["CUCKOOD_ADVERTISE"].replace("$(POD_NAME)", "cuckood-0").replace(":8080", ":9090")
        host = host.replace("$(POD_NAMESPACE)", "default")
        self.assertEqual(backup["args"], ["backup", f"--server={host}"])

    def test_servers_and_the_founding_job_reach_the_brokers_in_the_same_way(self):
        for documents in (self.documents, rendered(*LARGEST_CLUSTER)):
            job = only(documents, "Job")
            (container,) = job["spec"]["template"]["spec"]["containers"]
            founding = {it["name"]: it["value"] for it in container["env"]}
            told = environment(documents)
            self.assertEqual(founding, {name: told[name] for name in founding})
            self.assertLessEqual({"CUCKOOD_LOG", "CUCKOOD_LOG_MONITOR", "CUCKOOD_CLUSTER"}, set(founding))
            self.assertIn("--unless-founded", container["args"])
            self.assertIn(f"--lanes={told['CUCKOOD_LANES']}", container["args"])
            of_files = {Path(path).parent for path in founding.values() if path.startswith("/secrets")}
            for holder in (container, container_of(documents)):
                mounted = {Path(it["mountPath"]) for it in holder.get("volumeMounts", [])}
                self.assertLessEqual(of_files, mounted)
            labels = job["spec"]["template"]["metadata"]["labels"]
            for kind in ("Service", "NetworkPolicy"):
                for it in (d for d in documents if d["kind"] == kind):
                    spec = it["spec"]
                    selector = spec["podSelector"]["matchLabels"] if kind == "NetworkPolicy" else spec["selector"]
                    self.assertFalse(selects(selector, labels))
        self.assertEqual(len(of_files), 2)
        hook = only(self.documents, "Job")["metadata"]["annotations"]["helm.sh/hook"]
        # Later it could found anew, and empty, what brokers have lost.
        self.assertEqual(hook, "pre-install")
        kinds = {d["kind"] for d in rendered(ALLOWED, *CLUSTER, "cluster.found=false")}
        self.assertNotIn("Job", kinds)

    def test_pods_reach_each_other_and_the_brokers_and_nobody_else(self):
        spec = only(self.documents, "NetworkPolicy")["spec"]
        own = [{"podSelector": {"matchLabels": spec["podSelector"]["matchLabels"]}}]
        from_pods = [it for it in spec["ingress"] if it["from"] == own]
        self.assertEqual([it["ports"] for it in from_pods], [[{"port": "http", "protocol": "TCP"}]])
        names, pods, brokers = spec["egress"]
        self.assertEqual({it["port"] for it in names["ports"]}, {53})
        self.assertEqual((pods["to"], [it["port"] for it in pods["ports"]]), (own, [8080]))
        self.assertEqual([it["port"] for it in brokers["ports"]], [4222, 8222])
        self.assertNotIn("to", brokers)
        largest = only(rendered(*LARGEST_CLUSTER), "NetworkPolicy")["spec"]["egress"]
        self.assertEqual(largest[2]["to"], [{"podSelector": {"matchLabels": {"app": "nats"}}}])
        others = ["log.servers={nats://a,tls://b:4333}", "log.monitors={https://a:443}"]
        egress = only(rendered(ALLOWED, *CLUSTER, *others), "NetworkPolicy")["spec"]["egress"]
        self.assertEqual([it["port"] for it in egress[2]["ports"]], [4222, 4333, 443])

    def test_one_pod_at_a_time_is_away_and_each_has_a_node_of_its_own(self):
        self.assertEqual(only(self.documents, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1)
        spec = only(self.documents, "StatefulSet")["spec"]
        self.assertEqual((spec["replicas"], spec["podManagementPolicy"]), (3, "Parallel"))
        self.assertGreater(spec["minReadySeconds"], 0)
        labels = spec["template"]["metadata"]["labels"]
        spread = spec["template"]["spec"]["topologySpreadConstraints"]
        found = {it["topologyKey"]: it["whenUnsatisfiable"] for it in spread}
        self.assertEqual(found["kubernetes.io/hostname"], "DoNotSchedule")
        for it in spread:
            self.assertTrue(selects(it["labelSelector"]["matchLabels"], labels))
        (own,) = pod_of(rendered(*LARGEST_CLUSTER))["spec"]["topologySpreadConstraints"]
        self.assertEqual(own["topologyKey"], "rack")
        one = pod_of(rendered(ALLOWED))["spec"]
        self.assertNotIn("topologySpreadConstraints", one)

    def test_each_pod_has_volumes_of_its_own(self):
        spec = only(self.documents, "StatefulSet")["spec"]
        claims = {it["metadata"]["name"] for it in spec["volumeClaimTemplates"]}
        self.assertEqual(claims, {"data", "backups"})
        mounted = {it["name"] for it in container_of(self.documents)["volumeMounts"]}
        self.assertEqual(mounted, claims)
        self.assertNotIn("volumes", spec["template"]["spec"])
        self.assertEqual([d for d in self.documents if d["kind"] == "PersistentVolumeClaim"], [])


def manifests(part):
    """What `kubectl apply -k` would apply of a directory of deploy/kubernetes."""
    done = tool("kubectl", "kustomize", ROOT / "deploy/kubernetes" / part)
    return [it for it in yaml.safe_load_all(done.stdout) if it]


class Manifests(unittest.TestCase):
    def test_they_are_what_the_chart_renders(self):
        with tempfile.TemporaryDirectory() as fresh:
            subprocess.run([ROOT / ".ci/render-manifests", fresh], check=True)
            for path in Path(fresh).rglob("*.yaml"):
                committed = ROOT / "deploy/kubernetes" / path.relative_to(fresh)
                self.assertEqual(
                    path.read_text(), committed.read_text(), f"{committed} is stale: make manifests"
                )

    def test_kustomize_builds_them(self):
        for part, kinds in [
            (".", {"ServiceAccount", "NetworkPolicy", "Service", "StatefulSet"}),
            (
                "cluster",
                {"ServiceAccount", "NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet"},
            ),
            ("founding", {"Job"}),
            ("monitoring", {"ServiceMonitor", "PrometheusRule"}),
        ]:
            documents = manifests(part)
            self.assertEqual({d["kind"] for d in documents}, kinds)
            for document in documents:
                validate(document)

    def test_a_kustomization_of_ones_own_names_the_image(self):
        page = (ROOT / "deploy/README.md").read_text()
        box = re.search(r"^    resources: .*\n(?:    .*\n)+", page, re.M)[0]
        with tempfile.TemporaryDirectory() as desk:
            shutil.copytree(ROOT / "deploy/kubernetes", Path(desk) / "deploy/kubernetes")
            (Path(desk) / "lists").mkdir()
            (Path(desk) / "lists/kustomization.yaml").write_text(textwrap.dedent(box))
            made = list(yaml.safe_load_all(tool("kubectl", "kustomize", f"{desk}/lists").stdout))
        image = container_of(made)["image"]
        self.assertEqual(image, "registry.example.com/cuckood:0.1.0")

    def test_every_directory_of_them_is_rendered(self):
        with tempfile.TemporaryDirectory() as fresh:
            subprocess.run([ROOT / ".ci/render-manifests", fresh], check=True)
            made = {it.relative_to(fresh) for it in Path(fresh).rglob("*.yaml")}
        at = ROOT / "deploy/kubernetes"
        there = {it.relative_to(at) for it in at.rglob("*.yaml") if it.name != "kustomization.yaml"}
        self.assertEqual(made, there)

    def test_they_fit_any_namespace(self):
        for part in (".", "cluster", "founding"):
            text = "".join(map(json.dumps, manifests(part)))
            self.assertNotIn("default", text.replace("RuntimeDefault", "").replace("defaultMode", ""))


class Notes(unittest.TestCase):
    def notes(self, *values):
        """NOTES.txt as an installation would print it."""
        with tempfile.TemporaryDirectory() as desk:
            chart = copied_chart(desk)
            notes = chart / "templates/NOTES.txt"
            notes.rename(chart / "files/notes")
            (chart / "templates/notes.yaml").write_text(
                'kind: Notes\ntext: |\n{{ tpl (.Files.Get "files/notes") . | indent 2 }}\n'
            )
            sets = [f"--set={value}" for value in values]
            done = tool("helm", "template", "prod", chart, "--namespace=lists", *sets)
        return next(
            d["text"] for d in yaml.safe_load_all(done.stdout) if d and d["kind"] == "Notes"
        )

    def first_answers(self, value, *flags, key=""):
        """What the commands answer when they are run here."""
        commands = re.findall(r"^ +(curl .*)$", self.notes(value), re.MULTILINE)
        self.assertEqual(len(commands), 3)
        with Server(*flags) as server:
            return [
                subprocess.run(
                    ["bash", "-ec", c.replace("localhost:8080", f"localhost:{server.port}")],
                    capture_output=True,
                    text=True,
                    check=True,
                    env={**os.environ, "KEY": key},
                ).stdout
                for c in commands
            ]

    def test_the_first_three_commands_work_with_a_key(self):
        with tempfile.TemporaryDirectory() as desk:
            file = Path(desk) / "keys.json"
            command = [BINARY, "keys", "add", "web", "--scope=write", "--keys-file", file]
            made = subprocess.run(command, capture_output=True, text=True, check=True)
            answers = self.first_answers(KEYED, "--keys-file", file, key=made.stdout.strip())
        self.assertEqual(json.loads(answers[2]), {"exists": True})

    def test_the_first_three_commands_work(self):
        answers = self.first_answers(ALLOWED)
        self.assertEqual(json.loads(answers[0])["key"], "seen")
        self.assertEqual(json.loads(answers[1]), {"results": ["added"]})
        self.assertEqual(json.loads(answers[2]), {"exists": True})

    def test_they_name_what_was_installed(self):
        notes = self.notes(ALLOWED)
        names = {d["metadata"]["name"] for d in rendered(ALLOWED, name="prod")}
        self.assertIn("No backups are made", notes)
        self.assertIn("cronjob/prod-cuckood-backup", self.notes(*LARGEST))
        named = set(re.findall(r"(?:statefulset|service)/(\S+)", notes))
        self.assertEqual(named, {"prod-cuckood"})
        self.assertLessEqual(named, names)
        self.assertIn("data-prod-cuckood-0", notes)

    def test_they_warn_of_an_open_ingress(self):
        ingress = ["ingress.enabled=true", "ingress.host=cuckood.example.com"]
        self.assertNotIn("INGRESS", self.notes(ALLOWED))
        self.assertNotIn("INGRESS", self.notes(KEYED, *ingress))
        self.assertIn("INGRESS", self.notes(ALLOWED, *ingress))

    def test_they_say_that_the_controller_of_the_ingress_is_kept_out(self):
        ingress = ["ingress.enabled=true", "ingress.host=cuckood.example.com"]
        (command,) = re.findall(r"--set '(.*)'", self.notes(KEYED, *ingress))
        self.assertNotIn("ingressController", self.notes(KEYED))
        self.assertNotIn("ingressController", self.notes(KEYED, *ingress, command))
        policy = only(rendered(KEYED, *ingress, command), "NetworkPolicy")
        labels = {"kubernetes.io/metadata.name": "ingress-nginx"}
        peers = [it["from"] for it in policy["spec"]["ingress"]]
        self.assertIn([{"namespaceSelector": {"matchLabels": labels}}], peers)

    def test_they_warn_of_keys_that_cross_the_network_as_they_are(self):
        self.assertIn("tls.secret", self.notes(KEYED))
        self.assertNotIn("tls.secret", self.notes(*LARGEST))


if __name__ == "__main__":
    unittest.main()
