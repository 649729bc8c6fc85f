"""HTML of the application as a browser would read it."""

from html.parser import HTMLParser

from selectolax.lexbor import LexborHTMLParser

OWN_TAGS = set(
    "section header h1 h2 h3 h4 bdi span p ol ul li div a mark b i s nav dl dt dd table thead tbody tfoot tr "
    "th td svg path rect text title foreignobject article aside details summary progress q button "
    "figure figcaption circle code".split()
)
OWN_ATTRIBUTES = set(
    "class aria-label aria-hidden aria-current aria-sort href target rel dir role title scope tabindex id "
    "colspan max value xmlns viewbox width height d dy x y rx cx cy r font-size text-anchor "
    "aria-expanded aria-pressed type hidden open rel transform".split()
)


class Reader(HTMLParser):
    """Tags, links and text as a browser would find them; checks that all tags are closed in order.

    text: every character; words: with white space as single spaces. tree: for CSS selectors.
    """

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        html = str(html)  # of Markup, whose parts would be escaped again
        self.tree = LexborHTMLParser(html)
        self.tags, self.hrefs, self.open, self.text = [], [], [], ""
        self.marks, self.classes = [], []
        self.feed(html)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        assert set(self.tags) <= OWN_TAGS, set(self.tags) - OWN_TAGS

    @property
    def words(self):
        return " ".join(self.text.split())

    def all(self, selector, attribute=None):
        """The text of each element, or its attribute."""
        nodes = self.tree.css(selector)
        if attribute:
            return [node.attributes[attribute] for node in nodes]
        return [" ".join(node.text().split()) for node in nodes]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("path", "rect"):  # written without content
            self.open.append(tag)
        assert {name for name, _ in attrs} <= OWN_ATTRIBUTES, attrs
        self.hrefs += [value for name, value in attrs if name == "href"]
        if tag == "mark":
            self.marks.append("")
            self.classes.append(dict(attrs).get("class", ""))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "mark" in self.open:
            self.marks[-1] += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment
