"""HTML of the application as a browser would read it."""

from html.parser import HTMLParser

OWN_TAGS = set(
    "section header h1 h2 h3 h4 bdi span p ol ul li div a mark b i s nav dl dt dd table thead tbody tr th td "
    "svg g path rect circle text title".split()
)
OWN_ATTRIBUTES = set(
    "class aria-label aria-hidden aria-current href target rel dir role title scope tabindex "
    "viewbox width height d x y rx cx cy r font-size text-anchor".split()
)


class Reader(HTMLParser):
    """Tags, links and text as a browser would find them; checks that all tags are closed in order."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.hrefs, self.open, self.text = [], [], [], ""
        self.marks, self.classes = [], []
        self.feed(html)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        assert set(self.tags) <= OWN_TAGS, set(self.tags) - OWN_TAGS

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        assert {name for name, _ in attrs} <= OWN_ATTRIBUTES, attrs
        self.hrefs += [value for name, value in attrs if name == "href"]
        if tag == "mark":
            self.marks.append("")
            self.classes.append(dict(attrs).get("class", ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "mark" in self.open:
            self.marks[-1] += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment
