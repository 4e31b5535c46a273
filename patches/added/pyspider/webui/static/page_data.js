// Data of a page, for its scripts: what the server wrote into it as JSON becomes a global variable.
// A page may hold data, but no code: its content security policy forbids that.
for (const block of document.querySelectorAll('script[type="application/json"][data-name]')) {
  window[block.dataset.name] = JSON.parse(block.textContent);
}
