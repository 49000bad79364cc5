// A table or a formula that is wider than the page scrolls by the keyboard as well.
function reachable() {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex]), .md-typeset math:not([tabindex])")) {
    if (wide.scrollWidth > wide.clientWidth) wide.setAttribute("tabindex", 0);
  }
}
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
addEventListener("load", reachable);
addEventListener("resize", reachable);
