"""A parser that tells whether a page is well formed and what it refers to."""

from html.parser import HTMLParser

VOID = {"meta", "img", "link", "br"}


class Balance(HTMLParser):
    """Raises where an element is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.ids, self.images = [], [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids.append(attributes.get("id"))
        self.links.append(attributes.get("href"))
        if tag == "img":
            self.images.append(attributes["src"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
