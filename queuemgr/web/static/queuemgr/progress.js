// Refreshes the progress of a bulk action every two seconds while it runs.
(() => {
  const part = () => document.getElementById("bulk-progress");

  async function refresh() {
    const address = part().dataset.address;
    if (!address) return;
    if (!document.hidden) await replace(address).catch(() => {}); // tried again after the next two seconds
    window.setTimeout(refresh, 2000);
  }

  async function replace(address) {
    const response = await fetch(address, { credentials: "same-origin", headers: { "X-Requested-With": "fetch" } });
    if (!response.ok || response.redirected) return;
    const answer = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = answer.getElementById("bulk-progress");
    if (fresh) part().replaceWith(document.adoptNode(fresh));
  }

  window.setTimeout(refresh, 2000);
})();
