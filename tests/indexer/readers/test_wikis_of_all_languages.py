"""Wikis as people have them: aliases, magic words, templates, subpages, prefixes, old exports, parts of
dumps."""

from __future__ import annotations

import bz2
from collections import Counter
from pathlib import Path

import pytest

from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.readers.choices import DEFAULT, Choices, ReadingOptions, read_rules
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.readers.reader import Ignored, Outcome
from linkseek.indexer.wikitext.names import magic_words, namespace_names
from tests.support.tiny.corpus import links

NAMESPACES = {
    0: "",
    1: "Talk",
    2: "User",
    4: "Project",
    6: "File",
    10: "Template",
    12: "Help",
    14: "Category",
}


def export(
    pages: dict[str, str],
    language: str = "en",
    base: str = "https://en.wikipedia.org/wiki/Main_Page",
    more: dict[int, str] | None = None,
    ns: bool = True,
) -> str:
    """An export of pages by title; `ns`: whether it says their namespaces."""
    names = NAMESPACES | (more or {})
    spaces = "".join(
        f'<namespace key="{n}" case="first-letter">{name}</namespace>' for n, name in names.items()
    )
    about = f"<sitename>A wiki</sitename><base>{base}</base><namespaces>{spaces}</namespaces>"
    site = f"<siteinfo>{about}</siteinfo>"
    numbers = {name: number for number, name in names.items()}

    def page(at: int, title: str) -> str:
        number = f"<ns>{numbers.get(title.partition(':')[0], 0) if ':' in title else 0}</ns>" if ns else ""
        text = pages[title].replace("&", "&amp;").replace("<", "&lt;")
        revision = f"<revision><text>{text}</text></revision>"
        return f"<page><title>{title}</title>{number}<id>{at}</id>{revision}</page>"

    body = "".join(page(at, title) for at, title in enumerate(pages, start=1))
    return f'<mediawiki xml:lang="{language}">{site}{body}</mediawiki>'


def read(path: Path, content: str | bytes, choices: Choices = DEFAULT) -> list[Outcome]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(open_reader(path, None, choices).documents())


def documents(outcomes: list[Outcome]) -> dict[str, Document]:
    return {one.id: one for one in outcomes if isinstance(one, Document)}


def dropped(outcomes: list[Outcome]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in outcomes:
        if isinstance(one, Ignored):
            counts[one.reason] += one.count
    return counts


def text_of(tmp_path: Path, source: str, **about: str) -> tuple[str, list[tuple[str, str]]]:
    """Text and links of a page called A/B."""
    (document,) = documents(read(tmp_path / "w.xml", export({"A/B": source}, **about))).values()
    return document.text, links(document)


# --- names of namespaces ---


@pytest.mark.parametrize(
    ("language", "picture", "category"),
    [
        ("zh", "檔案", "分類"), ("zh", "图像", "分类"), ("zh-tw", "文件", "分类"), ("ja", "画像", "カテゴリ"),
        ("ko", "그림", "분류"), ("pt", "Ficheiro", "Categoria"), ("pt-br", "Imagem", "Categoria"),
        ("he", "תמונה", "קטגוריה"), ("ar", "صورة", "تصنيف"), ("fa", "تصویر", "رده"),
        ("uk", "Зображення", "Категорія"), ("bg", "Картинка", "Категория"), ("ru", "Изображение",
        "Категория"),
        ("sr", "Слика", "Категорија"), ("fi", "Kuva", "Luokka"), ("hu", "Kép", "Kategória"),
        ("ca", "Imatge", "Categoria"), ("ro", "Imagine", "Categorie"), ("tr", "Resim", "Kategori"),
        ("vi", "Hình", "Thể loại"), ("el", "Εικόνα", "Κατηγορία"), ("no", "Bilde", "Kategori"),
        ("nb", "Bilde", "Kategori"), ("da", "Billede", "Kategori"), ("th", "ภาพ", "หมวดหมู่"),
        ("hi", "चित्र", "श्रेणी"), ("bn", "চিত্র", "বিষয়শ্রেণী"), ("eu", "Irudi", "Kategoria"),
        ("et", "Pilt", "Kategooria"), ("lt", "Vaizdas", "Kategorija"), ("id", "Gambar", "Kategori"),
        ("de", "Bild", "Kategorie"), ("als", "Bild", "Kategorie"), ("simple", "Image", "Category"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("own", [True, False])
def test_pictures_and_categories_under_aliases(
    tmp_path: Path, language: str, picture: str, category: str, own: bool
) -> None:
    """In the wiki of that language, and in a company's wiki that says another."""
    about = (
        {"language": language} if own else {"language": "en", "base": "https://wiki.acme.example/index.php/X"}
    )
    source = f"[[{picture}:A.jpg|thumb|250px|a [[caption]]]]Text of the [[Page]].\n\n[[{category}:Things]]\n"
    assert text_of(tmp_path, source, **about) == ("Text of the Page.", [("Page", "Page")])


def test_a_picture_is_known_by_its_namespace_in_any_language_and_its_suffix(tmp_path: Path) -> None:
    source = "[[Картинка:A.jpg|мини|200п|x]]a [[Bestand:B.png|120px]] [[Foo: bar]] [[X: y|left]] b"
    text, found = text_of(tmp_path, source)
    assert text == "a Foo: bar left b"
    assert [target for _, target in found] == ["Foo:_bar", "X:_y"]


def test_titles_that_are_aliases_elsewhere_stay(tmp_path: Path) -> None:
    """Imagine is a picture in Romanian, and a song."""
    assert text_of(tmp_path, "See [[Imagine: the song]].")[1] == [("Imagine: the song", "Imagine:_the_song")]
    assert namespace_names("ro")["imagine"] == 6 and "imagine" not in namespace_names("en")


@pytest.mark.parametrize(
    "word",
    ["REDIRECT", "redirect", "WEITERLEITUNG", "REDIRECCIÓN", "転送", "重定向", "перенаправление", "виж",
    "OHJAUS",
     "넘겨주기", "הפניה", "تحويل", "ÁTIRÁNYÍTÁS", "đổi", "YÖNLENDİRME".lower(), "STIVREN", "RINVIA",
     "YÖNLENDİR", "yönlendirme",
     "เปลี่ยนทาง",
     "تغییر مسیر", "ΑΝΑΚΑΤΕΥΘΥΝΣΗ"],
)  # fmt: skip
def test_redirects_in_all_languages(tmp_path: Path, word: str) -> None:
    outcomes = read(tmp_path / "w.xml", export({"A": f"#{word} [[B]]", "B": "Text."}, "xx"))
    assert [(one.id, one.target) for one in outcomes if isinstance(one, Redirect)] == [("A", "B")]


# --- magic words and templates ---


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Had {{formatnum:25000}} of {{lc:ABC}}, {{uc:def}}, {{ucfirst:water}}, {{lcfirst:Water}}.",
         "Had 25000 of abc, DEF, Water, water."),
        ("{{FORMATNUM:{{convert|5|km|mi}}}} {{lc:a [[Link]]}} x", "5 km a Link x"),
        ("'''{{PAGENAME}}''' in {{SITENAME}}: {{SUBPAGENAME}}, {{BASEPAGENAME}}, {{NOMPAGE}}, {{ページ名}}",
         "A/B in A wiki: B, A, A/B, A/B"),
        ("See [[Foo{{!}}bar]] [[File:X.png{{!}}thumb{{!}}caption]]now", "See bar now"),
        ("{{plural:1|page|pages}} {{plural:3|page|pages}} {{#if:|a|b}} {{#if:x|a|b}} {{#ifeq:1|1|c|d}}",
         "page pages b a c"),
        ("a{{#tag:ref|note}} b{{#tag:math|x}} c", "a b c"),
        ("Munich ({{langx|de|München}}, {{nihongo2|ミュンヘン}}) is {{native name|de|Bayern}}.",
         "Munich (München, ミュンヘン) is Bayern."),
        ("au {{s-|XIX|e}}, à {{unité|5|km}}, le {{1er}} mai, {{nombre|3000|habitants}}, {{XXe siècle}}",
         "au XIXe siècle, à 5 km, le 1er mai, 3000 habitants, XXe siècle"),
        ("dauerte {{Einheit|5|Tage}} am {{Datum|3|Mai|1990}}", "dauerte 5 Tage am 3. Mai 1990"),
        ("siglo {{siglo|XX}}, {{unidad|5|km}}; века {{нп5|Имя|имя}}", "siglo XX, 5 km; века имя"),
        ("{{siglo|V|a|s}}, {{Siglo|XIX|3=S}}, {{s|XX|e}}, {{sp-|XV|e|et|XVI|e|s}}, {{s|'''Имя''' [[X]]}}",
         "siglo V a. C., Siglo XIX, XXe siècle, XVe et XVIe siècles, Имя X"),
        ("{{nth|21}}, {{nth|12}}, {{ordinal|3}}; （{{bd|1943年|6月|2015年}}）{{BD|1871|1936|Name}}",
         "21st, 12th, 3rd; （1943年6月－2015年）"),
        ("{{lang-zh|t=臺灣|p=Táiwān}} {{ruS|Москва}} {{k-ja|日本}} {{إنج|Paris}}", "臺灣 Москва 日本 Paris"),
        ("{{要出典範囲|川は長い。|date=2020年}}{{citation needed span|[[It]] is.|date=2012}}{{fakt|data=1}}",
         "川は長い。It is."),
        ("# {{plural of|en|cat}}\n# {{alternative form of|en|[[cat]]|katt}}, {{inh|en|enm|b}} {{cog|de|c}}",
         "plural of cat\nalternative form of katt, b c"),
        ("* {{see\n| name=Louvre | lat=1\n| content=A [[museum]].\n}}\n* {{eat|name=Ritz}} {{see|Other}}",
         "Louvre. A museum.\nRitz"),
        ("{{di|I}}T was {{x-larger|dark}},{{gap}}{{hws|stor|stormy}} {{hwe|my|stormy}} x",
         "IT was dark, stormy x"),
        ("{{仮リンク|水車|en|Watermill}}と{{link-en|水|Water}}", "水車と水"),
        ("a {{lang|code=fr|text=pompe}}, {{lang|en|texte=pump}}, {{small|text=b}}", "a pompe, pump, b"),
        ("{{height|ft=6|in=2}}, {{M|5|k|m}}, {{M|3||kg}}, {{M|8|ul=km}}, {{m|la|pompa}}, {{ill|en|Pump}}",
         "6 ft 2 in, 5 km, 3 kg, 8 km, pompa, Pump"),
        ("{{subst:lc:ABC}} {{PAGENAMEE}} {{ARTICLEPAGENAME}}", "abc A/B A/B"),
        ("{{siècle|XX}}, {{IIe}}, {{le|桥|Bridge}}", "XX siècle, IIe, 桥"),
        ("See [[https://x.example/y|the site]], [[http://z.example]] x.", "See the site, x."),
    ],
)  # fmt: skip
def test_no_hole_in_a_sentence(tmp_path: Path, source: str, text: str) -> None:
    assert text_of(tmp_path, source)[0] == text


def test_properties_are_links_in_a_semantic_wiki(tmp_path: Path) -> None:
    source = "In [[Has capital::Berlin]], [[Area::Land::x y|here]], [[:a::b]]."
    plain = export({"A": source}, base="https://wiki.acme.example/X")
    semantic = export({"A": source}, base="https://wiki.acme.example/X", more={102: "Property"})
    found = [documents(read(tmp_path / "w.xml", one))["A"] for one in (plain, semantic)]
    assert [one.text for one in found] == ["In Has capital::Berlin, here, a::b.", "In Berlin, here, a::b."]
    assert links(found[1]) == [("Berlin", "Berlin"), ("here", "X_y"), ("a::b", "A::b")]


def test_links_made_of_the_page_s_name(tmp_path: Path) -> None:
    assert text_of(tmp_path, "[[{{PAGENAME}} Church|church]]")[1] == [("church", "A/B_Church")]
    assert magic_words()["seitenname"] == "pagename"


def test_dropped_templates_in_sentences_are_counted_by_name(tmp_path: Path) -> None:
    page = "{{Infobox|a=b}}\n'''X''' took {{Dauer|5}} in {{Dauer|6}} or {{Foo}}.{{sfn|a}}{{citation "
    "needed}}\n{{Navi}}\n"
    outcomes = read(tmp_path / "w.xml", export({"A": page}))
    names = {one.name: one.count for one in outcomes if isinstance(one, Ignored)}
    assert names == {"Dauer": 2, "Foo": 1}
    nested = "{{nowrap|It took {{Dauer|5}} to {{convert|{{#expr:2*3}}|km}}}} [[File:a.jpg|thumb|a {{Foo}} b]]"
    outcomes = read(tmp_path / "v.xml", export({"A": nested}))
    names = {one.name: one.count for one in outcomes if isinstance(one, Ignored)}
    assert (documents(outcomes)["A"].text, names) == ("It took to", {"Dauer": 1, "#expr": 1})


def test_no_link_vanishes_uncounted(tmp_path: Path) -> None:
    source = (
        "{{Infobox|x=[[E]]|y=[[File:E.jpg]]}}\n[[File:A.jpg|thumb|of [[B]]]] [[C]]<ref>[[D]]</ref> [[C]]\n"
        "== On [[F]] ==\n{|\n| [[G]] || [[H]]\n|}\n<nowiki>[[no]]</nowiki> <!-- [[no]] --> [[C|]] [[loose\n\n"
        "<gallery>\nFile:X.png|[[I]]\n</gallery> [[#part]] [[Help:X]] [[Category:K]] {{lang|de|[[L]]}}"
    )
    outcomes = read(tmp_path / "w.xml", export({"A": source}))
    found = [target for _, target in links(documents(outcomes)["A"])]
    assert found == ["C", "C", "F", "C", "L"]
    assert dropped(outcomes) == {
        "links in tables, templates, notes and pictures": 6,  # B, D, E, G, H, I
        "links within a page": 1,
        "links to other namespaces": 1,
    }


def test_rules_for_templates_from_a_file(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'Dauer = "{1} {unit|2}"\n"Foo bar" = 2\nAll = ", *"\nNothing = ""\nformatnum = "-1"\n'
        'Mass = "{convert}"\nZeit = "{2=v*}vor {1} || {1}"\n'
    )
    choices = ReadingOptions(templates=rules).choices
    page = (
        "took {{dauer|5|unit=h}}, {{Foo_bar|a|[[b]]}}, {{All|x|y}}{{Nothing}}, {{Mass|5|km2}}, {{Zeit|3|v}}."
    )
    outcomes = read(tmp_path / "w.xml", export({"A": page}), choices)
    assert documents(outcomes)["A"].text == "took 5 h, b, x, y, 5 km², vor 3."
    assert links(documents(outcomes)["A"]) == [("b", "B")]
    assert dropped(outcomes) == {}
    rules.write_text("Dauer = [1]\n")
    with pytest.raises(UsageError, match="Dauer is list, expected text"):
        read_rules(rules)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("-{T|zh-hans:水泵;zh-hant:泵浦}-水泵是机器。-{H|zh-cn:电脑;zh-tw:電腦}--{A|zh-cn:电脑; "
        "zh-tw:電腦;}-好。",
         "水泵是机器。电脑好。"),
        ("-{D|zh-cn:a;zh-tw:b}--{-|zh-cn:c;zh-tw:d}-x-{zh-tw:軟體; zh-hans:软件}-", "x软件"),
        ("-{R|原文}- -{原文}- -{zh-hans;zh-hant|字}- -{sr-ec:а; sr-el:a}-", "原文 原文 字 а"),
        ("a -{b; c}- -{x:y}- d", "a b; c x:y d"),
        ("-{zh-cn:{{lang|en|Foo}};zh-tw:[[Bar]]}-x", "Foox"),
        ("<languages/>\n<translate><!--T:1--> A <tvar name=1>[[pump]]</tvar> moves.</translate>\n"
         '<indicator name="s">[[File:S.png]]</indicator><foo bar="x" /> a <foo> b', "A pump moves.\n"
         "\na <foo> b"),
        ("<seo title=x>no</seo><dpl>category=no</dpl>a<youtube>no</youtube>", "a"),
    ],
)  # fmt: skip
def test_variants_and_extension_tags(tmp_path: Path, source: str, text: str) -> None:
    assert text_of(tmp_path, source, language="zh", base="https://zh.wikipedia.org/wiki/X")[0] == text


# --- titles ---

WIKIBOOKS = "https://en.wikibooks.org/wiki/Main_Page"


@pytest.mark.parametrize(
    ("written", "anchor", "target"),
    [
        ("[[/Soup|soup]]", "soup", "A/B/Soup"), ("[[/Soup]]", "/Soup", "A/B/Soup"),
        ("[[/Soup/]]", "Soup", "A/B/Soup"), ("[[../]]", "A", "A"), ("[[../Bread/]]", "Bread", "A/Bread"),
        ("[[../Bread#x|bread]]", "bread", "A/Bread"), ("[[../../C]]", "../../C", "../../C"),
    ],
)  # fmt: skip
def test_subpages(tmp_path: Path, written: str, anchor: str, target: str) -> None:
    found = text_of(tmp_path, f"See {written}.", base=WIKIBOOKS)[1]
    assert found == [(anchor, target)] or target == "../../C"
    assert text_of(tmp_path, "See [[/Soup]].")[1] == [("/Soup", "/Soup")]  # a title in Wikipedia


@pytest.mark.parametrize(
    ("language", "title", "written"),
    [("tr", "İğne", "iğne"), ("az", "İnsan", "insan"), ("en", "Ink", "ink"), ("ka", "წყალი", "წყალი")],
)
def test_first_letters(tmp_path: Path, language: str, title: str, written: str) -> None:
    """The capital of i is İ in Turkish; no Georgian title begins with a capital."""
    about = {"language": language, "base": f"https://{language}.wikipedia.org/wiki/X"}
    found = documents(read(tmp_path / "w.xml", export({title: f"[[{written}]]"}, **about)))
    assert links(found[title]) == [(written, title)]


def test_prefixes_of_a_company_s_wiki(tmp_path: Path) -> None:
    """it, hr and id are languages; here they are departments. [[de:Seite]] on its own line is the
    sidebar's."""
    pages = {
        "HR:Start": "Ask in [[IT:VPN]] and see [[HR:Leave policy]].\n\n[[IT:VPN]]\n",
        "IT:VPN": "The VPN. In [[fr:Mot]] text.\n\n[[de:Seite]]\n[[pt-br:Página]]\n",
        "HR:Leave policy": "x",
    }
    outcomes = read(tmp_path / "w.xml", export(pages, base="https://wiki.acme.example/index.php/X"))
    found = documents(outcomes)
    assert found["HR:Start"].text == "Ask in IT:VPN and see HR:Leave policy.\n\nIT:VPN"
    assert [target for _, target in links(found["HR:Start"])] == ["IT:VPN", "HR:Leave_policy", "IT:VPN"]
    assert found["IT:VPN"].text == "The VPN. In fr:Mot text."
    assert dropped(outcomes) == {"links to other wikis": 1}


def test_exports_without_namespaces_of_pages(tmp_path: Path) -> None:
    pages = {
        "Apple": "A [[Pear]].",
        "Talk:Apple": "x",
        "File:A.jpg": "x",
        "Mission: Impossible": "x",
        "P": "#REDIRECT [[Pear]]",
    }
    outcomes = read(tmp_path / "w.xml", export(pages, ns=False))
    assert list(documents(outcomes)) == ["Apple", "Mission:_Impossible"]
    assert dropped(outcomes) == {"other namespace": 2}


def test_other_namespaces_can_be_read(tmp_path: Path) -> None:
    pages = {
        "Main": "See [[manual:config]], [[Help:Links|links]], [[Talk:Main]].",
        "Manual:Config": "c",
        "Help:Links": "l",
    }
    source = export(pages, more={100: "Manual"})
    alone = read(tmp_path / "w.xml", source)
    assert list(documents(alone)) == ["Main"] and links(documents(alone)["Main"]) == []
    assert dropped(alone) == {"other namespace": 2, "links to other namespaces": 3}
    outcomes = read(tmp_path / "w.xml", source, Choices(namespaces=(0, 12, 100)))
    assert list(documents(outcomes)) == ["Main", "Manual:Config", "Help:Links"]
    assert [target for _, target in links(documents(outcomes)["Main"])] == ["Manual:Config", "Help:Links"]
    assert dropped(outcomes) == {"links to other namespaces": 1}


def test_disambiguation_pages_can_be_skipped(tmp_path: Path) -> None:
    pages = {
        "A": "A may be:\n* [[B]]\n{{disambiguation}}",
        "B": "{{Begriffsklärung}}",
        "C": "Text.",
        "D": "__DISAMBIG__ x",
    }
    outcomes = read(tmp_path / "w.xml", export(pages), Choices(skip_disambiguation=True))
    assert list(documents(outcomes)) == ["C"]
    assert dropped(outcomes)["disambiguation page"] == 3


# --- files ---


def test_a_folder_of_a_dump_s_parts(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "w-articles1.xml-p1p2.bz2").write_bytes(
        bz2.compress(export({"A": "[[B]] [[C]]", "B": "[[C]]"}).encode())
    )
    (folder / "w-articles2.xml-p3p4.bz2").write_bytes(bz2.compress(export({"C": "[[A]]"}).encode()))
    (folder / "md5sums.txt").write_text("x")
    reader = open_reader(folder)
    outcomes = list(reader.documents())
    assert (reader.name, reader.language(), list(documents(outcomes))) == ("mediawiki", "en", ["A", "B", "C"])
    assert dropped(outcomes) == {".txt": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_exports_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    source = export({"Вода": "Текст о [[Река|реке]].", "Река": "x"}, "ru")
    bom = "\ufeff" if encoding == "utf-16-be" else ""
    outcomes = read(tmp_path / "w.xml", (bom + source).encode(encoding))
    assert links(documents(outcomes)["Вода"]) == [("реке", "Река")]
