// Refreshes the dashboard: fetches its parts every few seconds and replaces those that changed, so that
// focus, open tables, selections and charts stay. Announces only new alerts to screen readers.
(() => {
  const dashboard = document.getElementById("dashboard");
  const parts = document.getElementById("dashboard-parts");
  const state = document.getElementById("dashboard-state");
  const news = document.getElementById("dashboard-news");
  const hold = document.getElementById("dashboard-hold");
  const every = Number(dashboard.dataset.seconds) * 1000;
  const charts = new Map();
  let held = false;
  let late = 0;

  const address = () => dashboard.dataset.address + window.location.search;
  const alerts = () => [...parts.querySelectorAll("#dashboard-alerts a")].map((line) => line.textContent);

  function showState(text, isLate) {
    state.textContent = text;
    state.classList.toggle("dashboard-late", isLate);
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

  const values = (id) => JSON.parse(document.getElementById(id + "-data")?.textContent || "null");
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
        datasets: [series("done", given.done, "accent"), series("retried", given.again, "warn"), series("failed", given.failed, "bad")],
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
          { ...series("at this rate", points(given.ahead), "warn"), ...line, borderDash: [4, 4] },
        ],
      },
      options: drawn,
    };
  }

  const drawings = { "dashboard-ended": ended, "dashboard-burn": burn };

  function draw() {
    if (!window.Chart) return;
    for (const [id, drawing] of Object.entries(drawings)) {
      const canvas = document.getElementById(id);
      const given = values(id);
      if (!canvas || !given) continue;
      const text = JSON.stringify(given) + colour("text");
      const chart = charts.get(id);
      if (chart?.canvas === canvas && chart.text === text) continue;
      chart?.destroy();
      charts.set(id, Object.assign(new window.Chart(canvas, drawing(given)), { text }));
    }
  }

  async function refresh() {
    const before = alerts();
    const response = await fetch(address(), { credentials: "same-origin", headers: { "X-Requested-With": "fetch" } });
    if (response.redirected || response.status === 403) throw new Error("signed out");
    if (!response.ok) throw new Error("the server answered " + response.status);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of [...fresh.querySelectorAll("section[id]")]) replace(document.adoptNode(part));
    draw();
    const added = alerts().filter((line) => !before.includes(line));
    if (added.length) news.textContent = added.join(". ");
  }

  async function tick() {
    if (!held && !document.hidden) {
      try {
        await refresh();
        late = 0;
        showState("refreshed every " + dashboard.dataset.seconds + " s", false);
      } catch (error) {
        late += 1;
        const signedOut = error.message === "signed out";
        showState(signedOut ? "signed out: log in again" : "not refreshed since " + since() + ": " + error.message + "; retrying", true);
      }
    }
    window.setTimeout(tick, every * Math.min(12, 1 + late));
  }

  const since = () => dashboard.querySelector("time")?.textContent || "a while";

  hold.hidden = false;
  hold.addEventListener("click", () => {
    held = !held;
    hold.textContent = held ? "Resume refreshing" : "Stop refreshing";
    hold.setAttribute("aria-pressed", String(held));
    showState(held ? "not refreshing" : "refreshed every " + dashboard.dataset.seconds + " s", false);
  });
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["class"] });

  dashboard.querySelectorAll("section[id]").forEach(remember);
  if (window.Chart) dashboard.classList.add("dashboard-live"); // the theme brings it; else the tables are there
  showState("refreshed every " + dashboard.dataset.seconds + " s", false);
  draw();
  window.setTimeout(tick, every);
})();
