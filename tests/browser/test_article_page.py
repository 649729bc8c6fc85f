"""Articles in a real browser: found, read, followed, shared, and as objectives see them."""

from __future__ import annotations

import re


def test_an_article_is_found_read_and_followed(application, page, settled):
    page.goto(application("article"))
    page.get_by_role("heading", name="Read an article").wait_for()
    first = page.get_by_role("region", name="Articles to start with")
    first.wait_for()  # the application opens its first index meanwhile
    assert first.get_by_role("link").count() == 12
    page.get_by_label("Find an article by its title").fill("isaac")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Isaac Newton").wait_for()
    settled(page)
    page.get_by_role("link", name="Isaac Newton").press("Enter")
    page.get_by_role("heading", name="Isaac Newton").wait_for()
    page.wait_for_function("location.search.includes('id=Isaac') && !location.search.includes('find=')")
    settled(page)
    assert page.get_by_label("Find an article by its title").input_value() == ""

    text = page.get_by_role("article", name="Text by passages")
    assert text.locator(".ls-passages > li").count() >= 3
    assert text.locator("p.ls-text a").count() >= 5
    assert "has dual links with" in text.inner_text()
    neighbours = page.get_by_role("complementary", name="Neighbours")
    assert "LINKED BOTH WAYS" in neighbours.inner_text().upper()
    loaded = page.evaluate("window.linkseekLoaded = Math.random()")
    back = text.locator(".ls-duals a[aria-label]").first
    named = back.get_attribute("aria-label")
    back.press("Enter")  # to the passage that links back
    page.locator("li.ls-here").wait_for()
    settled(page)
    number, _, title = named.removeprefix("passage ").partition(" of ")
    assert page.locator(".ls-article-head h2").inner_text() == title
    assert page.locator("li.ls-here .ls-number").inner_text().split()[-1] == number
    assert page.locator("li.ls-here a", has_text="Newton").count() >= 1
    assert page.evaluate("window.linkseekLoaded") == loaded  # followed in place
    page.go_back()
    page.get_by_role("heading", name="Isaac Newton").wait_for()


def test_pairs_side_by_side_are_shared(application, page, settled):
    page.goto(application("article", id="Isaac_Newton"))
    page.get_by_text("Training examples").click()
    page.get_by_role("region", name="Mined by dual-link").wait_for()
    settled(page)
    columns = [page.get_by_role("region", name=f"Mined by {name}") for name in ("dual-link", "co-mention")]
    columns.append(page.get_by_role("region", name="Contrasts of php-hp"))
    tops = [column.bounding_box() for column in columns]
    assert len({round(box["y"]) for box in tops}) == 1 and len({round(box["x"]) for box in tops}) == 3
    assert columns[0].locator("mark").count() >= 2
    page.get_by_text("prop", exact=True).first.click()  # its column goes
    page.get_by_role("region", name="Contrasts of prop").wait_for(state="detached")
    settled(page)
    shared = page.url
    assert "show=pairs" in shared and "objectives=dual-link" in shared and "contrasts=php-hp" in shared
    before = columns[0].inner_text()
    other = page.context.new_page()
    other.goto(shared)
    region = other.get_by_role("region", name="Mined by dual-link")
    region.wait_for()
    settled(other)
    assert region.inner_text() == before


def test_contrasts_with_their_evidence(application, page, settled):
    names = ["prop", "php-hp", "harp-rdp"]
    page.goto(application("article", id="Ada_Lovelace", show="pairs", contrasts=names))
    prop, php, harp = (page.get_by_role("region", name=f"Contrasts of {name}") for name in names)
    php.locator("li").first.wait_for()
    harp.locator("li").first.wait_for(timeout=180_000)  # the encoder is opened first
    settled(page)
    for column in (prop, php, harp):
        assert column.locator("mark.ls-said").count() >= 1
        assert "should rank higher:" in column.inner_text() and "should rank lower:" in column.inner_text()
    assert "log\u00a0P\u00a0=\u00a0−" in prop.inner_text() and "share of attention" in harp.inner_text()
    assert re.search(r"D[123]: .*\n", php.inner_text()) and "D4: is named elsewhere" in php.inner_text()
    php.locator(".ls-less a").first.press("Enter")  # to what is less closely linked
    page.wait_for_function("!location.search.includes('Ada_Lovelace')")
    page.locator(".ls-passages").wait_for()


def test_hostile_texts_and_addresses_of_articles(application, page, settled):
    page.goto(application("article", id="Hostile", index="hostile"))
    heading = page.locator(".ls-article-head h2")
    heading.wait_for()
    settled(page)
    assert heading.inner_text().startswith("<script>alert(1)</script> [title]")
    text = page.get_by_role("article", name="Text by passages")
    assert '<img src=x onerror="alert(3)">' in text.inner_text() and "\\frac{1}{2}" in text.inner_text()
    assert text.locator("img, script, h1, b, mark").count() == 0
    assert page.locator('a[href^="javascript"]').count() == 0
    page.goto(application("article", id="Hostile", index="hostile", show="pairs", contrasts=["ict", "prop"]))
    page.get_by_role("region", name="Contrasts of ict").locator("li").first.wait_for()
    settled(page)
    mined = page.locator(".ls-mined")
    assert mined.locator("img, script, h1, b, .katex").count() == 0
    assert "onerror" in mined.inner_text() or "<script>" in mined.inner_text()
    for id_ in ("../../etc/passwd", "<script>alert(5)</script>", "x" * 3000):
        page.goto(application("article", id=id_, index="hostile"))
        page.locator(".ls-notice").wait_for()
        assert "There is no article" in page.locator(".ls-notice").inner_text()
