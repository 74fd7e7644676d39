"""Two services on one PostgreSQL that is frozen, killed and started again."""

import httpx2

import tether
from tests.runs.frozen_processes import frozen, server_pids
from tests.service.running import OLD_LOG, tries
from tests.service.service_processes import free_port, served, write_settings
from tether.rounds import read_release, verify_store
from tether.rounds.releases.unstored_answers import read_unstored
from tether.rounds.store.database import Store


class Client:
    """Asks a service, and remembers what it answered without the store."""

    def __init__(self, port):
        self._url, self.unstored = f"http://127.0.0.1:{port}", []

    def decide(self, key):
        found = self.post("/v1/decisions", {"key": key})
        if not found["stored"]:
            assert found["system"] == "old"
            self.unstored.append(key)
        return found

    def decide_stored(self, key):
        """What is decided with the store: on a slow machine it may be late at first."""
        for _ in tries(120):
            if (found := self.decide(key))["stored"]:
                return found["system"]

    def post(self, path, body):
        found = httpx2.post(self._url + path, json=body, timeout=120)
        assert found.status_code == 200, found.text
        return found.json()

    def status(self):
        return httpx2.get(self._url + "/v1/status", timeout=120).json()

    def wait_until_stored(self, name):
        for place, _ in enumerate(tries(120)):
            if self.decide(f"{name} {place}")["stored"]:
                break
        for _ in tries(120):
            found = self.status()
            if found["store_available"] and not found["unstored_waiting"]:
                return


def test_two_services_on_a_postgresql_that_fails(server, postgres_url, tmp_path):
    """No answer waits for the store: it is frozen, or down, until all of them are there."""
    with tether.Release(postgres_url, {"complaint": 0.5}, old=OLD_LOG, max_silence=None) as made:
        new = next(n for n in range(10_000) if made.assign(n) == "new")
    ports = free_port(), free_port()
    paths = [
        write_settings(tmp_path, port, postgres_url, answer_within=0.2, store_deadline=2)
        for port in ports
    ]
    with served(paths[0], ports[0]), served(paths[1], ports[1]):
        one, other = both = [Client(port) for port in ports]
        assert [each.decide_stored(new) for each in both] == ["new", "new"]
        with frozen(server_pids(server)):
            for each in both:
                answers = [each.decide(f"frozen {n}") for n in range(15)]
                assert not any(answer["stored"] for answer in answers)
                assert not each.decide(new)["stored"]
        for each in both:
            each.wait_until_stored("thawed")
        server.stop("immediate")
        try:
            for each in both:
                assert not any(each.decide(f"killed {n}")["stored"] for n in range(15))
        finally:
            server.start()
        for each in both:
            each.wait_until_stored("started")
        one.post("/v1/halt", {"reason": "a test"})
        assert other.decide(new)["system"] == "old"  # the very next decision
        assert other.decide_stored(new) == "old"
        for _ in tries(120):
            if other.status()["alarm"] is not None:
                break
        other.post("/v1/resume", {"reason": "over"})
        for _ in tries(120):
            if one.decide(new)["system"] == "new":
                break
    store = Store(postgres_url, create=False)
    with store.reading() as connection:
        listed = read_unstored(connection)
    store.close()
    answered = [str(key) for each in both for key in each.unstored]
    assert sorted(listed) == sorted(answered)
    assert len(listed) >= 62
    assert read_release(postgres_url).unstored == len(listed)
    assert verify_store(postgres_url).ok
