"""Whether a page of a wiki only lists the meanings of its title.

Such a page has one of these templates; MediaWiki's own mark is __DISAMBIG__.
"""

from __future__ import annotations

import re

_TEMPLATES = """
disambig, disambiguation, disambiguation page, disamb, dab, dmbox, hndis, hndisambig, geodis, schooldis,
human name disambiguation, place name disambiguation, school disambiguation, numberdis, mathdab, roaddis,
airport disambiguation, hospital disambiguation, callsigndis, letter-number combination disambiguation,
species latin name disambiguation, begriffsklärung, bks, homonymie, paronymie, toponymie, patronymie,
desambiguación, desambig, desambiguação, disambigua, dp, dpintro, doorverwijspagina, ujednoznacznienie,
неоднозначность, многозначность, неоднозначність, пояснение, вишезначна одредница, αποσαφήνιση,
曖昧さ回避, aimai, 人名の曖昧さ回避, 地名の曖昧さ回避, 消歧义, 消歧義,
消歧义页, 消歧義頁, 동음이의, 동명이인, 동음이의어,
förgrening, namnförgrening, förgreningssida, flertydig, peker, pekerside, täsmennyssivu, rozcestník,
rozlišovacia stránka, razdvojba, višeznačna odrednica, anlam ayrımı, egyért, egyértelműsítő lap,
desambiguació, dezambiguizare, trang định hướng, định hướng, disambiguasi, täpsustus, nuorodinis,
nozīmju atdalīšana, argipen, apartigilo, homónimos,
توضيح, ابهام‌زدایی, ابهام زدایی, פירושונים, แก้กำกวม, बहुविकल्पी, দ্ব্যর্থতা নিরসন
"""
_NAMES = "|".join(re.escape(name.strip()).replace(r"\ ", "[ _]") for name in _TEMPLATES.split(","))
_PATTERN = re.compile(rf"\{{\{{\s*(?:{_NAMES})\s*(?:\|[^{{}}]*)?\}}\}}|__DISAMBIG__", re.IGNORECASE)


def is_disambiguation(source: str) -> bool:
    """Whether the source of a page has a template of disambiguation."""
    return _PATTERN.search(source) is not None
