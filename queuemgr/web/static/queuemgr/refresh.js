// Refreshes parts of a page where it is read: fetches them every few seconds and replaces those that changed,
// so that focus, open tables, selections and place stay. The dashboard and the lists share it.
window.keepRefreshed = ({ name, parts, address, busy = () => "", before = () => null, after = () => {} }) => {
  const box = document.getElementById(name);
  const state = document.getElementById(name + "-state");
  const hold = document.getElementById(name + "-hold");
  const every = Number(box.dataset.seconds) * 1000;
  let held = false;
  let late = 0;
  let known = box.dataset.known;

  function showState(text, isLate = false) {
    state.textContent = text;
    state.classList.toggle("sg-warn", isLate);
  }

  const showUsual = () => showState("refreshed every " + box.dataset.seconds + " s");
  const since = () => box.querySelector("time")?.textContent || "a while";

  // Parts are compared as the server sent them: scripts change what is in the page.
  const sent = new Map();
  const remember = (part) => sent.set(part.id, part.outerHTML);

  const isSelected = (part) => !document.getSelection().isCollapsed && part.contains(document.getSelection().anchorNode);

  function replace(fresh) {
    const old = document.getElementById(fresh.id);
    if (!old || sent.get(fresh.id) === fresh.outerHTML) return true;
    if (isSelected(old)) return false; // it is copied just now: the next answer replaces it
    remember(fresh);
    for (const details of old.querySelectorAll("details[open]")) {
      const same = details.id && fresh.querySelector("#" + details.id);
      if (same) same.open = true;
    }
    for (const canvas of old.querySelectorAll("canvas")) {
      const same = fresh.querySelector("#" + canvas.id);
      if (same) same.replaceWith(canvas);
    }
    const focus = focusWithin(old);
    const rows = placeOfRows(old);
    const scrolled = boxesOf(old).map((box) => [box.scrollLeft, box.scrollTop]);
    const boxes = boxesOf(fresh);
    old.replaceWith(fresh);
    boxes.forEach((box, number) => {
      if (scrolled[number]) [box.scrollLeft, box.scrollTop] = scrolled[number];
    });
    focus?.(fresh);
    rows?.(fresh);
    return true;
  }

  // What scrolls within a part. The theme's own scroll bars would make a new table of no height at first.
  function boxesOf(part) {
    const themed = [...part.querySelectorAll("[data-simplebar]")];
    for (const box of themed) if (box.dataset.simplebar !== "init") box.removeAttribute("data-simplebar");
    const boxes = part.querySelectorAll(".sg-table, .results, .overflow-x-auto, details");
    return [...boxes].map((box) => box.querySelector(".simplebar-content-wrapper") || box);
  }

  // Where the focus is within a part, so that it can be put back on the same link or field.
  function focusWithin(old) {
    const active = document.activeElement;
    if (!old.contains(active)) return null;
    const all = (part) => [...part.querySelectorAll("a, summary, button, input, select, [tabindex]")];
    const key = (one) => one.getAttribute("href") || (one.name && one.name + "=" + one.value);
    const number = all(old).indexOf(active);
    const wanted = key(active);
    return (fresh) => {
      const found = all(fresh);
      (found.find((one) => wanted && key(one) === wanted) || found[number])?.focus({ preventScroll: true });
    };
  }

  // Where the first row in view of a list stands, so that rows that come above it do not push it down.
  function placeOfRows(old) {
    const rows = (part) => [...part.querySelectorAll("#result_list tbody tr")];
    const key = (row) => row.querySelector("a[href]")?.getAttribute("href");
    if (!window.scrollY) return null;
    const first = rows(old).find((row) => row.getBoundingClientRect().top >= 0);
    if (!first) return null;
    const top = first.getBoundingClientRect().top;
    const wanted = key(first);
    return (fresh) => {
      const same = rows(fresh).find((row) => wanted && key(row) === wanted);
      if (same) window.scrollBy(0, same.getBoundingClientRect().top - top);
    };
  }

  // A list that has fewer pages now, or a filter whose value is gone, leads to the list itself.
  const isThisList = (url) => new URL(url).pathname === new URL(address(), location.href).pathname;

  async function refresh() {
    const seen = before();
    const headers = { "X-Requested-With": "fetch", ...(known ? { "If-None-Match": known } : {}) };
    const response = await fetch(address(), { credentials: "same-origin", headers });
    if (response.redirected && isThisList(response.url)) throw new Error("this page of the list is no longer there");
    if (response.redirected || response.status === 403) throw new Error("signed out");
    if (response.status === 304) {
      box.querySelector("time").textContent = response.headers.get("X-As-Of");
      return;
    }
    if (!response.ok) throw new Error("the server answered " + response.status);
    // The nonce of its styles is another than this page's.
    const text = (await response.text()).replace(/<style[^]*?<\/style>/g, "");
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (held || busy()) return; // somebody began while the answer came
    const replaced = parts(fresh).map((part) => replace(document.adoptNode(part)));
    known = replaced.every(Boolean) ? response.headers.get("ETag") : null;
    after(seen);
  }

  async function tick() {
    const started = performance.now();
    if (!held && !document.hidden) {
      const why = busy();
      try {
        if (!why) await refresh();
        late = 0;
        if (why) showState(why);
        else if (!held) showUsual();
      } catch (error) {
        late += 1;
        const signedOut = error.message === "signed out";
        showState(signedOut ? "signed out: log in again" : "not refreshed since " + since() + ": " + error.message + "; retrying", true);
      }
    }
    // An answer that took long is not asked for again at once: a page takes a tenth of one server's time.
    const slow = 10 * (performance.now() - started);
    window.setTimeout(tick, Math.max(slow, every * Math.min(12, 1 + late)));
  }

  hold.hidden = false;
  hold.addEventListener("click", () => {
    held = !held;
    hold.textContent = held ? "Resume refreshing" : "Stop refreshing";
    hold.setAttribute("aria-pressed", String(held));
    if (held) showState("not refreshing");
    else showUsual();
  });
  parts(document).forEach(remember);
  showUsual();
  window.setTimeout(tick, every);
};
