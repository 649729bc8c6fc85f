"""Finding articles by title, beside a slow way that looks at each title in Python."""

import unicodedata

import pytest

from linkseek.app.context.titles import MAX_CHARACTERS, find_articles
from linkseek.indexer.program.text import PLAIN_LETTERS
from tests.support.tiny.linked import build_linked, page

TITLES = [
    "Mercury (planet)", "Mercury", "Freddie Mercury", "Quicksilver or mercury", "Albrecht Dürer",
    "Durer's rhinoceros", "ÉMILE ZOLA", "Emile\u0301 decomposed", "C++ (language) [old].*", "東京", "Тверь",
    "a_b c", "", "Commercury", "100 % of it", "<script>alert(1)</script>", "mercurY", "한국의 역사",
    "がっこうの歴史", "Чайковский, Пётр", "Αθήνα", "हिन्दी", "עִבְרִית", "القرآن", "Große Straße", "ＪＲ西日本",
    "ドラゴンクエストⅡ", "山田\u3000太郎（作家）", "Qui a peur\u00a0?",
    unicodedata.normalize("NFD", "がっこう 한글 й"), "Đường Łódź",
]  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    rows = [page(f"id {n}", "text", title) for n, title in enumerate(TITLES)]
    return build_linked(tmp_path_factory.mktemp("titles") / "index", rows)


def folded(text):
    text = unicodedata.normalize("NFKD", text.casefold()).translate(PLAIN_LETTERS)
    return "".join(c for c in text if not unicodedata.combining(c)).replace("_", " ")


def slowly(text):
    """Titles that fit in their order: whole, beginning, beginning of a word, anywhere; shorter first."""
    wanted, ranked = " ".join(folded(text).split()), []
    for row, title in enumerate(TITLES):
        at = [i for i in range(len(folded(title))) if wanted and folded(title)[i:].startswith(wanted)]
        if at:
            whole = folded(title) == wanted
            word = any(i and not folded(title)[i - 1].isalnum() for i in at)
            rank = 0 if whole else 1 if at[0] == 0 else 2 if word else 3
            ranked.append((rank, len(title), row))
    return [row for _, _, row in sorted(ranked)]


@pytest.mark.parametrize(
    "text",
    [
        *"mercury MERC durer Dürer emile Émile c++ [old].* 東 твер a_b e % ( \\ zz <script>".split(),
        *("a b", "100 %", "of it", "山田 太郎", "山田\u3000太郎", "peur ?"),
        *"한국 역사 한글 がっこう чайковский пётр петр Й Αθήνα αθηνα ΑΘΉΝΑ हिन्दी עברית עִבְרִית".split(),
        *"القُرآن القران Straße ＪＲ jr西 Ⅱ クエストⅱ 太郎 作家 (作 ）".split(),
    ],
)
def test_what_is_found_and_in_which_order(index, text):
    found, total = find_articles(index, text, 50)
    assert [each.row for each in found] == slowly(text)
    assert total == len(found)
    assert find_articles(index, text, 2) == (found[:2], total)


def test_the_order_of_the_example(index):
    found, _ = find_articles(index, " mercury ")
    assert [each.title for each in found] == [
        "Mercury",
        "mercurY",
        "Mercury (planet)",
        "Freddie Mercury",
        "Quicksilver or mercury",
        "Commercury",
    ]


def test_an_id_is_found_too_and_stands_for_a_missing_title(index):
    found, total = find_articles(index, "id 12")
    assert [(each.row, each.id, each.title) for each in found] == [(12, "id 12", "id 12")] and total == 1


def test_an_id_that_fits_as_a_title_is_counted_once(tmp_path):
    index = build_linked(tmp_path / "index", [page("moon", "x", "The Moon"), page("Moon", "y", "Moon")])
    found, total = find_articles(index, "moon")
    assert ([each.id for each in found], total) == (["moon", "Moon"], 2)


@pytest.mark.parametrize("text", ["", "  ", "\u0301", "x" * 100_000, "é" * MAX_CHARACTERS, "\0"])
def test_texts_that_are_no_titles(index, text):
    assert find_articles(index, text) == ([], 0)


def test_half_a_character_is_a_question_mark(tmp_path):
    index = build_linked(tmp_path / "index", [page("a", "x", "What? Who?")])
    assert find_articles(index, "\ud800")[1] == 1
