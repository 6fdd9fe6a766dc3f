// Keeps the dashboard refreshed, draws its charts, and announces only new alerts to screen readers.
(() => {
  const dashboard = document.getElementById("dashboard");
  const parts = document.getElementById("dashboard-parts");
  const news = document.getElementById("dashboard-news");
  const charts = new Map();

  const alerts = () => [...parts.querySelectorAll("#dashboard-alerts a")].map((line) => line.textContent);

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

  function announce(before) {
    const added = alerts().filter((line) => !before.includes(line));
    if (added.length) news.textContent = added.join(". ");
  }

  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["class"] });

  if (window.Chart) dashboard.classList.add("dashboard-live"); // the theme brings it; else the tables are there
  window.keepRefreshed({
    name: "dashboard",
    parts: (page) => [...(page.getElementById("dashboard") || page).querySelectorAll("section[id]")],
    address: () => dashboard.dataset.address + window.location.search,
    before: alerts,
    after: (before) => { draw(); announce(before); },
  });
  draw();
})();
