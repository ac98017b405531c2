"""Runs here, without images, what a compose file or the chart would run in
containers: each container gets a loopback address of its own, at which its names
lead, and directories in place of its volumes."""

import json
import os
import random
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from support import BINARY, TOOLS, without_settings

# What the image of the Dockerfile sets, but for its health check.
DOCKERFILE = Path(__file__).resolve().parents[2] / "Dockerfile"


@dataclass
class Container:
    """One container, as something renders it."""

    program: str
    arguments: list[str]
    names: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    # Directories that are empty at first, by where the container sees them.
    volumes: list[str] = field(default_factory=list)
    # Texts of files that are mounted, by where the container sees them.
    files: dict[str, str] = field(default_factory=dict)


def image_environment():
    """What the server's image says to every container of it."""
    text = re.search(r"^ENV (.*?[^\\])$", DOCKERFILE.read_text(), re.MULTILINE | re.DOTALL)[1]
    return dict(it.split("=", 1) for it in text.replace("\\\n", " ").split())


class Placed:
    """Containers that run here as processes. Use it in a `with`."""

    def __init__(self, containers):
        self.containers = containers
        self.home = tempfile.TemporaryDirectory()
        # All of 127.0.0.0/8 is this machine: ports stay as they are.
        net = f"127.{random.randrange(1, 255)}.{random.randrange(255)}"
        self.addresses = {name: f"{net}.{at + 1}" for at, name in enumerate(containers)}
        names = {name: self.addresses[it] for it, one in containers.items() for name in one.names}
        self.names = dict(sorted(names.items(), key=lambda it: -len(it[0])))
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self.home.cleanup()

    def here(self, name, text):
        """What a text of a container means here."""
        for known, address in self.names.items():
            text = re.sub(rf"(?<=//){re.escape(known)}(?![\w.-])", address, text)
        text = text.replace("0.0.0.0", self.addresses[name])
        one = self.containers[name]
        # Longer ones first, which may lie in others.
        for path in sorted([*one.volumes, *one.files], key=len, reverse=True):
            text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", str(self.path(name, path)), text)
        return text

    def path(self, name, path):
        return Path(self.home.name) / name / path.strip("/")

    def start(self, name):
        """Starts a container, with what its volumes have."""
        one = self.containers[name]
        for path in one.volumes:
            self.path(name, path).mkdir(parents=True, exist_ok=True)
        for path, text in one.files.items():
            self.path(name, path).parent.mkdir(parents=True, exist_ok=True)
            self.path(name, path).write_text(self.here(name, text))
        program = {"cuckood": BINARY, "nats-server": TOOLS / "nats-server"}[one.program]
        environment = {key: self.here(name, value) for key, value in one.environment.items()}
        with self.log(name).open("a") as log:
            self.running[name] = subprocess.Popen(
                [program, *(self.here(name, it) for it in one.arguments)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**without_settings(), **environment},
                cwd=self.home.name,
            )

    def log(self, name):
        return Path(self.home.name) / f"{name}.log"

    def logs(self):
        return "\n".join(f"== {it}\n{self.log(it).read_text()[-2000:]}" for it in self.running)

    def kill(self, name):
        self.running[name].kill()
        self.running[name].wait()


def of_compose(path, made):
    """The containers of a compose file, and what each waits for, by name. `made` has
    the texts of the files that its user makes, by their paths beside it."""
    import yaml

    document = yaml.safe_load(path.read_text())
    services, secrets = document["services"], document["secrets"]
    containers = {}
    for name, service in services.items():
        mounted = [it.split(":") for it in service.get("volumes", [])]
        is_ours = service["image"] == "cuckood"
        containers[name] = Container(
            program="cuckood" if is_ours else "nats-server",
            arguments=service.get("command", ["serve"]),
            names=[name],
            environment={**(image_environment() if is_ours else {}), **service.get("environment", {})},
            volumes=[target for source, target, *_ in mounted if not source.startswith(".")],
            files={
                **{
                    target: (path.parent / source).read_text()
                    for source, target, *_ in mounted
                    if source.startswith(".")
                },
                **{f"/run/secrets/{it}": made[secrets[it]["file"]] for it in service.get("secrets", [])},
            },
        )
    return containers, {name: service.get("depends_on", []) for name, service in services.items()}


def of_pod(pod, name, names, secrets, volumes=()):
    """The container of a pod of Kubernetes. `secrets` has the items of each Secret;
    `volumes` names those that are claimed."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    environment = image_environment()
    for it in container.get("env", []):
        # As Kubernetes does: what stands before is filled in.
        value = it.get("value", {"POD_NAME": name, "POD_NAMESPACE": "default"}.get(it["name"]))
        environment[it["name"]] = re.sub(r"\$\((\w+)\)", lambda known: environment[known[1]], value)
    files = {}
    by_name = {it["name"]: it for it in spec.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            of = by_name[mount["name"]]["secret"]
            for item in of["items"]:
                files[f"{mount['mountPath']}/{item['path']}"] = secrets[of["secretName"]][item["key"]]
    mounts = [it["mountPath"] for it in container.get("volumeMounts", []) if it["name"] in volumes]
    return Container("cuckood", container["args"], names, environment, mounts, files)


def of_broker_values(values, secrets, release="nats", namespace="nats"):
    """The brokers that their chart makes of these values: as much of it as the
    values say something about."""
    config = values["config"]
    replicas, monitored = config["cluster"]["replicas"], config["monitor"]["enabled"]
    assert config["cluster"]["enabled"] and config["jetstream"]["enabled"]
    routes = [f"nats://{release}-{it}.{release}-headless:6222" for it in range(replicas)]
    merged = config["jetstream"].get("merge", {})
    has_tls = config.get("nats", {}).get("tls", {}).get("enabled", False)
    certificates = "/etc/nats-certs/nats"
    references = {key: it["valueFrom"]["secretKeyRef"] for key, it in values["container"]["env"].items()}
    environment = {key: secrets[it["name"]][it["key"]] for key, it in references.items()}
    # As the chart does, what is to stand there as it is does.
    also = re.sub(r'"<< (.*?) >>"', r"\1", json.dumps(config["merge"]))[1:-1]
    lines = [
        *("server_name: $POD_NAME", "port: 4222", *(["http_port: 8222"] if monitored else [])),
        f"cluster {{ name: {release}, port: 6222, no_advertise: true, routes: [{', '.join(routes)}] }}",
        *([f"tls {{ cert_file: {certificates}/tls.crt, key_file: {certificates}/tls.key }}"] if has_tls else []),
        also,
        "jetstream { store_dir: /data, " + ", ".join(f"{k}: {v}" for k, v in merged.items()) + " }",
    ]
    containers = {}
    for broker in range(replicas):
        name = f"{release}-{broker}"
        host = f"{name}.{release}-headless"
        # Without an address it listens on all, which here is its own.
        text = "\n".join(lines).replace("port: 6222", "listen: 0.0.0.0:6222")
        text = text.replace("port: 4222", "listen: 0.0.0.0:4222").replace("http_port: 8222", "http: 0.0.0.0:8222")
        containers[name] = Container(
            *("nats-server", ["--config", "/etc/nats-config/nats.conf"]),
            names=[host, f"{host}.{namespace}", f"{host}.{namespace}.svc.cluster.local"],
            environment={"POD_NAME": name, **environment},
            volumes=["/data"],
            files={"/etc/nats-config/nats.conf": text},
        )
    return containers
