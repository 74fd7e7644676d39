"""Plays users of the service in docs/how_to/serve.md: each asks, is answered, and may complain.

python users.py [the first user] [how often the new system gets a complaint]
"""

import json
import random
import sys
import urllib.request

ADDRESS = "http://localhost:8080"
first_user = int(sys.argv[1]) if len(sys.argv) > 1 else 0
complaints = {"old": 0.01, "new": float(sys.argv[2]) if len(sys.argv) > 2 else 0.008}


def ask(path, body=None):
    """Send a request, with a body if it is a POST, and return what is answered."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESS + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


for user in range(first_user, first_user + 1500):
    key = f"user {user}"
    system = ask("/v1/decisions", {"key": key})["system"]
    complaint = float(random.random() < complaints[system])  # your system answers here
    ask("/v1/outcomes", {"key": key, "system": system, "losses": {"complaint": complaint}})
    if user % 300 == 299:
        print(f"{user + 1} users: {ask('/v1/status')['state']}", flush=True)
