"""Events arrive at least once, in order, whatever the receiver does."""

import json
import logging
import socket
from collections import Counter

from tests.service.operating.receivers import Receiver, receiving
from tests.service.running import tries
from tether.service.operating import webhook_sender
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


def test_a_receiver_that_is_down_gets_it_when_it_is_up():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    receiver, counts = Receiver(), Counts()
    sending = sender(Webhook(f"http://127.0.0.1:{port}/"), counts)
    sending.put(event(1))
    for _ in tries():
        if counts["failed"] >= 2:
            break
    with receiving(receiver, port):
        for _ in tries():
            if counts["delivered"]:
                break
        sending.stop()
    assert ids(receiver) == ["shop/alarm/1"]


def test_what_is_refused_is_given_up_and_the_next_is_sent(caplog):
    receiver, counts = Receiver([404, 302, 200]), Counts()
    with receiving(receiver) as url:
        sending = sender(Webhook(url), counts)
        for number in (1, 2, 3):
            sending.put(event(number))
        sending.stop()  # what waits is sent first
    assert ids(receiver) == ["shop/alarm/1", "shop/alarm/2", "shop/alarm/3"]
    assert dict(counts) == {"failed": 2, "given_up": 2, "delivered": 1}
    assert [each.levelname for each in caplog.records] == ["ERROR", "ERROR"]


def test_the_oldest_is_given_up_where_too_many_wait(monkeypatch):
    monkeypatch.setattr(webhook_sender, "MOST_EVENTS_WAITING", 2)
    receiver, counts = Receiver(), Counts()
    with receiving(receiver) as url:
        waiting = WebhookSender(Webhook(url), 1, counts)
        for number in (1, 2, 3):
            waiting.put(event(number))
        waiting.start()
        waiting.stop()
    assert ids(receiver) == ["shop/alarm/2", "shop/alarm/3"]
    assert counts["given_up"] == 1


def test_the_end_does_not_wait_for_a_receiver_that_is_down():
    counts = Counts()
    sending = sender(Webhook("http://127.0.0.1:1/"), counts, first_wait=600)
    for number in range(5):
        sending.put(event(number))
    for _ in tries():
        if counts["failed"]:
            break
    sending.stop()
    assert not sending._thread.is_alive()
    assert counts["failed"] == 1


def test_an_event_that_cannot_be_sent_does_not_end_the_thread(monkeypatch):
    receiver, counts = Receiver(), Counts()
    with receiving(receiver) as url:
        sending = sender(Webhook(url), counts)
        with monkeypatch.context() as patch:
            patch.setattr(webhook_sender, "post_message", lambda *arguments: 1 / 0)
            sending.put(event(1))
            for _ in tries():
                if counts["given_up"]:
                    break
        sending.put(event(2))
        sending.stop()
    assert ids(receiver) == ["shop/alarm/2"]


def test_the_end_does_not_wait_for_a_receiver_that_is_silent(monkeypatch):
    """However long the deadline of the webhook is."""
    monkeypatch.setattr(webhook_sender, "LAST_SECONDS", 0.01)
    receiver, counts = Receiver(["slow"]), Counts()
    with receiving(receiver) as url:
        sending = sender(Webhook(url, deadline=60), counts)
        sending.put(event(1))
        for _ in tries():
            if receiver.got:
                break
        sending.stop()
        assert sending._thread.is_alive()
        receiver.ended.set()
