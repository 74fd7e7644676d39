"""Counting draws and tokens."""

import threading

from tether.llm.server.chat_usage import count_draws, counting_usage


def test_counts_are_those_of_the_block_and_the_thread():
    count_draws(5, {"total_tokens": 5})  # nobody counts
    with counting_usage() as outer:
        count_draws(2, {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7})
        other = threading.Thread(target=count_draws, args=(9, {}))
        other.start()
        other.join()
        with counting_usage() as inner:
            count_draws(1, None)
        count_draws(1, {"total_tokens": True, "prompt_tokens": "7"})  # not stated
    assert (outer.draws, inner.draws) == (3, 1)
    assert outer.tokens == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
