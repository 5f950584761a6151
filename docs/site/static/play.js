'use strict';
// A figure is replaced by the page that plays what it shows, in its place. Without scripts its link opens that page.
document.addEventListener('click', event => {
  const figure = event.target.closest('a.player');
  if (!figure || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const frame = document.createElement('iframe'), box = document.createElement('span'), whole = document.createElement('a');
  frame.src = figure.href + '#stage';  // picture and bar alone
  frame.title = figure.title;
  whole.href = figure.href;
  whole.textContent = 'on a page of its own';
  whole.className = 'whole';
  box.className = 'player playing';
  box.append(frame);
  figure.replaceWith(box, whole);
  frame.addEventListener('load', () => frame.focus());
});
