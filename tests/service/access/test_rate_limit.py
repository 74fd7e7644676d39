"""Token buckets."""

from tether.service.access.rate_limit import RateLimit


def test_a_bucket_fills_up_to_its_burst():
    now = 0.0
    limit = RateLimit(2.0, 3, lambda: now)
    assert [limit.allows("a") for _ in range(5)] == [True] * 3 + [False] * 2
    assert limit.allows("b")
    now = 0.4
    assert not limit.allows("a")
    now = 0.5
    assert limit.allows("a")
    assert not limit.allows("a")
    now = 100.0
    assert [limit.allows("a") for _ in range(4)] == [True] * 3 + [False]
