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
  const pressed = (event) => {
    const buttons = [...document.querySelectorAll(".st-key-judge .stButton button:enabled")];
    if (event.type === "click") return buttons.some((button) => button.contains(event.target));
    const isTyping = event.target.matches?.("input, textarea"), key = event.key.toLowerCase();
    const isPlain = !(isTyping || event.metaKey || event.ctrlKey || event.altKey);
    return isPlain && buttons.some((button) => button.querySelector("kbd")?.textContent.trim().toLowerCase() === key);
  };
  ["keydown", "click"].forEach((type) => window.addEventListener(type, (event) => {
    if (!pressed(event)) return;
    if (root.hasAttribute("data-ls-judging") || app.dataset.testScriptState !== "notRunning") {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    root.setAttribute("data-ls-judging", "");
    waiting = setTimeout(release, PATIENCE);
  }, { capture: true }));
  new MutationObserver(() => {
    if (app.dataset.testScriptState === "notRunning") release();
  }).observe(app, { attributes: true, attributeFilter: ["data-test-script-state"] });
}
