"""Links between our pages, followed without loading the application anew.

A link is an ordinary one: it can be copied, and opened in another tab. A plain click on it changes the
address and tells Streamlit so, as the browser does when one goes back.

What a script that still runs has sent may arrive after the click, and with it the address that it had
written: Streamlit would put it into the place of the one that was chosen. So each run tells in the end which
address it was asked for, and which it has left; until one tells of the chosen address, nothing else is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import streamlit as st

from app.web import address
from app.web.state import link_to

# The listener hears every click that reaches the document and takes those on links of ours alone. What else
# a style sheet cannot do is done here too.
_FOLLOW = """<script>
if (!window.linkseekFollows) {
  window.linkseekFollows = true;
  // A dialog lies outside the part of the page that has the theme's colours.
  const app = document.querySelector(".stApp");
  const scheme = () => { document.documentElement.style.colorScheme = getComputedStyle(app).colorScheme; };
  new MutationObserver(scheme).observe(app, { attributes: true, attributeFilter: ["class", "style"] });
  scheme();
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest(".stHtml a[href], .ls-drawing a[href]");
    if (!link || link.hasAttribute("target") || link.hasAttribute("download")) return;
    const there = new URL(link.getAttribute("href"), document.baseURI);
    const folder = (path) => path.slice(0, path.lastIndexOf("/") + 1);
    if (there.origin !== location.origin || folder(there.pathname) !== folder(location.pathname) || there.hash) return;
    event.preventDefault();
    if (there.href === location.href) return;
    const other = there.pathname !== location.pathname;
    push({}, "", there);
    window.dispatchEvent(new PopStateEvent("popstate"));
    if (other) document.querySelector(".stMain")?.scrollTo(0, 0);
  });
  // The address that was chosen last, by a link or by going back, until a run tells of it.
  let chosen = null;
  const push = history.pushState.bind(history), replace = history.replaceState.bind(history);
  history.pushState = (...given) => { if (chosen === null) push(...given); };
  history.replaceState = (...given) => { if (chosen === null) replace(...given); };
  const same = (address) => {
    const { pathname, searchParams } = new URL(address, document.baseURI);
    ["embed", "embed_options"].forEach((name) => searchParams.delete(name));  // which scripts are not told
    searchParams.sort();
    return pathname + "?" + searchParams;
  };
  const told = new MutationObserver(() => {
    const run = document.querySelector(".st-key-follow [data-asked]");
    if (!run || same(run.dataset.asked) !== chosen) return;
    chosen = null;
    told.disconnect();
    if (same(run.dataset.left) !== same(location.href)) replace({}, "", new URL(run.dataset.left, document.baseURI));
  });
  window.addEventListener("popstate", () => {
    chosen = same(location.href);
    told.observe(app, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-asked", "data-left"] });
  });
}
</script>"""  # noqa: E501


@contextmanager
def followed_in_place(page: str) -> Iterator[None]:
    """Have the links of a page followed in place. The script is ours alone: no text is put into it."""
    asked = link_to(page, address.params())
    with st.container(key="follow"):
        st.html(_FOLLOW, unsafe_allow_javascript=True)
        place = st.empty()
    yield  # a run that is cut off, because something else was chosen, tells nothing
    left = link_to(page, address.params())
    place.html(f'<span data-asked="{escape(asked)}" data-left="{escape(left)}"></span>')
