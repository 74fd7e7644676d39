"""Tables that an experiment wrote, with numbers as numbers."""

import csv


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: value_of(text) for key, text in row.items()} for row in csv.DictReader(file)]


def value_of(text):
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text)
    except ValueError:
        return text
