// The search page in the browser: sorting and filtering the list, the same passage lit in all columns, keys, judging,
// the column that a phone shows. The script runs again with every run of a page, and installs itself once.
if (!window.linkseekResults) {
  window.linkseekResults = true;
  const app = document.querySelector(".stApp"), root = document.documentElement;
  const press = (group, value) => group?.querySelectorAll("button").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.value === value));
  });

  // One list. What is chosen stays when the list is drawn again.
  const chosen = { sort: "best", show: "" };
  const ranks = (item) => [...item.querySelectorAll(".ls-cell")].map((cell) => {
    return { rank: Number(cell.querySelector("b").textContent) || Infinity, shown: !cell.matches(".ls-beyond") };
  });
  const keys = {
    best: (cells) => Math.min(...cells.map((cell) => cell.rank)),
    moved: (cells) => {
      const places = cells.map((cell) => Math.min(cell.rank, 101));
      return Math.min(...places) - Math.max(...places);
    },
  };
  const arrange = (list) => {
    const section = list.closest(".ls-list"), items = [...list.children].map((item) => [item, ranks(item)]);
    const count = items[0]?.[1].length ?? 0;
    if (!(chosen.sort in keys) && Number(chosen.sort) >= count) chosen.sort = "best";
    if (chosen.show !== "answers" && Number(chosen.show) >= count) chosen.show = "";
    const key = keys[chosen.sort] ?? ((cells) => cells[Number(chosen.sort)].rank);
    const only = (cells, place) => cells.every((cell, other) => cell.shown === (other === place));
    const order = items.map(([item, cells]) => [key(cells), keys.best(cells), item]);
    order.sort((a, b) => (a[0] === b[0] ? 0 : a[0] - b[0]) || a[1] - b[1]);
    list.append(...order.map(([, , item]) => item));
    let visible = 0;
    for (const [item, cells] of items) {
      const isAnswer = item.matches(".ls-answering");
      const show = chosen.show === "answers" ? isAnswer : chosen.show === "" || only(cells, Number(chosen.show));
      item.hidden = !show;
      visible += show;
    }
    press(section.querySelector(".ls-sorts"), chosen.sort);
    press(section.querySelector(".ls-filters"), chosen.show);
    const said = section.querySelector(".ls-shown-count");
    if (said) said.textContent = chosen.show === "" ? "" : `${visible} of ${items.length} passages`;
  };

  // On a phone: one column at a time, and the controls folded.
  const tab = (value) => {
    root.dataset.lsTab = value;
    press(document.querySelector(".ls-tabs"), value);
  };
  const fold = (open) => {
    root.toggleAttribute("data-ls-controls", open);
    document.querySelectorAll(".ls-controls button").forEach((button) => {
      button.setAttribute("aria-expanded", String(open));
    });
  };
  // A judgement carries its question: on a slow server another one may be on the way.
  const grade = (button, value) => {
    const { question } = button.closest("[data-question]").dataset;
    window.linkseekSend?.judging?.({ question, passage: button.dataset.passage, grade: value });
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".stHtml button");
    if (!button) return;
    if (button.closest(".ls-tabs")) tab(button.value);
    if (button.closest(".ls-controls")) fold(!root.hasAttribute("data-ls-controls"));
    if (button.matches(".ls-expand")) {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      button.textContent = open ? "Show less" : "Show more";
      button.closest("li, section").querySelector(".ls-text").classList.toggle("ls-whole", open);
    }
    if (button.matches(".ls-grade")) {
      const pressed = button.getAttribute("aria-pressed") === "true";
      grade(button, pressed ? null : Number(button.value));
    }
    if (button.matches(".ls-use")) {
      window.linkseekSend?.turning?.([...button.closest(".ls-turn").querySelectorAll("input")].map((slider) => Number(slider.value)));
    }
    if (button.matches(".ls-copy")) {
      navigator.clipboard?.writeText(location.href).then(() => { button.textContent = "Copied"; });
    }
    const kind = button.closest(".ls-sorts") ? "sort" : button.closest(".ls-filters") ? "show" : "";
    if (!kind) return;
    chosen[kind] = button.value;
    document.querySelectorAll(".ls-merged").forEach(arrange);
  });

  // Weights of a fusion, turned: the new rank of each passage of the column, at once.
  const turn = (panel) => {
    const shares = Object.entries(JSON.parse(panel.dataset.shares));
    const sliders = [...panel.querySelectorAll("input")], weights = sliders.map((slider) => Number(slider.value));
    sliders.forEach((slider) => { slider.closest("label").querySelector("output").textContent = Number(slider.value).toFixed(2); });
    const sums = shares.map(([row, scaled]) => [row, scaled.reduce((sum, share, place) => sum + share * weights[place], 0)]);
    sums.sort((a, b) => b[1] - a[1]);
    const ranks = new Map(sums.map(([row], place) => [row, place + 1]));
    panel.querySelector("p").textContent = `Rank ${ranks.get(panel.dataset.row) ?? "–"} with these weights`;
    for (const item of panel.closest(".ls-answer")?.querySelectorAll("li[class*='ls-p']") ?? []) {
      const rank = item.querySelector(".ls-rank"), now = ranks.get(name(item).slice(4));
      let said = rank.querySelector(".ls-turned");
      if (!said) {
        said = document.createElement("i");
        said.className = "ls-turned";
        rank.append(said);
      }
      said.textContent = ` → ${now ?? "–"}`;
    }
  };
  document.addEventListener("input", (event) => {
    const panel = event.target.closest?.(".ls-turn");
    if (panel) turn(panel);
  });

  // The same passage in other columns.
  const passage = (element) => element?.closest?.(".ls-answer li[class*='ls-p'], .ls-merged > li");
  const name = (item) => [...item.classList].find((one) => /^ls-p\d+$/.test(one));
  const light = (event) => {
    const item = passage(event.target), lit = item && name(item);
    document.querySelectorAll(".ls-lit").forEach((one) => one.classList.toggle("ls-lit", one.classList.contains(lit)));
    const same = lit ? document.querySelectorAll(`.ls-answer .${lit}`) : [];
    if (same.length > 1) same.forEach((one) => one.classList.add("ls-lit"));
  };
  ["pointerover", "focusin"].forEach((type) => document.addEventListener(type, light, { passive: true }));

  // "/" goes to the question, arrows from passage to passage, Escape closes why.
  const isSeen = (element) => element.getClientRects().length > 0;
  const whys = (within) => [...within.querySelectorAll(".ls-why")].filter(isSeen);
  const columns = () => [...document.querySelectorAll(".ls-answer, .ls-list")].filter((one) => whys(one).length);
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    const question = document.querySelector(".st-key-question input"), at = document.activeElement;
    const isTyping = at?.matches("input, textarea, select, [contenteditable]");
    let to = null;
    if (event.key === "/" && !isTyping) to = question;
    const column = columns().find((one) => one.contains(at)), item = passage(at);
    if (event.key === "ArrowDown" && at === question && question) to = whys(columns()[0] ?? app)[0];
    if (event.key === "Escape" && !isTyping && !item) document.querySelector(".ls-why[aria-expanded=true]")?.click();
    const graded = item && !isTyping && /^[0-3yn]$/.test(event.key) && item.querySelector(".ls-grade");
    if (graded) grade(graded, { y: 1, n: 0 }[event.key] ?? Number(event.key));
    if (column && item && !isTyping) {
      const all = whys(column), place = all.indexOf(item.querySelector(".ls-why"));
      const other = columns()[columns().indexOf(column) + { ArrowLeft: -1, ArrowRight: 1 }[event.key]];
      if (event.key === "ArrowDown") to = all[place + 1];
      if (event.key === "ArrowUp") to = all[place - 1] ?? question;
      if (other) to = other.querySelector(`.${name(item)} .ls-why`) ?? whys(other)[Math.min(place, whys(other).length - 1)];
      if (event.key === "Escape") item.querySelector(".ls-why[aria-expanded=true]")?.click();
    }
    if (!to) return;
    event.preventDefault();
    to.focus();
    to.closest("li")?.scrollIntoView({ block: "nearest" });
  });

  // A column that is drawn again takes the focus away: its link of the same name gets it back.
  let focused = null;
  document.addEventListener("focusin", (event) => {
    focused = event.target.closest?.(".stHtml") ? event.target : null;
  });
  document.addEventListener("pointerdown", () => { focused = null; }, { capture: true, passive: true });
  const refocus = () => {
    if (!focused || focused.isConnected || document.activeElement !== document.body) return;
    const label = focused.getAttribute("aria-label");
    const again = label && document.querySelector(`.stHtml [aria-label="${CSS.escape(label)}"]`);
    if (again) again.focus({ preventScroll: true });
  };

  // What has come is said, once nothing has changed for a moment.
  const voice = document.createElement("div");
  voice.className = "ls-unseen";
  voice.setAttribute("role", "status");
  document.body.append(voice);
  const words = (element) => element?.textContent.replace(/\s+/g, " ").trim() ?? "";
  let saying;
  const say = () => {
    clearTimeout(saying);
    saying = setTimeout(() => {
      const shown = [...document.querySelectorAll('.ls-answer[aria-label^="Results"]')].map((column) => {
        const parts = ["h2", ".ls-time", ".ls-verdict", ".ls-waiting"];
        return parts.map((part) => words(column.querySelector(`:scope > ${part}, :scope > header ${part}`)));
      });
      shown.push([...document.querySelectorAll(".ls-pipelines span[title]")].map(words));
      const text = shown.map((parts) => parts.filter(Boolean).join(", ")).filter(Boolean).join(". ");
      if (voice.textContent !== text) voice.textContent = text;
    }, 500);
  };

  // On a phone: the column of a passage that was opened, where the one that is shown does not have it.
  let open = "";
  const showOpened = () => {
    const opened = [...document.querySelectorAll(".ls-answer .ls-opened")], now = opened[0] ? name(passage(opened[0])) : "";
    if (now === open) return;
    open = now;
    const all = [...document.querySelectorAll(".st-key-columns .ls-answer")];
    if (now) setTimeout(() => document.querySelector(".ls-opened")?.closest("li")?.scrollIntoView({ block: "nearest" }));
    if (now && !opened.some(isSeen)) tab(String(all.indexOf(opened[0].closest(".ls-answer")) + 1));
  };

  const arranged = new WeakSet();
  new MutationObserver(() => {
    for (const list of document.querySelectorAll(".ls-merged")) {
      if (!arranged.has(list)) arrange(list);
      arranged.add(list);
    }
    const tabs = document.querySelector(".ls-tabs");
    if (tabs && !arranged.has(tabs)) {
      arranged.add(tabs);
      // The server says where to begin; a reader's own choice stays for the same pipelines.
      const same = root.dataset.lsTabs === tabs.textContent, first = tabs.querySelector("[aria-pressed=true]");
      root.dataset.lsTabs = tabs.textContent;
      tab(same && root.dataset.lsTab ? root.dataset.lsTab : first?.value ?? "1");
    }
    showOpened();
    refocus();
    say();
  }).observe(app, { subtree: true, childList: true });
}
