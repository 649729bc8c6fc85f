// Compare: while the page waits for an answer, nothing is judged; the next key or click is for the next question.
// The script runs again with every run of a page, and installs itself once.
if (!window.linkseekJudges) {
  window.linkseekJudges = true;
  const app = document.querySelector(".stApp");
  const isWaiting = (event) => {
    const buttons = document.querySelector(".st-key-judge");
    const isForThem = event.type === "keydown" ? /^[012u]$/i.test(event.key) : buttons?.contains(event.target);
    return buttons && isForThem && app.dataset.testScriptState !== "notRunning";
  };
  ["keydown", "click"].forEach((type) => window.addEventListener(type, (event) => {
    if (!isWaiting(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, { capture: true }));
}
