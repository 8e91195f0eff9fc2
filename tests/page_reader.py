"""Pages as a browser reads them, without one."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest


class Reader(HTMLParser):
    """Tags with their attributes, text outside scripts and styles, and the JSON."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.json = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "link", "br", "wbr", "img"):
            self.open.append(tag)
        self.in_json = dict(attrs).get("id") == "tamis-data"

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.json += data if self.in_json else ""
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def data(self):
        return json.loads(self.json, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())
