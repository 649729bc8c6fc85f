"""Codes of languages: ISO 639-1 where there is one, else ISO 639-3, without region and script.

Corpora name languages in many ways (de-AT, zh_Hant, nb, simple, cmn); one code stands for all that are
searched alike.
"""

from __future__ import annotations

import re
from functools import lru_cache

ENGLISH = "en"
"""The language where nothing says or shows another, and of indexes that name none."""

SEVERAL = "mul"
"""ISO 639-2's code for several languages, for a corpus without a prevailing language."""

_SAME = {
    "nb": "no", "nn": "no", "als": "de", "gsw": "de", "bar": "de", "simple": "en", "pcm": "en",
    "yue": "zh", "wuu": "zh", "cmn": "zh", "gan": "zh", "nan": "zh", "hak": "zh", "lzh": "zh",
    "arz": "ar", "ary": "ar", "arb": "ar", "in": "id", "iw": "he", "ji": "yi", "mo": "ro", "jp": "ja",
    "kr": "ko", "cn": "zh", "cz": "cs", "gr": "el", "ua": "uk", "sh": "sr", "pes": "fa", "prs": "fa",
    "eng": "en", "deu": "de", "ger": "de", "fra": "fr", "fre": "fr", "spa": "es", "rus": "ru", "zho": "zh",
    "chi": "zh", "jpn": "ja", "tha": "th", "kor": "ko", "ara": "ar", "tur": "tr", "ita": "it", "por": "pt",
    "nld": "nl", "dut": "nl", "pol": "pl", "swe": "sv", "dan": "da", "nor": "no", "fin": "fi", "ces": "cs",
    "cze": "cs", "hun": "hu", "ell": "el", "gre": "el", "ron": "ro", "rum": "ro", "ukr": "uk", "vie": "vi",
    "hin": "hi", "fas": "fa", "per": "fa", "heb": "he", "khm": "km", "lao": "lo", "mya": "my", "bur": "my",
}  # fmt: skip
TWO_LETTERS = frozenset((
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv "
    "dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie "
    "ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv "
    "mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm "
    "rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts "
    "tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu "
).split())  # fmt: skip
"""The codes of ISO 639-1."""
_CODE = re.compile(r"([A-Za-z]{2,3}|simple)(?:[-_.@][A-Za-z0-9_.@-]*)?")


@lru_cache(maxsize=1_000)
def language_code(written: str) -> str:
    """The code of a language as a corpus or a person writes it; empty if it is not one.

    language_code("zh_Hant") = "zh", language_code("nb-NO") = "no", language_code("German") = "".
    """
    match = _CODE.fullmatch(written.strip())
    code = match[1].lower() if match else ""
    return "" if code in ("und", "zxx", "mis") else _SAME.get(code, code)
