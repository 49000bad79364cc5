// A table that is wider than the page scrolls by the keyboard as well.
new MutationObserver(() => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  }
}).observe(document.body, { childList: true, subtree: true });
