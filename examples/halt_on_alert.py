"""Halt a release when Prometheus says so: from Alertmanager's webhook to /v1/halt.

Alertmanager cannot send a body of one's own choice, so this program stands between. It halts for
alerts with the label act="halt" that fire, and answers 502 where the halt is not stored, so that
Alertmanager tries again. Resuming is left to people. It needs nothing beyond Python:

    TETHER_URL=http://127.0.0.1:8080 TETHER_KEY=tether_… python halt_on_alert.py 9095
"""

import json
import os
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

URL, KEY = os.environ.get("TETHER_URL", "http://127.0.0.1:8080"), os.environ.get("TETHER_KEY")


def ask(path, body=None):
    """Send a request to the service; an OSError if it is not answered with 200."""
    headers = {"Content-Type": "application/json"}
    if KEY:
        headers["Authorization"] = f"Bearer {KEY}"
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, content, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def halt(message):
    """Halt if an alert of a message asks for it; not again while an alarm stands."""
    asking = [
        alert
        for alert in message["alerts"]
        if alert["status"] == "firing" and alert["labels"].get("act") == "halt"
    ]
    if asking and ask("/v1/status")["alarm"] is None:
        alert = asking[0]
        told = f"{alert['labels']['alertname']}: {alert['annotations'].get('summary', '')}"
        ask("/v1/halt", {"reason": told[:1000]})


class Receiver(BaseHTTPRequestHandler):
    """Takes the messages of Alertmanager."""

    def do_POST(self):
        """Halt, and say whether that could be done."""
        status = 200
        try:
            halt(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        except OSError as error:  # the service, or its store, is unavailable
            print(f"not halted: {error}", file=sys.stderr)
            status = 502
        self.send_response(status)
        self.end_headers()


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
