"""A page as a tree, by the standard library's own parser: what is not closed is an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "col"}


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None]
    children: list = field(default_factory=list)

    def all(self, tag: str | None = None, **wanted: str):
        """Every element below with that tag and those attributes, in order."""
        for child in self.children:
            if isinstance(child, Node):
                given = {key: child.attributes.get(key) for key in wanted}
                if tag in (None, child.tag) and given == wanted:
                    yield child
                yield from child.all(tag, **wanted)

    @property
    def text(self) -> str:
        return "".join(c.text if isinstance(c, Node) else c for c in self.children)

    def rows(self) -> list[list[str]]:
        """The body of a table, cell by cell."""
        body = next(self.all("tbody"))
        return [[c.text for c in row.children] for row in body.all("tr")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        assert len(attrs) == len(dict(attrs)), f"{tag} has an attribute twice: {attrs}"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(text: str) -> Node:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], f"{reader.open[-1].tag} is never closed"
    return reader.root
