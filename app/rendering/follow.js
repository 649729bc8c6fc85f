// Plain clicks on links of ours change the address and notify Streamlit, as going back does.
// The script runs again with every run of a page, and installs itself once.
if (!window.linkseekFollows) {
  window.linkseekFollows = true;
  const app = document.querySelector(".stApp");

  // A dialog lies outside the part of the page that has the theme's colours.
  const copyScheme = () => {
    document.documentElement.style.colorScheme = getComputedStyle(app).colorScheme;
  };
  new MutationObserver(copyScheme).observe(app, { attributes: true, attributeFilter: ["class", "style"] });
  copyScheme();

  document.addEventListener("click", (event) => {
    const modified = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
    if (event.defaultPrevented || event.button || modified) return;
    const link = event.target.closest(".stHtml a[href], .ls-drawing a[href]");
    if (!link || link.hasAttribute("target") || link.hasAttribute("download")) return;
    const target = new URL(link.getAttribute("href"), document.baseURI);
    const folder = (path) => path.slice(0, path.lastIndexOf("/") + 1);
    if (target.origin !== location.origin || target.hash) return;
    if (folder(target.pathname) !== folder(location.pathname)) return;
    event.preventDefault();
    if (target.href === location.href) return;
    const isOtherPage = target.pathname !== location.pathname, main = document.querySelector(".stMain");
    if (main) places.set(normal(location.href), main.scrollTop);
    push({}, "", target);
    if (isOtherPage) places.delete(normal(location.href));
    window.dispatchEvent(new PopStateEvent("popstate"));
    if (isOtherPage) main?.scrollTo(0, 0);
  });

  // How far each address was scrolled, for going back to it.
  const places = new Map();
  document.addEventListener("scroll", (event) => {
    if (chosen === null && !restoring && event.target.matches?.(".stMain")) {
      places.set(normal(location.href), event.target.scrollTop);
    }
  }, { capture: true, passive: true });

  // Columns arrive one after another, and what an earlier page left may lie below them for a while:
  // the place is kept until the run has ended and the page is long enough, unless the reader moves.
  let restoring = false;
  const restore = (place) => {
    const main = document.querySelector(".stMain"), address = location.href;
    let until;
    restoring = true;
    const step = () => {
      if (restoring) main.scrollTo(0, place);
      const running = app.dataset.testScriptState !== "notRunning";
      if (running) until = Date.now() + 15000;
      const reached = !running && Math.abs(main.scrollTop - place) <= 1;
      restoring &&= !reached && location.href === address && !(Date.now() > until);
      if (restoring) setTimeout(step, 50);
    };
    step();
  };
  ["wheel", "touchmove", "keydown", "pointerdown"].forEach((type) => {
    document.addEventListener(type, () => { restoring = false; }, { capture: true, passive: true });
  });

  // The address that was chosen last, by a link or by going back, until a run that followed reports it;
  // and the step that the last run before was part of.
  let chosen = null, before;
  const push = history.pushState.bind(history), replace = history.replaceState.bind(history);
  history.pushState = (...state) => { if (chosen === null) push(...state); };
  history.replaceState = (...state) => { if (chosen === null) replace(...state); };

  const normal = (address) => {
    const { pathname, searchParams } = new URL(address, document.baseURI);
    ["embed", "embed_options"].forEach((name) => searchParams.delete(name));  // which scripts do not see
    searchParams.sort();
    return pathname + "?" + searchParams;
  };
  const lastRun = () => document.querySelector(".st-key-follow [data-requested]")?.dataset ?? {};
  const reports = new MutationObserver(() => {
    const { requested, step, left } = lastRun();
    if (!left || step === before || normal(requested) !== chosen) return;
    chosen = null;
    reports.disconnect();
    if (normal(left) !== normal(location.href)) replace({}, "", new URL(left, document.baseURI));
    const place = places.get(normal(location.href));
    if (place !== undefined) restore(place);
  });
  window.addEventListener("popstate", () => {
    chosen = normal(location.href);
    before = lastRun().step;
    const filter = { attributes: true, attributeFilter: ["data-step", "data-requested", "data-left"] };
    reports.observe(app, { subtree: true, childList: true, ...filter });
  });
}
