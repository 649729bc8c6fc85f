"""Languages: which one an index is in, the terms of each, and what does not depend on any."""

from __future__ import annotations

import sys
import zipfile
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

from linkseek.indexer.build import main
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan, Built
from linkseek.indexer.documents import Document
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.language.codes import language_code
from linkseek.indexer.language.detection import detected, language_of
from linkseek.indexer.language.segments import joined_share, spaced, units
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import PLAIN_LETTERS
from linkseek.indexer.search.analyzers import LISTS, stop_words
from linkseek.indexer.search.jvm import anserini_jar
from linkseek.indexer.search.lucene_index import BM25, Dirichlet, LuceneIndex
from linkseek.indexer.search.lucene_writer import build_lucene
from linkseek.indexer.store.manifests import Reading
from linkseek.retriever.models.facts import card_languages, reading
from linkseek.retriever.models.locations import find_model
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.encoder import FakeEncoder

TEXTS = {
    "de": "Die Pumpe fördert das Wasser aus dem Brunnen, und in den Häusern von Zürich stehen viele davon.",
    "en": "The pump lifts water from the well, and many of the houses in the village have one of their own.",
    "fr": "Les paramètres de l'éditeur permettent de créer une page, et la barre montre les fichiers.",
    "ru": "Насос поднимает воду из колодца, и во многих домах деревни есть свой собственный насос.",
    "zh": "水泵是把水从井里抽上来的机器。从前城里许多人家都有水泵，人们每天在那里打水。",
    "ja": "ポンプは水を井戸からくみ上げる機械です。昔は多くの家にポンプがありました。",
    "th": "เครื่องสูบน้ำเป็นเครื่องจักรที่สูบน้ำขึ้นจากบ่อ และใช้ไฟฟ้าในการทำงาน",
    "km": "ម៉ាស៊ីនបូមទឹកគឺជាម៉ាស៊ីនដែលបូមទឹកពីអណ្តូង។",
    "ko": "펌프는 우물에서 물을 끌어올리는 기계이다. 옛날에는 많은 집에 펌프가 있었다.",
}


@pytest.mark.parametrize(
    ("written", "code"),
    [("de", "de"), ("de-AT", "de"), ("zh_Hant", "zh"), ("nb-NO", "no"), ("simple", "en"), ("cmn", "zh"),
     ("deu", "de"), ("mul", "mul"), ("pt_BR.UTF-8", "pt"), ("", ""), ("German", ""), ("und", ""), ("x", "")],
)  # fmt: skip
def test_a_language_has_one_code(written, code):
    assert language_code(written) == code


@pytest.mark.parametrize("language", TEXTS)
def test_texts_show_their_language(language):
    assert detected(TEXTS[language]) == language
    assert language_of([TEXTS[language]] * 20)[0] == language


SHORT = {
    "nl": [
        "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren en moeten "
        "zich broederlijk gedragen.",
        "De pomp brengt het water uit de put omhoog, en in veel huizen van het dorp staat er een.",
        "Wie een huis koopt, betaalt belasting aan de gemeente.",
    ],
    "fr": [
        "Tous les êtres humains naissent libres et égaux en dignité et en droits et "
        "doivent agir dans un esprit de fraternité.",
        "La pompe fait monter l'eau du puits et beaucoup de maisons du village en ont une.",
        "Celui qui achète une maison paie des impôts à la commune.",
    ],
    "fa": [
        "تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند.",
        "تلمبه آب را از چاه بالا می‌آورد و بسیاری از خانه‌های روستا یکی دارند.",
        "کسی که خانه می‌خرد به شهرداری مالیات می‌پردازد.",
    ],
    "he": [
        "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
        "המשאבה מעלה את המים מן הבאר, ובבתים רבים בכפר יש אחת כזאת.",
        "מי שקונה בית משלם מס לרשות המקומית.",
    ],
    "ja": [
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
        "ポンプは井戸から水をくみ上げる機械で、村の多くの家に一台ずつある。",
        "家を買う人は市に税金を払う。",
    ],
    "ko": [
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
        "펌프는 우물에서 물을 끌어올리는 기계이며 마을의 많은 집에 하나씩 있다.",
        "집을 사는 사람은 시에 세금을 낸다.",
    ],
    "zh": [
        "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
        "水泵把水从井里抽上来，村里许多人家都有一台。",
        "买房子的人要向市政府纳税。",
    ],
    "ru": [
        "Все люди рождаются свободными и равными в своём достоинстве и правах.",
        "Насос поднимает воду из колодца, и во многих домах деревни есть свой.",
        "Кто покупает дом, платит налог городу.",
    ],
    "da": [
        "Alle mennesker er født frie og lige i værdighed og rettigheder.",
        "Pumpen løfter vandet op af brønden, og mange huse i landsbyen har en.",
        "Den, der køber et hus, betaler skat til kommunen.",
    ],
    "id": [
        "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama.",
        "Pompa mengangkat air dari sumur, dan banyak rumah di desa memilikinya.",
        "Siapa yang membeli rumah membayar pajak kepada kota.",
    ],
}


@pytest.mark.parametrize("language", SHORT)
def test_a_few_short_pages_show_their_language_together(language):
    assert language_of(SHORT[language])[0] == language


@pytest.fixture(scope="module")
def english() -> Tokenizer:
    return Tokenizer.from_file(str(find_model(DEFAULT_ENCODER) / "tokenizer.json"))


@pytest.mark.parametrize("language", SHORT)
def test_a_tokenizer_shows_which_languages_its_model_can_read(language, english, tmp_path):
    texts = [" ".join(SHORT[language])]
    assert not reading(english, tmp_path, texts).reads(language)
    assert reading(english, tmp_path, [TEXTS["en"]]).reads("en")
    own = Tokenizer(WordPiece(unk_token="[UNK]"))
    own.pre_tokenizer = WhitespaceSplit()
    spaced_words = " ".join(texts[0][start:end] for start, end in units(texts[0]))
    own.train_from_iterator([spaced_words] * 9, WordPieceTrainer(special_tokens=["[UNK]"]))
    assert reading(own, tmp_path, [spaced_words]).reads(language)
    assert reading(own, tmp_path, ["Η αντλία ανεβάζει το νερό από το πηγάδι."]).unread == 1


@pytest.mark.parametrize(
    ("card", "languages"),
    [
        ("---\nlanguage: en\n---\n", ("en",)), ("---\nlanguage:\n- de\n- zh_Hant\n---\n", ("de", "zh")),
        ("---\nlanguage: [multilingual, en]\n---\n", ()), ("---\nlicense: mit\n---\n", ()), ("# Card", ()),
        ("---\nlanguage: [en\n---\n", ()), ("---\n- en\n---\n", ()), (None, ()),
    ],
)  # fmt: skip
def test_a_card_names_languages(card, languages, tmp_path):
    if card:
        (tmp_path / "README.md").write_text(card, "utf-8")
    assert card_languages(tmp_path) == languages


@pytest.mark.parametrize(
    ("unread", "languages", "reads"),
    [(0.1, [], "en de mul"), (0.5, [], ""), (0.1, ["en"], "en"), (0.5, ["en"], ""), (0.1, ["de"], "de"),
     (0.3, ["en", "de"], "de"), (0.1, ["en", "de"], "en de mul")],
)  # fmt: skip
def test_a_card_and_the_share_of_unread_words_show_what_an_encoder_reads(unread, languages, reads):
    record = Reading(unread=unread, languages=tuple(languages))
    assert [language for language in ("en", "de", "mul") if record.reads(language)] == reads.split()


def test_what_documents_name_comes_before_what_they_look_like():
    texts = [TEXTS["de"]] * 20
    assert language_of(texts, ["en-GB"] * 20)[0] == "en"
    assert language_of(texts, ["fr"] * 5 + [""] * 15)[0] == "de"  # most name none
    assert language_of(texts, ["fr"] * 10 + ["de"] * 10)[0] == "mul"
    assert language_of(texts[:10] + [TEXTS["ja"]] * 10)[0] == "mul"
    assert language_of(["Nass."])[0] == "en"  # too little
    assert language_of([TEXTS["de"], TEXTS["ja"]])[0] == "mul"
    assert language_of([])[0] == "en"


FINDS = {
    "de": [("fördert", "Wir fördern Wasser."), ("Haus", "In den Häusern."), ("Zurich", "in Zürich")],
    "fr": [
        ("parametres", "Les paramètres."),
        ("creer", "Il faut créer"),
        ("éditeur", "l'éditeur"),
        ("ete", "été"),
        ("coeurs", "le cœur"),
        ("finances", "la ﬁnance"),
    ],
    "es": [("pais", "un país"), ("creditos", "crédito")],
    "it": [("citta", "la città"), ("universita", "l'università"), ("acqua", "dell’acqua")],
    "pt": [("informacao", "a informação")],
    "pl": [("krakow", "Kraków"), ("miasto", "wiele miast")],
    "cs": [("mesta", "města")],
    "lt": [("azuolas", "ąžuolas")],
    "lv": [("maja", "māja")],
    "ro": [("scoala", "școală")],
    "ru": [("насоса", "Насос."), ("елка", "Ёлка"), ("вода", "Вода\u0301 есть")],
    "el": [("νερο", "Νερό"), ("ανθρωπος", "ἄνθρωπος")],
    "ar": [("سلام", "ﺳﻼم")],
    "yo": [("oro", "ọ̀rọ̀")],
    "uk": [("вода", "вода\u0301")],
    "he": [("שלום", "שָׁלוֹם")],
    "vi": [("tieng viet", "tiếng Việt")],
    "hr": [("macka", "mačka")],
    "zh": [("北京", "我在北京大学学习")],
    "ja": [("動く", "ポンプで動いた")],
    "ko": [("서울", "서울은 수도이다")],
    "th": [("ไฟฟ้า", "โรงไฟฟ้าผลิตไฟฟ้าจากน้ำ")],
    "km": [("ភាសា", "ភាសាខ្មែរជាភាសា")],
    "lo": [("ພາສາ", "ພາສາລາວເປັນພາສາ")],
    "my": [("မြန်မာ", "မြန်မာစာသည်ဖြစ်သည်")],
    "mul": [
        ("Zurich", "Zürich"),
        ("北京", "北京大学"),
        ("ไฟฟ้า", "โรงไฟฟ้า"),
        ("νερο", "Νερό"),
        ("서울", "서울은"),
    ],
}


@pytest.mark.parametrize("language", FINDS)
def test_a_question_finds_what_speakers_expect(tmp_path, language):
    pairs = FINDS[language]
    passages = [(str(n), "", text) for n, (_, text) in enumerate(pairs)]
    build_lucene(passages, tmp_path / "bm25", index_title=False, threads=1, language=language)
    index = LuceneIndex(tmp_path / "bm25", language=language)
    hits = index.search([question for question, _ in pairs], 9, BM25())
    assert [str(n) in ids for n, (ids, _) in enumerate(hits)] == [True] * len(pairs), hits


@pytest.mark.parametrize(
    ("language", "same", "other", "plain"),
    [("vi", "thuế", "thuê", "thue"), ("hr", "šud", "sud", "sud"), ("yo", "ọkọ̀", "ọkọ́", "oko"),
     ("mul", "schön", "schon", "schon"), ("mul", "straße", "strasse", "strasse")],
)  # fmt: skip
def test_words_match_without_accents_and_more_with_the_same(tmp_path, language, same, other, plain):
    passages = [("0", "", f"{other} omega"), ("1", "", f"{same} omega")]
    passages += [(str(n), "", "kappa") for n in range(2, 30)]
    build_lucene(passages, tmp_path / "bm25", index_title=False, threads=1, language=language)
    index = LuceneIndex(tmp_path / "bm25", language=language)
    for similarity in (BM25(), Dirichlet()):
        [ids, scores], [bare, _] = index.search([f"{same} omega", plain], 9, similarity)
        assert ids == ["1", "0"] and sorted(bare) == ["0", "1"]
        added = {part.word: part.score for part in index.explain(f"{same} omega", "1", similarity)}
        assert sum(added.values()) == pytest.approx(scores[0]) and scores[0] > scores[1]
        [[folded]] = index.terms([same])
        assert len(added) == 3 and added["omega"] == pytest.approx(2 * added[folded])  # two forms in one
    assert index.near([same]) == [None]


def test_letters_are_plain_as_in_lucene(tmp_path):
    build_lucene([("0", "", "x")], tmp_path / "bm25", index_title=False, threads=1, language="mul")
    letters = [chr(code) for code in PLAIN_LETTERS]
    found = LuceneIndex(tmp_path / "bm25", language="mul").terms(letters)
    assert found == [[letter.translate(PLAIN_LETTERS)] for letter in letters]


def test_documents_are_added_and_removed_by_the_same_analysis(tmp_path):
    folder = tmp_path / "bm25"
    build_lucene(
        [("1", "", "Häuser"), ("2", "", "Wasser")], folder, index_title=False, threads=1, language="de"
    )
    build_lucene(
        [("3", "", "ein Haus")],
        folder,
        index_title=False,
        threads=1,
        language="de",
        removed=["2"],
        merge=True,
    )
    assert LuceneIndex(folder, language="de").search(["Häusern"], 5, BM25())[0][0] == ["1", "3"]
    assert LuceneIndex(folder, language="de").search(["Wasser"], 5, BM25())[0][0] == []


@pytest.mark.parametrize(
    "text", [*TEXTS.values(), "", " ", "a 😀 東京\u3000b\u0301 ก", "x" * 100_000 + "水" * 70_000]
)
def test_words_without_blanks_are_parts_of_the_text_in_order(text):
    spans = list(units(text))
    assert "".join(text[start:end] for start, end in spans) == "".join(text.split())
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "".join(spaced(text).split()) == "".join(text.split())


def test_segments_are_words():
    assert [TEXTS["zh"][s:e] for s, e in units(TEXTS["zh"])][:3] == ["水泵", "是", "把"]
    assert "ไฟฟ้า" in spaced(TEXTS["th"]).split()
    assert spaced(TEXTS["zh"]) == TEXTS["zh"] and joined_share(TEXTS["en"]) == 0 < joined_share(TEXTS["ja"])


def test_every_stop_list_is_in_the_jar(monkeypatch):
    jar = nullcontext(zipfile.ZipFile(anserini_jar()))  # whose contents are read once
    monkeypatch.setattr(zipfile, "ZipFile", lambda path: jar)
    assert all(len(stop_words(language)) > 20 for language in LISTS)
    with pytest.raises(KeyError):
        stop_words("zz")


def build(index: Path, rows, *options: str) -> OpenIndex:
    corpus = write_jsonl(index.with_suffix(".jsonl"), rows)
    main(["--corpus", str(corpus), "--index", str(index), "--no-dense", "--processes", "1", *options])
    return OpenIndex.open(index)


def rows(of: str, **metadata: str):
    return [{"id": f"{of}{n}", "text": TEXTS[of], "links": [], "metadata": metadata} for n in range(8)]


def test_an_index_has_the_language_of_its_corpus(tmp_path, capsys):
    assert build(tmp_path / "a", rows("de")).language == "de"
    assert "language: de (detected" in capsys.readouterr().err
    assert build(tmp_path / "b", rows("de", language="fr")).language == "fr"
    assert build(tmp_path / "c", rows("de"), "--language", "sv-SE").language == "sv"
    several = build(tmp_path / "d", rows("de") + rows("ja"))
    assert several.language == "mul"
    assert len(several.lucene().search(["Häusern"], 99, BM25())[0][0]) == 8
    english = build(tmp_path / "e", rows("en"))
    assert english.language == "en" and "language" not in english.manifest.text.to_json()
    assert english.parts["bm25"].fingerprint["language"] == "en"
    for wrong in ("German", "qq", "xx-XX"):
        with pytest.raises(UsageError, match="not a code of a language"):
            build(tmp_path / "f", rows("en"), "--language", wrong)


def test_an_index_without_a_language_is_english_and_another_language_is_another_index(tmp_path, capsys):
    index = build(tmp_path / "a", rows("de"), "--language", "en")
    assert index.language == "en" and not index.lucene().search(["Zurich"], 9, BM25())[0][0]
    index = build(tmp_path / "a", rows("de"), "--language", "de")
    assert len(index.lucene().search(["Zurich"], 9, BM25())[0][0]) == 8
    assert "passages: unchanged, reused" in capsys.readouterr().err


def test_a_further_encoder_leaves_the_vectors_of_the_first(tmp_path):
    corpus = write_jsonl(tmp_path / "c.jsonl", rows("de"))

    def build(**options: Any) -> Built:
        plan = BuildPlan(corpus, processes=1, **options)
        return build_index(tmp_path / "i", plan, lambda name, title: FakeEncoder(name, title=title))

    build(encoders=["one"])
    built = build(encoders=["two"], bm25=False)
    assert OpenIndex.open(tmp_path / "i").encoders == ["two", "one"] and "bm25" in built.retained
    assert build(encoders=["two"], bm25=False, language="fr").retained == ["dense/one"]  # BM25 is German


EXPORT = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="{}">
<page><title>A</title><ns>0</ns><id>1</id><revision><id>1</id><text>Kurz.</text></revision></page></mediawiki>"""


@pytest.mark.parametrize(("written", "language"), [("de", "de"), ("zh-CN", "zh"), ("", "en")])
def test_a_dump_names_its_language(tmp_path, written, language):
    corpus = tmp_path / "wiki.xml"
    corpus.write_text(EXPORT.format(written), "utf-8")
    main(["--corpus", str(corpus), "--index", str(tmp_path / "i"), "--no-dense", "--processes", "1"])
    assert OpenIndex.open(tmp_path / "i").language == language


def test_pages_of_folders_name_their_language(tmp_path):
    from linkseek.indexer.readers.formats import open_reader

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "a.md").write_text("---\nlang: fr\n---\ntexte", "utf-8")
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "a.html").write_text("<html lang=de><body><p>Text", "utf-8")
    for folder, language in (("m", "fr"), ("h", "de")):
        [document] = open_reader(tmp_path / folder).documents()
        assert isinstance(document, Document) and document.metadata["language"] == language


def test_no_character_without_blanks_is_missed():
    from linkseek.indexer.language.segments import _CANDIDATE, _CHARACTER

    every = [chr(n) for n in range(sys.maxunicode + 1) if not 0xD800 <= n < 0xE000]
    assert not [c for c in every if _CHARACTER.match(c) and not _CANDIDATE.match(c)]
