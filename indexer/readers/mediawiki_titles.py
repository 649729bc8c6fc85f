"""Titles in MediaWiki: which page a link means, by the namespaces of its wiki.

Source: MediaWiki's Manual:Title.php and Manual:$wgCapitalLinks.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

from linkseek.indexer.wikitext.targets import Target


@dataclass(frozen=True, slots=True)
class Site:
    """What an export says about its wiki. Namespaces: (number, name, whether case-sensitive)."""

    name: str = ""
    base: str = ""
    language: str = ""
    case_sensitive: bool = False
    namespaces: tuple[tuple[int, str, bool], ...] = ()


# MediaWiki knows these in every language; the site's own names come from its export.
_NAMESPACES = {
    "media": -2, "special": -1, "talk": 1, "user": 2, "user talk": 3, "project": 4,
    "project talk": 5, "file": 6, "file talk": 7, "image": 6, "image talk": 7, "mediawiki": 8,
    "mediawiki talk": 9, "template": 10, "template talk": 11, "help": 12, "help talk": 13,
    "category": 14, "category talk": 15,
}  # fmt: skip
_WIKIPEDIA = {"wp": 4, "wt": 5, "portal": 100, "portal talk": 101, "module": 828, "draft": 118}
_FORMER_NAMES = {
    "de": {"bild": 6}, "es": {"imagen": 6}, "it": {"immagine": 6}, "nl": {"afbeelding": 6},
    "pl": {"grafika": 6}, "pt": {"imagem": 6, "ficheiro": 6}, "ru": {"изображение": 6},
    "sv": {"bild": 6},
}  # fmt: skip
"""Old names of the file namespace, which pages still use and exports do not list."""

_LANGUAGES = frozenset(
    """
    aa ab ace ady af als am an ang ar arc ary arz as ast atj av avk awa ay az azb ba ban bar
    bat-smg bcl be be-tarask be-x-old bg bh bi bjn bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce
    ceb ch cho chr chy ckb co cr crh cs csb cu cv cy da de din diq dsb dty dv dz ee el eml en eo
    es et eu ext fa ff fi fiu-vro fj fo fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got
    gu gv ha hak haw he hi hif ho hr hsb ht hu hy hyw hz ia id ie ig ii ik ilo inh io is it iu ja
    jam jbo jv ka kaa kab kbd kbp kg ki kj kk kl km kn ko koi kr krc ks ksh ku kv kw ky la lad lb
    lbe lez lfn lg li lij lmo ln lo lrc lt ltg lv mai map-bms mdf mg mh mhr mi min mk ml mn mnw mr
    mrj ms mt mus mwl my myv mzn na nah nap nds nds-nl ne new ng nl nn no nov nrm nso nv ny oc olo
    om or os pa pag pam pap pcd pdc pfl pi pih pl pms pnb pnt ps pt qu rm rmy rn ro roa-rup
    roa-tara ru rue rw sa sah sat sc scn sco sd se sg sh shn si simple sk sl sm smn sn so sq sr
    srn ss st stq su sv sw szl ta tcy te tet tg th ti tk tl tn to tpi tr ts tt tum tw ty tyv udm
    ug uk ur uz ve vec vep vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh-classical
    zh-min-nan zh-yue zu
""".split()
)
_OTHER_SITES = frozenset(
    """
    w wikipedia wikt wiktionary s wikisource q wikiquote n wikinews b wikibooks v wikiversity voy
    wikivoyage species wikispecies c commons d wikidata m meta metawikipedia mw mediawikiwiki
    incubator foundation wmf phab phabricator bugzilla doi imdbname imdbtitle google gutenberg hdl
    pmid rfc toollabs toolforge translatewiki wikia wikitech meatball c2 arxiv
""".split()
)

_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_DIRECTIONS = re.compile(r"[\u200e\u200f\u202a-\u202e]")
_ILLEGAL = re.compile(r"[\x00-\x1f\x7f<>\[\]{}|\ufffd]")
_LONGEST = 255  # bytes of a title


class Titles:
    """The rules of a site for the text between `[[` and `]]`."""

    def __init__(self, site: Site) -> None:
        aliases = _WIKIPEDIA if "wikipedia" in f"{site.name} {site.base}".lower() else {}
        self.namespaces = {**_NAMESPACES, **aliases, **_FORMER_NAMES.get(site.language, {})}
        self.namespaces |= {_fold(name): number for number, name, _ in site.namespaces if name}
        self.case_sensitive = next(
            (sensitive for number, _, sensitive in site.namespaces if number == 0), site.case_sensitive
        )
        start, equals, _ = site.base.rpartition("?title=")
        self.url_start = start + equals if equals else site.base[: site.base.rfind("/") + 1]

    def key(self, title: str) -> str:
        """A title of the main namespace as an id."""
        if not title.isascii() and len(title) <= _LONGEST * 4:  # it takes the square of a run of accents
            title = unicodedata.normalize("NFC", _DIRECTIONS.sub("", title))
        title = _spaced(title)
        if not self.case_sensitive and title:
            first = title[0].upper()
            title = (first if len(first) == 1 else title[0]) + title[1:]
        return title.replace(" ", "_")

    def url(self, key: str) -> str:
        """The address of a page, escaped as MediaWiki does it."""
        return self.url_start + quote(key, safe=";@$!*(),/:") if self.url_start else ""

    def resolve(self, written: str) -> Target:
        """The target of a link; its label is the title as it is written."""
        if len(written) > _LONGEST * 10:
            return Target(None, written)
        title = html.unescape(written) if "&" in written else written
        if _PERCENT.search(title):
            title = unquote(title, errors="replace")
        title = _spaced(title)
        colon = title.startswith(":")
        title = title.lstrip(": ") if colon else title
        label = title if title[:1] != "#" else title[1:]
        prefix, found, rest = title.partition(":")
        if found:
            prefix = _fold(prefix)
            if prefix in self.namespaces:
                number = self.namespaces[prefix]
                if number:
                    return Target(None, label, not colon and number in (-2, 6, 14))
                title = rest
            elif prefix in _LANGUAGES:
                return Target(None, label, not colon)
            elif prefix in _OTHER_SITES:
                return Target(None, label)
        key = self.key(title.partition("#")[0])
        if not key or _ILLEGAL.search(key) or len(key.encode(errors="replace")) > _LONGEST:
            return Target(None, label)
        return Target(key, label)


def _spaced(title: str) -> str:
    """Runs of spaces and underscores as one space, none at the ends."""
    return " ".join(title.replace("_", " ").split())


def _fold(name: str) -> str:
    return _spaced(name).casefold()


@lru_cache(maxsize=8)
def titles_of(site: Site) -> Titles:
    """The rules of a site, made once."""
    return Titles(site)
