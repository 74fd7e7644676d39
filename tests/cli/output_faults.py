"""What every call of the command line must keep to, whatever its input."""

import re
import unicodedata

from tests.cli.command_line import run

EXIT_CODES = {0, 1, 2, 3, 4, 130}


def faults(words):
    """What is wrong with the outcome of a command; nothing if the list is empty."""
    result = run(*words)
    found = []
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        error = result.exception
        trace = error.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename.rpartition('src/')[2]}:{trace.tb_lineno}"
        found.append(f"{type(error).__name__} in {place}: {str(error)[:200]}")
    if result.exit_code not in EXIT_CODES:
        found.append(f"exit code {result.exit_code}")
    if "Traceback" in result.output:
        found.append("a traceback")
    controls = {
        character
        for character in result.output
        if (unicodedata.category(character) in ("Cc", "Cs") and character != "\n")
        or character in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    }
    if controls:
        found.append(f"control characters {sorted(controls)!r}")
    if result.exit_code in (0, 3) and re.search(r"(?<![\w\"])nan(?!\w)", result.stdout):
        found.append("nan presented as a result")
    if "s3cret" in result.output and any("s3cret" in str(word) for word in words):
        found.append("a password")
    return found


def all_faults(commands):
    """The faults of many commands, each with the command that has it."""
    return [
        f"{' '.join(map(repr, map(str, words)))[:300]}: {fault}"
        for words in commands
        for fault in faults(words)
    ]
