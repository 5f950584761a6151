// In a figure (NAME.html#stage) short motions are played slowly, and all from the beginning again, until somebody touches the page.
if (location.hash === '#stage' && window.pullback && pullback.data.moving) {
  const end = pullback.data.time[pullback.data.time.length - 1], speed = document.getElementById('speed'), play = document.getElementById('play');
  speed.value = end < 0.8 ? '0.25' : end < 1.6 ? '0.5' : '1';
  for (const key of '{{keys}}') window.dispatchEvent(new KeyboardEvent('keydown', {key}));
  const again = setInterval(() => { if (play.textContent === 'Play') play.click(); }, 900);
  for (const kind of ['pointerdown', 'keydown']) document.addEventListener(kind, () => clearInterval(again), {once: true, capture: true});
}
