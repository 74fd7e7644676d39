"""What a webhook is sent."""

import hmac
import json
from hashlib import sha256
from http.client import HTTPException

import pytest

from tests.service.operating.receivers import Receiver, receiving
from tether.service.operating.release_events import ReleaseEvent
from tether.service.operating.webhook_message import make_message, post_message
from tether.service.settings.webhook_tables import Webhook

EVENT = ReleaseEvent("shop/alarm/3", "alarm", "now", "shop: alarm 3", 0.0, {"number": 3})


def test_a_message_is_signed_with_its_time():
    body, headers = make_message(Webhook("http://x", secret="word"), EVENT, 1_700_000_000)
    assert json.loads(body) == EVENT.to_dict()
    assert headers["Tether-Event-Id"] == "shop/alarm/3"
    assert headers["Tether-Timestamp"] == "1700000000"
    expected = hmac.new(b"word", b"1700000000." + body, sha256).hexdigest()
    assert headers["Tether-Signature"] == f"v1={expected}"
    text, unsigned = make_message(Webhook("http://x", format="text"), EVENT, 0)
    assert json.loads(text) == {"text": "shop: alarm 3"}
    assert "Tether-Signature" not in unsigned


def test_it_is_sent_to_the_whole_url_and_not_elsewhere():
    receiver = Receiver([302, 500])
    with receiving(receiver) as url:
        webhook = Webhook(url)
        body, headers = make_message(webhook, EVENT, 0)
        assert [post_message(webhook, body, headers) for _ in range(3)] == [302, 500, 200]
    assert [path for path, _, _ in receiver.got] == ["/hook/secret-part?a=b"] * 3
    assert receiver.got[0][2] == body


@pytest.mark.parametrize("answer", ["slow", "trickle"])
def test_a_receiver_has_a_deadline(answer):
    """Also one that sends a byte now and then."""
    with receiving(Receiver([answer])) as url:
        webhook = Webhook(url, deadline=0.2)
        with pytest.raises((OSError, HTTPException)):
            post_message(webhook, *make_message(webhook, EVENT, 0))
