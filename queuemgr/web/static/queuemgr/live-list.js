// Refreshes a list, but not while rows are ticked, an action is chosen or text is typed anywhere in the page.
(() => {
  const PARTS = ["list-as-of", "list-tabs", "changelist-form", "list-pages"];
  let replaced = false;

  function isEdited(field) {
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    if (!field.matches("select")) return field.value !== field.defaultValue;
    const options = [...field.options];
    return field.selectedIndex !== Math.max(0, options.findIndex((option) => option.defaultSelected));
  }

  const fields = () => [...document.querySelectorAll("input:not([type=hidden], [type=submit], [type=button]), select, textarea")];
  const isTyping = () => document.activeElement?.matches("input:not([type=checkbox], [type=radio]), textarea, select");

  // Of parts within one another the outer one.
  function parts(page) {
    const found = PARTS.map((id) => page.getElementById(id)).filter(Boolean);
    return found.filter((part) => !found.some((other) => other !== part && other.contains(part)));
  }

  // Django binds the boxes of the rows it finds when the page is loaded: those of new rows are bound as
  // somebody turns to them.
  function bind(event) {
    const form = document.getElementById("changelist-form");
    const boxes = replaced && form?.contains(event.target) ? form.querySelectorAll("tr input.action-select") : [];
    if (!boxes.length || !window.Actions) return;
    replaced = false;
    window.Actions(boxes, { parent: form }); // the theme's asks for the parent
  }
  for (const kind of ["pointerdown", "focusin"]) document.addEventListener(kind, bind, true);

  window.keepRefreshed({
    name: "list-live",
    parts,
    address: () => window.location.pathname + window.location.search,
    busy: () => (isTyping() || fields().some(isEdited) ? "not refreshed while rows are ticked or text is typed" : ""),
    after: () => { replaced = true; },
  });
})();
