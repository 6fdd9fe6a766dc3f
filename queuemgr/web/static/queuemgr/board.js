// Keeps the board fresh: fetches its parts every few seconds and replaces those that changed, so that
// focus, open tables, selections and charts stay. Says aloud only what newly needs attention.
(() => {
  const board = document.getElementById("board");
  const parts = document.getElementById("board-parts");
  const state = document.getElementById("board-state");
  const news = document.getElementById("board-news");
  const hold = document.getElementById("board-hold");
  const every = Number(board.dataset.seconds) * 1000;
  const charts = new Map();
  let held = false;
  let late = 0;

  const address = () => board.dataset.address + window.location.search;
  const alarms = () => [...parts.querySelectorAll("#board-alarms a")].map((line) => line.textContent);

  function say(text, isLate) {
    state.textContent = text;
    state.classList.toggle("board-late", isLate);
  }

  // Parts are compared as the server sent them: scripts change what is in the page.
  const sent = new Map();
  const remember = (part) => sent.set(part.id, part.outerHTML);

  function replace(fresh) {
    const old = document.getElementById(fresh.id);
    if (!old || sent.get(fresh.id) === fresh.outerHTML) return;
    if (isSelected(old)) return;
    remember(fresh);
    for (const details of old.querySelectorAll("details[open]")) {
      const same = fresh.querySelector("#" + details.id);
      if (same) same.open = true;
    }
    for (const canvas of old.querySelectorAll("canvas")) {
      const same = fresh.querySelector("#" + canvas.id);
      if (same) same.replaceWith(canvas);
    }
    const focus = place(old);
    const scrolled = [...old.querySelectorAll(".sg-table, details")].map((box) => [box.scrollLeft, box.scrollTop]);
    old.replaceWith(fresh);
    [...fresh.querySelectorAll(".sg-table, details")].forEach((box, number) => {
      if (scrolled[number]) [box.scrollLeft, box.scrollTop] = scrolled[number];
    });
    focus?.(fresh);
  }

  const isSelected = (part) => !document.getSelection().isCollapsed && part.contains(document.getSelection().anchorNode);

  // Where the focus is within a part, so that it can be put back on the same link.
  function place(old) {
    const active = document.activeElement;
    if (!old.contains(active)) return null;
    const all = (part) => [...part.querySelectorAll("a, summary, [tabindex]")];
    const number = all(old).indexOf(active);
    const href = active.getAttribute("href");
    return (fresh) => {
      const found = all(fresh);
      (found.find((link) => href && link.getAttribute("href") === href) || found[number])?.focus({ preventScroll: true });
    };
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--sg-" + name).trim();
  }

  const figures = (id) => JSON.parse(document.getElementById(id + "-data")?.textContent || "null");
  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 16);

  function axes(extra) {
    const ticks = { color: colour("quiet"), font: { size: 11 }, maxRotation: 0, autoSkipPadding: 16 };
    const grid = { color: colour("line") };
    return {
      x: { ticks, grid: { display: false }, ...extra.x },
      y: { ticks: { ...ticks, precision: 0 }, grid, beginAtZero: true, ...extra.y },
    };
  }

  function options(extra, legend) {
    return {
      animation: false, maintainAspectRatio: false, responsive: true,
      interaction: { intersect: false, mode: "index" },
      scales: axes(extra),
      plugins: { legend: { display: legend, align: "end", labels: { boxHeight: 8, boxWidth: 8, color: colour("text"), font: { size: 11 } } } },
    };
  }

  const series = (label, data, name) => ({ label, data, backgroundColor: colour(name), borderColor: colour(name) });

  function ended(given) {
    return {
      type: "bar",
      data: {
        labels: given.labels,
        datasets: [series("done", given.done, "accent"), series("tried again", given.again, "warn"), series("failed", given.failed, "bad")],
      },
      options: options({ x: { stacked: true }, y: { stacked: true } }, true),
    };
  }

  function burn(given) {
    const points = (pairs) => pairs.map(([x, y]) => ({ x, y }));
    const line = { borderWidth: 2, pointRadius: 0 };
    const x = { type: "linear", min: given.past[0][0], max: given.ahead[given.ahead.length - 1][0] };
    const drawn = options({ x, y: { max: given.most } }, true);
    drawn.scales.x.ticks = { ...drawn.scales.x.ticks, callback: clock, stepSize: 3600, maxTicksLimit: 7 };
    drawn.plugins.tooltip = { callbacks: { title: (items) => clock(items[0].parsed.x) + " UTC" } };
    return {
      type: "line",
      data: {
        datasets: [
          { ...series("left", points(given.past), "accent"), ...line },
          { ...series("at this speed", points(given.ahead), "warn"), ...line, borderDash: [4, 4] },
        ],
      },
      options: drawn,
    };
  }

  const drawings = { "board-ended": ended, "board-burn": burn };

  function draw() {
    if (!window.Chart) return;
    for (const [id, drawing] of Object.entries(drawings)) {
      const canvas = document.getElementById(id);
      const given = figures(id);
      if (!canvas || !given) continue;
      const text = JSON.stringify(given) + colour("text");
      const chart = charts.get(id);
      if (chart?.canvas === canvas && chart.text === text) continue;
      chart?.destroy();
      charts.set(id, Object.assign(new window.Chart(canvas, drawing(given)), { text }));
    }
  }

  async function refresh() {
    const before = alarms();
    const answer = await fetch(address(), { credentials: "same-origin", headers: { "X-Requested-With": "fetch" } });
    if (answer.redirected || answer.status === 403) throw new Error("signed out");
    if (!answer.ok) throw new Error("the server answered " + answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of [...fresh.querySelectorAll("section[id]")]) replace(document.adoptNode(part));
    draw();
    const added = alarms().filter((line) => !before.includes(line));
    if (added.length) news.textContent = added.join(". ");
  }

  async function turn() {
    if (!held && !document.hidden) {
      try {
        await refresh();
        late = 0;
        say("refreshed every " + board.dataset.seconds + " s", false);
      } catch (error) {
        late += 1;
        const signedOut = error.message === "signed out";
        say(signedOut ? "signed out: log in again to see more" : "not refreshed since " + since() + ": " + error.message + "; trying again", true);
      }
    }
    window.setTimeout(turn, every * Math.min(12, 1 + late));
  }

  const since = () => board.querySelector("time")?.textContent || "a while";

  hold.hidden = false;
  hold.addEventListener("click", () => {
    held = !held;
    hold.textContent = held ? "Go on" : "Hold still";
    hold.setAttribute("aria-pressed", String(held));
    say(held ? "held still" : "refreshed every " + board.dataset.seconds + " s", false);
  });
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["class"] });

  board.querySelectorAll("section[id]").forEach(remember);
  board.classList.add("board-live");
  say("refreshed every " + board.dataset.seconds + " s", false);
  draw();
  window.setTimeout(turn, every);
})();
