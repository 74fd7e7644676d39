"""HTML as a tree, read with the standard library's parser; an unclosed element is an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID_TAGS = {"meta", "link", "br", "hr", "img", "input", "col"}


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None]
    children: list = field(default_factory=list)

    def find_all(self, tag: str | None = None, **wanted: str):
        """Every descendant with this tag and these attributes, in document order."""
        for child in self.children:
            if isinstance(child, Node):
                actual = {key: child.attributes.get(key) for key in wanted}
                if tag in (None, child.tag) and actual == wanted:
                    yield child
                yield from child.find_all(tag, **wanted)

    @property
    def text(self) -> str:
        return "".join(c.text if isinstance(c, Node) else c for c in self.children)

    def rows(self) -> list[list[str]]:
        """The body of a table, cell by cell."""
        body = next(self.find_all("tbody"))
        return [[c.text for c in row.children] for row in body.find_all("tr")]


class _TreeParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        assert len(attrs) == len(dict(attrs)), f"{tag} has a duplicate attribute: {attrs}"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID_TAGS:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parse(text: str) -> Node:
    parser = _TreeParser()
    parser.feed(text)
    parser.close()
    assert parser.open == [parser.root], f"{parser.open[-1].tag} is never closed"
    return parser.root
