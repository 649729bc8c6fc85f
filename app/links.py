"""Links between our pages, followed without loading the application anew.

A link is an ordinary one: it can be copied, and opened in another tab. A plain click on it changes the
address and tells Streamlit so, as the browser does when one goes back.
"""

from __future__ import annotations

import streamlit as st

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
    history.pushState({}, "", there);
    window.dispatchEvent(new PopStateEvent("popstate"));
    if (other) document.querySelector(".stMain")?.scrollTo(0, 0);
  });
}
</script>"""  # noqa: E501


def follow_in_place() -> None:
    """Have the links of this page followed in place. The script is ours alone: no text is put into it."""
    with st.container(key="follow"):
        st.html(_FOLLOW, unsafe_allow_javascript=True)
