"""Articles in a real browser: found, read and followed."""

from __future__ import annotations


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


def test_hostile_texts_of_articles(application, page, settled):
    page.goto(application("article", id="Hostile", index="hostile"))
    heading = page.locator(".ls-article-head h2")
    heading.wait_for()
    settled(page)
    assert heading.inner_text().startswith("<script>alert(1)</script> [title]")
    text = page.get_by_role("article", name="Text by passages")
    assert '<img src=x onerror="alert(3)">' in text.inner_text() and "\\frac{1}{2}" in text.inner_text()
    assert text.locator("img, script, h1, b, mark").count() == 0
    assert page.locator('a[href^="javascript"]').count() == 0
