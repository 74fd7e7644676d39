"""The OpenFeature Remote Evaluation Protocol, with the real SDK and provider."""

import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from tests.service.running import running, settings
from tether.release import ArmCounts, is_new, positions
from tether.rounds import verify_store

GOOD = {"complaint": ArmCounts(10_000, 0.0)}


@pytest.fixture
def openfeature():
    """Makes clients of the SDK; providers are global there, so each test cleans up."""

    def make(http, **options):
        api.set_provider(OFREPProvider(str(http.base_url), **options))
        return api.get_client()

    yield make
    api.shutdown()
    api.clear_providers()


def test_the_sdk_gets_what_the_hash_says(tmp_path, openfeature):
    store = tmp_path / "release.db"
    guardrails = {"complaint": 0.4}
    given = settings(store, release={"guardrails": guardrails, "old": GOOD}, flag="checkout")
    with running(given) as http:
        share = http.get("/v1/status").json()["share"]
        assert 0.3 < share < 0.5
        client = openfeature(http)
        keys = [f"user {number}" for number in range(20)]
        expected = is_new(positions(keys, b"test"), share).tolist()
        for key, new in zip(keys, expected, strict=True):
            found = client.get_string_details("checkout", "?", EvaluationContext(key))
            assert found.value == found.variant == ("new" if new else "old")
            assert found.reason == Reason.SPLIT
            assert found.flag_metadata == {"stored": True}
        assert len({*expected}) == 2
    assert verify_store(store).ok


def test_the_sdk_understands_errors(client, openfeature):
    sdk = openfeature(client)
    missing = sdk.get_string_details("nothing", "?", EvaluationContext("ann"))
    assert (missing.value, missing.error_code) == ("?", ErrorCode.FLAG_NOT_FOUND)
    no_key = sdk.get_string_details("release", "?", EvaluationContext(None, {"plan": "free"}))
    assert no_key.error_code == ErrorCode.TARGETING_KEY_MISSING
    assert sdk.get_string_details("release", "?").error_code == ErrorCode.TARGETING_KEY_MISSING
    too_long = sdk.get_string_details("release", "?", EvaluationContext("x" * 501))
    assert too_long.error_code == ErrorCode.INVALID_CONTEXT
