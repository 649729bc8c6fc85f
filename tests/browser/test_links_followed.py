"""Links that are pressed, and ways back that are taken, before the last answer has arrived."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

# What the application sends reaches the page so many milliseconds later, in its order.
# `hurry` delivers the first messages at once.
SLOW_WIRE = """(() => {
  const Quick = WebSocket, waiting = [];
  window.lag = 0;
  window.sent = () => waiting.length;
  window.hurry = (until) => waiting.slice(0, until).forEach((over) => over());
  let before = Promise.resolve();
  const later = (listener) => (event) => {
    const wait = new Promise((over) => { waiting.push(over); setTimeout(over, window.lag); });
    before = Promise.all([before, wait]).then(() => listener(event));
  };
  window.WebSocket = class extends Quick {
    set onmessage(listener) { super.onmessage = later(listener); }
    addEventListener(type, listener, options) {
      super.addEventListener(type, type === "message" ? later(listener) : listener, options);
    }
  };
})()"""
QUESTION = "Who wrote the first program?"


@pytest.fixture
def asked(application, page, settled):
    """A question's answers, and a connection that has become slow since."""
    page.add_init_script(SLOW_WIRE)
    page.goto(application(index="sample"))
    page.get_by_label("Question", exact=True).wait_for()
    settled(page)
    page.get_by_label("Question", exact=True).fill(QUESTION)
    page.keyboard.press("Enter")
    page.locator(".ls-answer li").first.wait_for()
    page.wait_for_function("location.search.includes('q=')")
    settled(page)
    page.locator(".ls-controls button").click()
    page.evaluate("window.lag = 800")
    return page


def arrived(page, settled):
    """Wait until nothing is on its way any more."""
    page.evaluate("window.lag = 0; window.hurry()")
    page.wait_for_timeout(500)
    settled(page)
    return urlsplit(page.url).path, parse_qs(urlsplit(page.url).query)


@pytest.mark.parametrize("wait", [0, 500])
def test_a_link_stays_followed(asked, settled, wait):
    """The search that the toggle has begun answers after the link was pressed: with its own address."""
    asked.locator("label", has_text="Group by article").click()
    asked.wait_for_timeout(wait)
    asked.get_by_role("link", name="Articles", exact=True).click()
    asked.get_by_role("heading", name="Read an article").wait_for()
    assert arrived(asked, settled) == ("/article", {"index": ["sample"]})
    assert asked.locator(".ls-answer").count() == 0

    asked.go_back()  # one step, to the answers
    asked.locator(".ls-answer li").first.wait_for()
    path, params = arrived(asked, settled)
    assert path == "/" and params["q"] == [QUESTION]


def test_a_way_back_stays_taken(asked, settled):
    """The last run was asked for the address to which the way leads, and has left it for the answers."""
    asked.locator("label", has_text="Group by article").click()
    asked.go_back()  # to the page without a question
    asked.evaluate("document.querySelector('.stApp').append(document.createElement('i'))")  # as a status is
    asked.get_by_role("heading", name="Ask a question in your own words").wait_for()
    path, params = arrived(asked, settled)
    assert path == "/" and "q" not in params and "grouped" not in params
    assert asked.get_by_label("Question", exact=True).input_value() == ""


def test_a_way_back_is_not_mistaken_for_the_run_before_the_link(asked, settled):
    """That run was asked for the same address, has left another, and reports so after the way back."""
    asked.evaluate("window.lag = 2e9")
    ended = asked.runs.ended
    asked.locator("label", has_text="Group by article").click()
    while asked.runs.ended == ended:
        asked.wait_for_timeout(20)
    sent = asked.runs.messages
    asked.wait_for_function("sent => window.sent() >= sent", arg=sent)
    asked.get_by_role("link", name="Articles", exact=True).click()
    asked.go_back()  # to the answers, in their own order
    asked.evaluate("sent => window.hurry(sent)", sent)
    asked.locator("[data-left*=grouped]").wait_for(state="attached")
    path, params = arrived(asked, settled)
    assert path == "/" and params["q"] == [QUESTION] and "grouped" not in params
    assert not asked.get_by_role("switch", name="Group by article").is_checked()


def test_what_is_chosen_on_a_page_is_in_its_address_after_a_link(asked, settled):
    """The address is taken from the page again, once the page that was chosen is there."""
    asked.get_by_role("link", name="Articles", exact=True).click()
    asked.get_by_label("Find an article by its title").fill("isaac")
    asked.keyboard.press("Enter")
    asked.get_by_role("link", name="Isaac Newton").wait_for()
    assert arrived(asked, settled) == ("/article", {"find": ["isaac"], "index": ["sample"]})
