"""Shortcodes of Hugo, and tags and values of Liquid and Jinja, in pages of Markdown.

Source: the documentation of Hugo, Jekyll, MkDocs, VitePress and MDN.
"""

from __future__ import annotations

import re
from collections import Counter

TAGS = "tags of site generators"

Dropped = Counter[tuple[str, str]]

_REFERENCE = re.compile(
    r"""\{\{[<%]-?\s*(?:rel)?ref\s+(?:path=)?(["'`]?)([^"'`\s]+?)\1(?:\s[^{}]*?)?\s*-?[>%]\}\}"""
)
_ESCAPED = re.compile(r"\{\{([<%])/\*(.*?)\*/([>%])\}\}", re.DOTALL)
_HIGHLIGHT = re.compile(
    r"(?:\{\{[<%]\s*highlight\b[^{}]*?[>%]\}\}(.*?)\{\{[<%]\s*/\s*highlight\s*[>%]\}\}"
    r"|\{%-?\s*highlight\b[^%]*%\}(.*?)\{%-?\s*endhighlight\s*-?%\})",
    re.DOTALL,
)
_HIDDEN = re.compile(
    r"\{\{[<%]\s*comment\s*[>%]\}\}.*?\{\{[<%]\s*/\s*comment\s*[>%]\}\}|\{%-?\s*comment\s*-?%\}.*?\{%-?\s*endcomment\s*-?%\}",
    re.DOTALL,
)
_SHORTCODE = re.compile(r"\{\{[<%]-?\s*(/?)\s*(\w[\w./-]*)((?:[^{}]|\{(?!\{))*?)/?\s*-?[>%]\}\}")
_SHORTCODE_TEXT = re.compile(r"""\b(?:text|title|caption)=(["'])(.*?)\1""")
_LABELLED = frozenset("tab details expand collapse accordion spoiler".split())
_LABEL = re.compile(r"""\s*(?:(?:name|header|label|summary)=)?(["'])(.*?)\1""")
_SHORTCODE_LINK = re.compile(r"""\b(?:link|href|url|relref|ref)=(["'])(.*?)\1""")
_PAIR = re.compile(
    r"""\{\{[<%]\s*([\w.-]+)(?=[ \t])(?:(?!\b(?:text|title|caption)=)[^{}])*?"""
    r"""\b(?:link|href|url|relref|ref)=(["'])"""
    r"""([^"'{}]*)\2[^{}]*?[>%]\}\}\s*([^{}\[\]\n]+?)\s*\{\{[<%]\s*/\s*\1\s*[>%]\}\}"""
)
"""{{< button href="guide" >}}Text{{< /button >}}"""


def without_shortcodes(text: str, dropped: Dropped) -> str:
    """Shortcodes of Hugo as the text and the link that they show; others are dropped and counted."""
    if "{{" not in text and "{%" not in text:
        return text
    text = _HIDDEN.sub("", text)
    text = _HIGHLIGHT.sub(lambda match: f"\n```\n{(match[1] or match[2] or '').strip()}\n```\n", text)

    def reference(match: re.Match[str]) -> str:
        before = text[max(0, match.start() - 8) : match.start()].rstrip("<\"'")
        return match[2] if before.endswith(("](", "]:", "]: ", "href=", "src=")) else ""

    text = _PAIR.sub(r"[\4](<\3>)", _REFERENCE.sub(reference, text))

    def shortcode(match: re.Match[str]) -> str:
        if match[2] in _LABELLED and (label := _LABEL.match(match[3])):
            return f"\n\n{label[2]}\n\n" if text.startswith("\n", match.end()) else f"{label[2]} "
        if shown := _SHORTCODE_TEXT.search(match[3]):
            link = _SHORTCODE_LINK.search(match[3])
            return (
                f"[{shown[2]}](<{link[2]}>)"
                if link
                else shown[2] + ("" if shown[0].startswith("text") else " ")
            )
        if not match[1]:
            dropped[TAGS, match[2]] += 1
        return ""

    text = _SHORTCODE.sub(shortcode, text)
    return _ESCAPED.sub(r"{{\1\2\3}}", text)


_LINK_TAG = re.compile(r"\{%-?\s*link\s+([^%]+?)\s*-?%\}")
_POST_TAG = re.compile(r"\{%-?\s*post_url\s+([^%]+?)\s*-?%\}")
_POST_LINK = re.compile(
    r"""\{%-?\s*post_link\s+([^\s%]+)(?:\s+(["']?)([^%]*?)\2)?(?:\s+(?:true|false))?\s*-?%\}"""
)
"""Of Hexo: {% post_link slug 'Text' %}."""
_FILTERED = re.compile(
    r"""\{\{-?\s*(["'])([^"'{}]*)\1\s*\|\s*(?:relative_url|absolute_url|prepend|url\b)[^{}]*\}\}"""
)
_SITE_URL = re.compile(
    r"\{\{-?\s*(?:site\.(?:baseurl|url|github\.url)|base_url|base_path)\s*(?:\|[^{}]*)?-?\}\}"
)
_LIQUID = re.compile(r"\{%-?\s*([\w-]*)[^%]*?(?:%(?!\})[^%]*?)*-?%\}")
_INCLUDED = re.compile(r"""\b(?:content|text|title|caption)=(["'])(.*?)\1""")
_OF_BLOCK = re.compile(r"""\b(title|summary|description|href)=(["'])(.*?)\2""")
_LOGIC = frozenset("assign set capture if elsif elif unless for case when macro".split())
_MAX_INDENT = 20


def _block(tag: str) -> str:
    """The title of a block of GitBook or Markdoc, {% tab title="Title" %}: a link if it has an address."""
    values = {name: value for name, _, value in _OF_BLOCK.findall(tag)}
    title = values.get("title") or values.get("summary") or ""
    shown = f"[{title}](<{values['href']}>)" if title and "href" in values else title
    return f"\n{shown}\n\n{values.get('description', '')}\n" if shown else ""


_RAW = re.compile(r"\{%-?\s*raw\s*-?%\}(.*?)\{%-?\s*endraw\s*-?%\}", re.DOTALL)
_RAW_PLACE = "\ufdd1"  # no character
_VALUE = re.compile(r"\{\{-?\s*(\$?[\w.\[\]'\"-]+)\s*(?:\|[^{}]*)?-?\}\}")
_OF_SITE = re.compile(
    r"(?:site|page|include|layout|config|extra|book|\$?frontmatter|\$\w+|theme|[a-z-]+_(?:inline|header))\b",
    re.I,
)
_CALL_ALONE = re.compile(r"^[ \t]*\{\{\s*([A-Za-z]\w*)\s*(?:\([^{}]*\))?\s*\}\}[ \t]*$", re.MULTILINE)
_CALL = re.compile(r"\{\{\s*([A-Za-z]\w*)\(([^{}]*)\)\s*\}\}")
_STRING = re.compile(r"""(["'])(.*?)\1""")


def without_liquid(text: str, dialect: str, dropped: Dropped) -> str:
    """Tags and values of Liquid and Jinja as links or the text that they show; others are dropped."""
    if "{{" not in text and "{%" not in text:
        return text
    raw: list[str] = []

    def keep(match: re.Match[str]) -> str:
        raw.append(match[1])
        return f"{_RAW_PLACE}{len(raw) - 1}{_RAW_PLACE}"

    text = _RAW.sub(keep, text.replace(_RAW_PLACE, ""))
    text = _LINK_TAG.sub(lambda match: "/" + match[1].strip("\"' /"), text)
    text = _POST_TAG.sub(lambda match: f"/_posts/{match[1].strip()}.md", text)
    text = _POST_LINK.sub(lambda match: f"[{match[3] or ''}](<{match[1]}>)", text)
    text = _SITE_URL.sub("", _FILTERED.sub(r"\2", text))

    def tag(match: re.Match[str]) -> str:
        if match[1] == "raw":  # without its end
            return match[0]
        if match[1] and not match[1].startswith("end"):
            dropped[TAGS, match[1]] += 1
        if match[1].startswith("include"):
            shown = _INCLUDED.search(match[0])
            return shown[2] if shown else ""
        before = text[max(0, match.start() - _MAX_INDENT) : match.start()]
        return _block(match[0]) if match[1] not in _LOGIC and before.rstrip(" \t")[-1:] in ("", "\n") else ""

    def value(match: re.Match[str]) -> str:
        if dialect not in ("jekyll", "hugo", "mkdocs", "mdx") and not _OF_SITE.match(match[1]):
            return match[0]
        dropped[TAGS, match[1]] += 1
        return ""

    def call(match: re.Match[str]) -> str:
        values = [written for _, written in _STRING.findall(match[2])]
        dropped[TAGS, match[1]] += 1
        return values[1] if len(values) > 1 and values[1] else "".join(values[:1])

    def alone(match: re.Match[str]) -> str:
        if "(" not in match[0] and dialect not in ("jekyll", "hugo", "mkdocs", "mdx", ""):
            return match[0]
        dropped[TAGS, match[1]] += 1
        return ""

    text = _CALL.sub(call, _CALL_ALONE.sub(alone, _LIQUID.sub(tag, text)))
    text = _VALUE.sub(value, text)
    return re.sub(f"{_RAW_PLACE}(\\d+){_RAW_PLACE}", lambda match: raw[int(match[1])], text)
