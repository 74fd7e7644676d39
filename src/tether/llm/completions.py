"""Prompts and completions as token ids, and the base of the policies whose actions they are.

A completion is a row of `max_new_tokens` token ids: the generated tokens, including the
end-of-sequence token, followed by −1. A row without an end-of-sequence token fills the full width:
generation was cut off, which is an outcome in its own right and not an unfinished one. So rows can
be compared, stored and concatenated like any numbers, and their probabilities sum to one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from tether._core.arrays import Actions, Booleans, Contexts, Floats, Integers
from tether._core.contexts import as_contexts

Tokens: TypeAlias = Integers  # one row per completion
Prompt: TypeAlias = tuple[int, ...]  # without padding

PADDING = -1
"""Follows the end of a completion, and marks unused positions of a prompt."""

SAME_SETTINGS = ("end_token_ids", "max_new_tokens", "add_special_tokens")
"""What two policies must share for a completion of one to be an action of the other."""


class Tokenizer(Protocol):
    """The part of a tokenizer of `transformers` that is used."""

    def encode(self, text: str, /, *, add_special_tokens: bool) -> Sequence[int]:
        """Return the token ids of a text."""

    def decode(
        self, tokens: list[int], /, *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> Any:
        """Return the text of token ids."""


def load_tokenizer(name: str, folder: str) -> Any:
    """The tokenizer that is saved in a folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(check_folder(name, folder))


def check_folder(name: str, folder: str) -> str:
    """Refuse what is not a local folder: transformers would look its name up on a hub."""
    if not Path(folder).is_dir():
        raise ValueError(f"{name} must be a folder, but {folder!r} does not exist")
    return folder


class CompletionPolicy(ABC):
    """A policy whose actions are completions of at most `max_new_tokens` tokens.

    Contexts are prompts: texts, or rows of token ids padded with −1. A completion that was cut off
    has the probability of its tokens, so the probabilities of all completions sum to one.
    """

    tokenizer: Tokenizer | None
    max_new_tokens: int
    end_token_ids: Tokens
    add_special_tokens: bool
    context_length: int | None = None
    vocabulary_size: int | None = None

    @abstractmethod
    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities stated by the sampler.

        They differ from `log_prob` by rounding only, which `preflight` measures, and are NaN where
        a server states none.
        """

    @abstractmethod
    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion: the sum of the log-probabilities of its tokens, with its end."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What tells this policy from another one, even after a restart."""

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> Tokens:
        """Draw one completion per prompt, padded with −1 after its end-of-sequence token."""
        return self.sample_scored(contexts, rng)[0]

    def prompts(self, contexts: Contexts) -> list[Prompt]:
        """Return the token ids that the model sees for each context, without padding."""
        if contexts is None or isinstance(contexts, (int, np.integer)):
            raise TypeError(f"contexts must be prompts, one per completion, got {contexts!r}")
        rows = as_contexts(contexts)
        rows = rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)
        known: dict[str | Prompt, Prompt] = {}
        prompts = []
        for index, row in enumerate(rows.tolist() if rows.dtype.kind in "US" else rows):
            key = row if isinstance(row, str) else _as_token_ids(f"contexts[{index}]", row)
            if key not in known:
                known[key] = self._prompt(f"contexts[{index}]", key)
            prompts.append(known[key])
        return prompts

    def texts(self, actions: Actions) -> list[str]:
        """Decode completions, without their ends, for reading; what is scored are token ids."""
        if self.tokenizer is None:
            raise ValueError("tokenizer is None: a tokenizer is needed to decode token ids")
        return [decode_text(self.tokenizer, self.content(row)) for row in self.checked(actions)]

    def content(self, row: Tokens) -> list[int]:
        """Return the tokens of one completion without its end-of-sequence token and padding."""
        return [int(each) for each in row if each != PADDING and each not in self.end_token_ids]

    def completions(self, texts: Sequence[str]) -> Tokens:
        """Encode texts as completions that ended, each with the first of `end_token_ids`.

        Assumes that the texts were generated as these very tokens: the same text in other tokens
        is a different action.
        """
        if isinstance(texts, (str, bytes)):
            raise TypeError(f"texts must be a sequence of strings, got {texts!r:.80}")
        rows, ends, width = [], self.end_token_ids, self.max_new_tokens
        for index, text in enumerate(texts):
            row = [*encode_text(self.tokenizer, text, f"texts[{index}]"), int(ends[0])]
            if np.isin(row[:-1], ends).any():
                raise ValueError(f"texts[{index}] must not contain an end token: {text!r:.60}")
            if len(row) > width:
                told = f"texts[{index}] has {len(row)} tokens with its end"
                raise ValueError(f"{told}, more than max_new_tokens = {width}")
            rows.append(row)
        return pad_rows(rows, width)

    def cut_off(self, actions: Actions) -> Booleans:
        """Tell which completions reached `max_new_tokens` without an end-of-sequence token."""
        return np.asarray(~np.isin(self.checked(actions), self.end_token_ids).any(axis=1))

    def checked(self, actions: Actions) -> Tokens:
        """Return completions as an array; a row that this policy cannot produce is an error."""
        array, width, ends = np.asarray(actions), self.max_new_tokens, self.end_token_ids
        if array.dtype.kind not in "iu":
            raise TypeError(f"actions must hold token ids, got an array of dtype {array.dtype}")
        if array.ndim != 2 or array.shape[1] != width:
            raise ValueError(
                f"actions must have one row of max_new_tokens = {width} token ids per completion "
                f"(-1 after its end), got shape {array.shape}"
            )
        array = array.astype(np.int64, copy=False)
        lengths, place = np.count_nonzero(array != PADDING, axis=1)[:, None], np.arange(width)
        is_end, most = np.isin(array, ends), self.vocabulary_size or np.inf
        has_end = is_end.any(axis=1, keepdims=True)
        last = f"an end-of-sequence token {ends.tolist()}"
        for wrong, expected in (
            ((array != PADDING) != (place < lengths), "-1 only after its end"),
            ((array < PADDING) | (array >= most), f"token ids below {most}"),
            (is_end & (place != lengths - 1), f"nothing after {last}"),
            ((lengths < width) & ~has_end, f"{last} last, as it is shorter than max_new_tokens"),
        ):
            bad = np.asarray(wrong).any(axis=1)
            if bad.any():
                index = int(np.argmax(bad))
                tokens = [int(token) for token in array[index] if token != PADDING]
                raise ValueError(
                    f"actions[{index}] is not a completion of this policy: expected {expected}, "
                    f"got {tokens} ({int(bad.sum())} such row(s) in {len(array)})"
                )
        return array

    def _tokenized(
        self, contexts: Contexts, actions: Actions
    ) -> tuple[list[Prompt], Tokens, Integers]:
        """The tokens of prompts, the checked completions, and how many tokens each of these has."""
        checked = self.checked(actions)
        prompts = self.prompts(as_contexts(contexts, checked))
        return prompts, checked, np.count_nonzero(checked != PADDING, axis=1).astype(np.int64)

    def _prompt(self, name: str, given: str | Prompt) -> Prompt:
        """The token ids of one prompt; one that is too long is refused, not truncated."""
        prompt: Sequence[int] = given if isinstance(given, tuple) else ()
        if isinstance(given, str):
            special = self.add_special_tokens
            prompt = encode_text(self.tokenizer, given, name, add_special_tokens=special)
        if not prompt:
            raise ValueError(f"{name} has no tokens: the model needs at least one")
        if min(prompt) < 0 or max(prompt) >= (self.vocabulary_size or np.inf):
            raise ValueError(f"{name} has ids outside the vocabulary of {self.vocabulary_size}")
        if len(prompt) + self.max_new_tokens > (self.context_length or np.inf):
            raise ValueError(
                f"{name} has {len(prompt)} tokens, which with max_new_tokens = "
                f"{self.max_new_tokens} exceed the model's context length of {self.context_length}"
            )
        return tuple(prompt)


def pad_rows(rows: Sequence[Sequence[int]], width: int) -> Tokens:
    """Rows of token ids as one array of the given width, padded on the right."""
    array = np.full((len(rows), width), PADDING, dtype=np.int64)
    for index, row in enumerate(rows):
        array[index, : len(row)] = row
    return array


def encode_text(
    tokenizer: Tokenizer | None, text: str, name: str, *, add_special_tokens: bool = False
) -> list[int]:
    """The token ids of a text, which must decode to the same text."""
    if tokenizer is None:
        raise ValueError(f"{name} is a text but tokenizer is None: pass token ids or a tokenizer")
    tokens = [int(each) for each in tokenizer.encode(text, add_special_tokens=add_special_tokens)]
    decoded = decode_text(tokenizer, tokens)
    if decoded != text and not (add_special_tokens and decoded.endswith(text)):
        raise ValueError(
            f"the tokenizer does not preserve {name}: {text!r:.60} became {decoded!r:.60}. "
            f"Its score would be that of another text; pass token ids, or a text that is preserved"
        )
    start = getattr(tokenizer, "bos_token_id", None)
    if decoded != text and tokens[:2] == [start, start]:
        raise ValueError(
            f"{name} begins with {getattr(tokenizer, 'bos_token', None)!r}, and "
            f"add_special_tokens=True adds another one: remove one of them"
        )
    return tokens


def decode_text(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    """The text of token ids, including special tokens and without clean-up of spaces."""
    exact = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    return str(tokenizer.decode(list(tokens), **exact))


def as_end_token_ids(
    eos_token_id: int | Sequence[int] | None, vocabulary_size: int | None = None
) -> Tokens:
    """One or several end-of-sequence token ids as an array; there must be at least one."""
    if eos_token_id is None or np.size(eos_token_id) == 0:
        raise ValueError("neither model nor tokenizer defines an end token: pass eos_token_id")
    ends = np.array(_as_token_ids("eos_token_id", np.atleast_1d(eos_token_id)), dtype=np.int64)
    if not ends.size or ends.min() < 0 or ends.max() >= (vocabulary_size or np.inf):
        most = "" if vocabulary_size is None else f" below {vocabulary_size}"
        raise ValueError(f"eos_token_id must be token ids{most}, got {eos_token_id!r}")
    return ends


def _as_token_ids(name: str, row: Any) -> Prompt:
    ids = np.asarray(row)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a text or token ids, got {row!r:.80}")
    return tuple(ids[ids != PADDING].tolist())


def difference(one: CompletionPolicy, other: CompletionPolicy) -> str:
    """Why completions of one policy are not actions of another, in words; empty if they are."""
    for name in SAME_SETTINGS:
        values = getattr(one, name), getattr(other, name)
        if not np.array_equal(*values):
            return f"{name} is {values[0]} for one and {values[1]} for the other"
    if one.tokenizer is other.tokenizer:
        return ""
    words: list[dict[str, int]]
    words = [getattr(each.tokenizer, "get_vocab", dict)() for each in (one, other)]
    own, others = ({token: word for word, token in each.items()} for each in words)
    for token in sorted(own.keys() & others.keys()):
        if own[token] != others[token]:
            return f"the tokenizers differ: token {token} is {own[token]!r} and {others[token]!r}"
    return ""
