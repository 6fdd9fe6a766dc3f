// "/" puts the focus into the search box, unless one is typing somewhere; Escape leaves it.
(() => {
  const box = document.getElementById("sg-find");
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "Escape" && event.target === box) box.blur();
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
})();
