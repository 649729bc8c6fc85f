"""Judging in a real browser, with a late server: what is pressed judges what is shown, or nothing."""

from __future__ import annotations

import shutil

import pytest

from linkseek.app.preferences import comparison_files as files
from linkseek.app.preferences.record import Disagreement, Preferences, order_of

LATE = """
const late = (pause) => (listener) => (event) =>
  setTimeout(() => (listener.handleEvent ?? listener)(event), pause);
const { addEventListener, send } = WebSocket.prototype;
const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
const [up, down] = [50, 300];
Object.defineProperty(WebSocket.prototype, "onmessage", {
  set(listener) { set.call(this, late(down)(listener)); },
});
WebSocket.prototype.addEventListener = function (type, listener, ...how) {
  addEventListener.call(this, type, type === "message" ? late(down)(listener) : listener, ...how);
};
WebSocket.prototype.send = function (data) { setTimeout(() => send.call(this, data), up); };
"""
"""Delays what the page sends and what it receives, in milliseconds; the order stays."""

TAKEN = """
const taken = (window.taken = {});
let key = "";
window.addEventListener("keydown", (event) => { key = event.key; }, { capture: true });
new MutationObserver(() => {
  if (!document.documentElement.hasAttribute("data-ls-judging")) return;
  const number = document.querySelector(".ls-judge h3").textContent.trim().split(" ").pop();
  taken[number] = (taken[number] ?? "") + key;
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-ls-judging"] });
"""
"""Notes the question that is shown when the page takes a key; while it waits for its server it takes none."""

COUNT = 12


@pytest.fixture
def comparison(application):
    """A comparison of passages of the sample, none judged."""
    questions = [
        Disagreement(
            id=str(number),
            text=f"question {number}",
            first_a="Ada_Lovelace#0",
            first_b="Charles_Babbage#0",
            overlap=0.5,
            rbo=0.5,
        )
        for number in range(1, COUNT + 1)
    ]
    made = Preferences(
        index="sample", a="bm25", b="dense", origin="", created=1.0, questions=questions, judged=""
    )
    name = files.save_preferences(application.results, "late", made)
    yield name
    shutil.rmtree(application.results / name)


def judged(application, name):
    """The keys of the judgements that were recorded, by the number of the question."""
    preferences = files.read_preferences(application.results, name)
    return {
        int(question.id): "10x2"[order_of(name, question.text).index(preferences.choices[question.id])]
        for question in preferences.questions
        if question.id in preferences.choices
    }


SHOWN = "document.querySelector('.ls-judge h3')?.textContent.trim()"


@pytest.mark.parametrize("pause", [50, None])
def test_keys_judge_the_question_that_is_shown(application, page, settled, comparison, pause):
    """pause: milliseconds between keys; None: until the next question stands."""

    def stands(number):
        page.get_by_text(f"Question {number} of {COUNT}").wait_for()
        settled(page)

    page.add_init_script(LATE)
    page.add_init_script(TAKEN)
    page.goto(application("compare", comparison=comparison))
    stands(1)
    shown = []
    for key in "12x1201201" if pause else "12x1":
        shown.append(int(page.evaluate(SHOWN).split()[-1]))
        page.keyboard.press(key)
        if pause:
            page.wait_for_timeout(pause)
        else:
            stands(shown[-1] + 1)
    page.wait_for_function("!document.documentElement.hasAttribute('data-ls-judging')")
    stands(len(judged(application, comparison)) + 1)
    recorded = judged(application, comparison)
    taken = {int(number): keys for number, keys in page.evaluate("taken").items()}
    assert shown == sorted(shown)  # never back to a question
    assert recorded == taken  # one for a question, by the key that was taken while it was shown
    assert pause or recorded == {1: "1", 2: "2", 3: "x", 4: "1"}
    assert [*recorded] == [*range(1, len(recorded) + 1)]
    at = int(page.evaluate(SHOWN).split()[-1])
    assert at not in recorded and page.url.endswith(f"at={at}&index=sample")
    page.keyboard.press("u")
    stands(at - 1)
    del recorded[at - 1]
    assert judged(application, comparison) == recorded
