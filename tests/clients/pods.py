"""A cluster for tests of clients: one broker, and three pods of the binary that was
built."""

import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from served import BINARY, ROOT, Server, free_port  # noqa: E402

BROKER = ROOT / ".venv/bin/nats-server"


class Pods:
    """Use it in a `with`."""

    def __init__(self, pods=3, lanes=4):
        self.home = tempfile.TemporaryDirectory()
        at = pathlib.Path(self.home.name)
        port, monitor = free_port(), free_port()
        config = at / "broker.conf"
        config.write_text(
            f"listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\n"
            f'jetstream {{ store_dir: "{at}/broker", sync_interval: always }}\n'
        )
        self.broker = subprocess.Popen([BROKER, "--config", config, "--log", at / "broker.log"])
        brokers = [f"--log=nats://127.0.0.1:{port}", f"--log-monitor=http://127.0.0.1:{monitor}", "--cluster=shop"]
        self.pods = []
        try:
            found = [BINARY, "cluster", "found", "--unless-founded", f"--lanes={lanes}", "--copies=1", *brokers]
            deadline = time.monotonic() + 60
            while (said := subprocess.run(found, capture_output=True, text=True)).returncode != 0:
                if time.monotonic() > deadline:
                    raise AssertionError(said.stderr)
                time.sleep(0.1)
            for pod in range(pods):
                (at / f"pod-{pod}").mkdir()
                port = free_port()
                own = f"--advertise=http://127.0.0.1:{port}"
                self.pods.append(Server(BINARY, at / f"pod-{pod}", *brokers, own, port=port))
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def urls(self):
        return [pod.url("") for pod in self.pods]

    def stop(self):
        for process in [*(pod.process for pod in self.pods), self.broker]:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.home.cleanup()
