"""Events arrive at least once, in order, whatever the receiver does."""

import json
import logging
from collections import Counter

from tests.service.operating.receivers import Receiver, receiving
from tests.service.running import tries
from tether.service.operating.release_events import ReleaseEvent
from tether.service.operating.webhook_sender import WebhookSender
from tether.service.settings.webhook_tables import Webhook


def event(number, kind="alarm"):
    return ReleaseEvent(f"shop/{kind}/{number}", kind, "now", "text", 0.0, {})


def ids(receiver):
    return [json.loads(body)["id"] for _, _, body in receiver.got]


class Counts(Counter):
    def __call__(self, place, result):
        self[result] += 1


def sender(webhook, counts, **options):
    made = WebhookSender(webhook, 1, counts, **{"first_wait": 0.01, **options})
    made.start()
    return made


def test_a_receiver_that_fails_for_a_while_gets_everything_in_order(caplog):
    caplog.set_level(logging.INFO)
    receiver, counts = Receiver([500, "slow", 429, 503, 200, 500]), Counts()
    with receiving(receiver) as url:
        sending = sender(Webhook(url, deadline=0.2), counts)
        for number in (1, 2, 3):
            sending.put(event(number))
            sending.put(event(number, "step"))  # not asked for
        for _ in tries():
            if counts["delivered"] == 3:
                break
        receiver.ended.set()
        sending.stop()
    assert ids(receiver) == [f"shop/alarm/{n}" for n in (1, 1, 1, 1, 1, 2, 2, 3)]
    assert (counts["failed"], counts["given_up"]) == (5, 0)
    said = [(each.getMessage(), each.fields["problem"]) for each in caplog.records]
    assert said[0] == ("an event was not delivered", "status 500")
    assert "secret-part" not in caplog.text + repr([each.__dict__ for each in caplog.records])
