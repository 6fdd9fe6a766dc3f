const table = document.getElementById("papers");
const body = table.tBodies[0];
const compare = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" }).compare;
function sortBy(column, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  const rows = [...body.rows].map((row) => [row.cells[column].textContent, row]);
  const filled = rows.filter(([text]) => text);
  filled.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
  body.replaceChildren(...filled.map(([, row]) => row), ...rows.filter(([text]) => !text).map(([, row]) => row));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}
[...table.tHead.rows[0].cells].forEach((heading, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = heading.textContent;
  button.addEventListener("click", () => sortBy(column, heading));
  heading.replaceChildren(button);
});
