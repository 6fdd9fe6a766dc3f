const table = document.getElementById("papers");
const body = table.tBodies[0];
const headings = [...table.tHead.rows[0].cells];
const all = [...body.rows];
const compare = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" }).compare;
let rest = [];
/* The first rows are there at once, thousands more follow without holding up the page. */
function fill() {
  body.append(...rest.splice(0, 500));
  if (rest.length) setTimeout(fill);
}
function sortBy(column, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  const rows = all.map((row) => [row.cells[column].textContent, row]);
  const filled = rows.filter(([text]) => text);
  filled.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
  const waiting = rest.length;
  rest = [...filled, ...rows.filter(([text]) => !text)].map(([, row]) => row);
  body.replaceChildren();
  if (!waiting) fill();
  for (const other of headings) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}
headings.forEach((heading, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = heading.textContent;
  button.addEventListener("click", () => sortBy(column, heading));
  heading.replaceChildren(button);
});
