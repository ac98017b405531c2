"""A proxy in front of a server that forwards every request and loses some of
the answers: it closes the connection in their place."""

import http.client
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What belongs to one connection.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}


class LossyProxy:
    """Loses `share` of the answers of the server at `port`, after they are made."""

    def __init__(self, port, share, seed):
        self.share = share
        self.chance = random.Random(seed)
        self.lost = 0
        self.replayed = 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Forward", (Forward,), {"proxy": self, "to": port}))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def loses(self, is_replay):
        with self.lock:
            self.replayed += is_replay
            lost = self.chance.random() < self.share
            self.lost += lost
            return lost

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        upstream = http.client.HTTPConnection("127.0.0.1", self.to, timeout=30)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            # The server is being restarted.
            self.close_connection = True
            return
        finally:
            upstream.close()
        if self.proxy.loses(answer.headers.get("idempotency-replayed") == "true"):
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = forward

    def log_message(self, *_):
        pass
