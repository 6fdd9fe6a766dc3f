// What the theme's pages call by name in their attributes. Alpine's build without `eval` finds names
// only in what is registered here, and reads no globals (window, localStorage) and no statements.

const KEY = "sidebarDesktopOpen";

function page(firstTab) {
  return {
    activeTab: firstTab && (getCurrentTab() || firstTab),
    sidebarMobileOpen: false,
    sidebarDesktopOpen: localStorage.getItem(KEY) !== "0",
    init() {
      this.$watch(KEY, (open) => localStorage.setItem(KEY, open ? "1" : "0"));
    },
    // Where a form of several tabs is sent, so that the answer shows the same tab.
    formAction() {
      const tab = this.activeTab && this.activeTab !== "general" ? `#${this.activeTab}` : "";
      return window.location.pathname + window.location.search + tab;
    },
  };
}

document.addEventListener("alpine:init", () => {
  Alpine.data("theme", theme);
  Alpine.data("page", page);
  Alpine.data("searchForm", searchForm);
  for (const form of document.querySelectorAll("form[x-bind\\:action]")) {
    form.setAttribute("x-bind:action", "formAction()");
  }
});
