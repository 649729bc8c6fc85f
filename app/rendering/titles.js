// Titles of articles while a question is typed: a list below the box, which arrows walk and Enter opens.
// The script runs again with every run of a page, and installs itself once.
if (!window.linkseekTitles) {
  window.linkseekTitles = true;
  const box = document.createElement("div");
  box.className = "stHtml ls-titles";
  box.hidden = true;
  document.body.append(box);
  const list = document.createElement("ul");
  Object.entries({ id: "ls-titles", role: "listbox", "aria-label": "Articles" }).forEach((pair) => list.setAttribute(...pair));
  box.append(list);
  const question = () => document.querySelector(".st-key-question input");
  const options = () => [...list.children];
  let active = -1, asked = 0, waiting;

  const mark = (place) => {
    active = place;
    options().forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
    const input = question(), id = options()[place]?.id;
    if (id) input?.setAttribute("aria-activedescendant", id);
    else input?.removeAttribute("aria-activedescendant");
  };
  const close = () => {
    clearTimeout(waiting);
    asked += 1;
    box.hidden = true;
    list.replaceChildren();
    mark(-1);
    document.querySelector(".st-key-question input[role=combobox]")?.setAttribute("aria-expanded", "false");
  };
  const open = (titles) => {
    const input = question();
    if (!titles.length || document.activeElement !== input) return close();
    list.replaceChildren(...titles.map(({ title, address }, number) => {
      const option = document.createElement("li"), link = document.createElement("a");
      option.id = `ls-title-${number}`;
      option.setAttribute("role", "option");
      link.href = address;
      link.tabIndex = -1;
      link.textContent = title;
      option.append(link);
      return option;
    }));
    const { left, bottom, width } = input.getBoundingClientRect();
    Object.assign(box.style, { left: `${left}px`, top: `${bottom + 6}px`, width: `${width}px` });
    box.hidden = false;
    const says = { role: "combobox", "aria-autocomplete": "list", "aria-controls": "ls-titles", "aria-expanded": "true" };
    Object.entries(says).forEach((pair) => input.setAttribute(...pair));
    mark(-1);
  };
  const ask = async (text) => {
    const turn = ++asked, index = new URLSearchParams(location.search).get("index") ?? "";
    try {
      const answer = await fetch(`titles?${new URLSearchParams({ index, text })}`);
      const titles = answer.ok ? await answer.json() : [];
      if (turn === asked) open(titles);
    } catch { /* the application has ended; the page says so */ }
  };
  document.addEventListener("input", (event) => {
    if (event.target !== question()) return;
    clearTimeout(waiting);
    const text = event.target.value.trim();
    if (text.length < 2 || text.length > 80) return close();
    waiting = setTimeout(ask, 150, text);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target !== question()) return;
    const { key } = event, count = options().length;
    if (key === "Enter" && active < 0) close();
    if (box.hidden) return;
    if (key === "ArrowDown") mark(active + 1 < count ? active + 1 : -1);
    else if (key === "ArrowUp") mark(active < 0 ? count - 1 : active - 1);
    else if (key === "Escape") close();
    else if (key === "Enter") options()[active].querySelector("a").click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }, { capture: true });
  list.addEventListener("pointerdown", (event) => event.preventDefault());  // the box keeps the focus
  list.addEventListener("click", () => setTimeout(close));
  document.addEventListener("focusout", (event) => { if (event.target === question()) close(); });
  ["resize", "scroll", "popstate"].forEach((type) => window.addEventListener(type, close, { capture: true, passive: true }));
}
