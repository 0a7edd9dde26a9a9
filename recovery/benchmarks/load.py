"""The callers: each records an operation with its permit and reports an applied answer, over one kept connection.

    python -m recovery.benchmarks.load PORT TOKEN CALLERS SECONDS PREFIX

Prints one JSON object: operations done, seconds, the latency of a whole operation (p50, p99, milliseconds), and how
many cores the callers themselves took: near one, they and not the server would be what is measured.
Plain sockets and prebuilt text, so that the callers cost little beside the server.
"""

import json
import socket
import statistics
import sys
import threading
import time

OBSERVED = json.dumps(
    {
        "kind": "http",
        "request": {"method": "POST", "path": "/tickets"},
        "status": 201,
        "headers": {"content-type": "application/json"},
        "body": {"id": "T-1", "state": "open"},
        "elapsed_ms": 41,
    }
)


class Caller(threading.Thread):
    """One harness."""

    def __init__(self, *, port: int, token: str, prefix: str, ends: float) -> None:
        super().__init__()
        self.port, self.token, self.prefix, self.ends = port, token, prefix, ends
        self.took: list[float] = []
        self.wrong = ""

    def run(self) -> None:
        """Operations until the time is up; stops at the first unexpected answer."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = 0
            while time.perf_counter() < self.ends:
                number += 1
                name = f"{self.prefix}-{number}"
                began = time.perf_counter()
                if not self._post(connection, "/api/v1/operations", intent(name), b"201"):
                    return
                path = f"/api/v1/operations/{name}/attempts/attempt-01/observations"
                if not self._post(connection, path, OBSERVED, b"200"):
                    return
                self.took.append(time.perf_counter() - began)

    def _post(self, connection: socket.socket, path: str, body: str, expected: bytes) -> bool:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall((head + body).encode())
        answer = connection.recv(65536)
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(65536)
        top, _, rest = answer.partition(b"\r\n\r\n")
        lowered = top.lower()
        at = lowered.index(b"content-length:") + 15
        length = int(lowered[at:].split(b"\r\n", 1)[0])
        while len(rest) < length:
            rest += connection.recv(65536)
        if top[9:12] != expected:
            self.wrong = f"{top[:40]!r} {rest[:300]!r}"
            return False
        return True


def intent(name: str) -> str:
    """The body of one intent, with a payload of 300 bytes."""
    payload = {"reference": name, "customer": "c-19", "title": "Export broken", "text": ""}
    payload["text"] = "x" * (300 - len(json.dumps(payload)))
    return json.dumps({"operation_id": name, "tool": "tickets.create", "payload": payload, "attempt": True})


def main() -> None:
    """Run the callers and print what they did."""
    port, token, callers, seconds, prefix = sys.argv[1:6]
    began = time.perf_counter()
    threads = [
        Caller(port=int(port), token=token, prefix=f"{prefix}-{number}", ends=began + float(seconds))
        for number in range(int(callers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = sorted(one for thread in threads for one in thread.took)
    wrong = next((thread.wrong for thread in threads if thread.wrong), "")
    spent = time.perf_counter() - began
    told = {"operations": len(took), "seconds": spent, "wrong": wrong, "callers_cores": time.process_time() / spent}
    if took:
        told |= {"p50": statistics.median(took) * 1000, "p99": took[int(len(took) * 0.99)] * 1000}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
