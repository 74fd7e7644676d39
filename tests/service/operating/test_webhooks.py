"""A service tells its receivers of a halt, and requests do not wait for them."""

import json

from tests.service.operating.receivers import Receiver, receiving
from tests.service.running import running, settings, tries
from tether.service.settings.webhook_tables import Webhook


def test_each_service_of_a_release_tells_the_same_events(tmp_path):
    receiver, slow = Receiver(), Receiver(["slow"] * 10)
    with receiving(receiver) as url, receiving(slow) as slow_url:
        webhooks = (
            Webhook(url, frozenset({"alarm", "halt", "resume", "step"})),
            Webhook(slow_url, deadline=0.1),
        )
        given = settings(tmp_path / "release.db", webhooks=webhooks)
        with running(given) as one, running(given) as other:
            assert one.post("/v1/halt", json={"reason": "a rumour"}).status_code == 200
            for _ in tries():
                if other.get("/v1/status").json()["alarm"]:
                    break
            assert other.post("/v1/resume", json={"reason": "it was none"}).status_code == 200
            for _ in tries():
                found = [json.loads(body)["id"] for _, _, body in receiver.got]
                if len(found) >= 6 and slow.got:
                    break
            counted = 'tether_webhook_attempts_total{result="delivered",webhook="1"} 3.0'
            for _ in tries():
                if counted in one.get("/metrics").text:
                    break
            slow.ended.set()
    kinds = ("halt/1", "resume/1", "step/2")
    assert sorted(found) == sorted(2 * [f"release/{each}" for each in kinds])
