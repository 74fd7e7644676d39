"""What a webhook is sent."""

import hmac
import json
import ssl
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.client import HTTPException
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.service.operating.receivers import Receiver, receiving
from tether.service.operating.release_events import ReleaseEvent
from tether.service.operating.webhook_message import make_message, post_message
from tether.service.settings.webhook_tables import Webhook

LOOPBACK = ip_address("127.0.0.1")
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


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("answer", ["slow", "trickle"])
def test_a_receiver_has_a_deadline(answer, is_encrypted, certificate, monkeypatch):
    """Also one that sends a byte now and then."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with receiving(Receiver([answer]), certificate=certificate if is_encrypted else None) as url:
        webhook = Webhook(url, deadline=0.5)
        with pytest.raises((OSError, HTTPException)):
            post_message(webhook, *make_message(webhook, EVENT, 0))


def test_certificates_are_checked(certificate, monkeypatch):
    receiver = Receiver()
    with receiving(receiver, certificate=certificate) as url:
        webhook = Webhook(url)
        message = make_message(webhook, EVENT, 0)
        with pytest.raises(ssl.SSLCertVerificationError):
            post_message(webhook, *message)
        assert receiver.got == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert post_message(webhook, *message) == 200


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of this machine that nobody has signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(LOOPBACK)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file
