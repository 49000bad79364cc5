// A table, a formula or a picture that is wider than the page scrolls by the keyboard as well.
function reachable() {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset math, .md-typeset p:has(> img)")) {
    if (wide.tabIndex < 0 && wide.scrollWidth > wide.clientWidth) wide.setAttribute("tabindex", 0);
  }
}
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
addEventListener("load", reachable);
addEventListener("resize", reachable);
