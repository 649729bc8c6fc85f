// Compare: from a judgement until the page has answered nothing is judged; the next key or click is for what it shows
// then. The script runs again with every run of a page, and installs itself once.
if (!window.linkseekJudges) {
  window.linkseekJudges = true;
  const app = document.querySelector(".stApp"), root = document.documentElement;
  const PATIENCE = 10000;  // milliseconds
  let waiting;
  const release = () => {
    clearTimeout(waiting);
    root.removeAttribute("data-ls-judging");
  };
  const buttons = () => [...document.querySelectorAll(".st-key-judge .stButton button:enabled")];
  const stop = (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  // Streamlit listens to keys, too, for a moment still with the buttons of the question before: it gets none.
  window.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches?.("input, textarea"), key = event.key.toLowerCase();
    if (isTyping || event.metaKey || event.ctrlKey || event.altKey) return;
    const button = buttons().find((each) => each.querySelector("kbd")?.textContent.trim().toLowerCase() === key);
    if (!button) return;
    stop(event);
    if (!event.repeat) button.click();
  }, { capture: true });
  window.addEventListener("click", (event) => {
    if (!buttons().some((button) => button.contains(event.target))) return;
    if (root.hasAttribute("data-ls-judging") || app.dataset.testScriptState !== "notRunning") {
      stop(event);
      return;
    }
    root.setAttribute("data-ls-judging", "");
    waiting = setTimeout(release, PATIENCE);
  }, { capture: true });
  new MutationObserver(() => {
    if (app.dataset.testScriptState === "notRunning") release();
  }).observe(app, { attributes: true, attributeFilter: ["data-test-script-state"] });
}
