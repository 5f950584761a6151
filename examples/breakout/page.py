"""A game as a page that plays it back: one file without a network, with where the player believed the ball to come down."""
import html
import json

import numpy as np

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Breakout, learnt</title>
<style>body{background:#111;color:#ddd;font:15px sans-serif;max-width:480px;margin:1em auto;padding:0 8px}
canvas{width:100%;image-rendering:pixelated;background:#000}input[type=range]{width:100%}</style>
<h1>Breakout, learnt from pictures</h1><p>WORDS</p><canvas id="c" width="WIDTH" height="HEIGHT" aria-label="the game"></canvas>
<p><button id="go">pause</button> <label>frames at a time <input id="speed" type="number" min="1" max="50" value="1"></label> <span id="at"></span></p>
<input id="bar" type="range" min="0" value="0" aria-label="frame">
<p>White: the flight that was expected, to where it was to come down. Points are this game's own.</p>
<script>
const W=WIDTH,palette=PALETTE,changes=CHANGES,paths=PATHS,canvas=document.getElementById('c'),g=canvas.getContext('2d');
const image=g.createImageData(W,HEIGHT),bar=document.getElementById('bar'),go=document.getElementById('go');
let now=-1,running=true;bar.max=changes.length-1;
function draw(k){if(k<now){now=-1}
for(let f=now+1;f<=k;f++){const c=changes[f];for(let i=0;i<c.length;i+=3)for(let p=c[i];p<c[i]+c[i+1];p++){
const color=palette[c[i+2]];image.data.set([color>>16,color>>8&255,color&255,255],4*p)}}
now=k;g.putImageData(image,0,0);let path=null;for(const p of paths){if(p[0]>k)break;path=p}
if(path){g.fillStyle='#fff';for(let i=1;i<path.length;i+=2)g.fillRect(path[i],path[i+1],1,1)}
bar.value=k;document.getElementById('at').textContent='frame '+k}
bar.oninput=()=>draw(+bar.value);go.onclick=()=>{running=!running;go.textContent=running?'pause':'play'};
function tick(){if(running&&now<changes.length-1)draw(Math.min(changes.length-1,now+Math.max(1,+document.getElementById('speed').value||1)));
requestAnimationFrame(tick)}
draw(0);tick();
</script></html>"""


def stretches(colors, changed):
    """[first pixel, count, color, ...] of those that changed."""
    starts = np.flatnonzero(np.diff(np.where(changed, colors, -1), prepend=-2))
    ends = np.append(starts[1:], len(colors))
    return [int(v) for a, b in zip(starts, ends, strict=True) if changed[a] for v in (a, b - a, colors[a])]


class Recorder:
    """Keeps a game for its page: see(picture, player) each frame, write(path, words) at the end."""

    def __init__(self, game):
        self.palette, self.shape, self.last = game.palette, game.shape, None
        self.changes, self.paths, self.made = [], [], None

    def see(self, picture, player):
        """A frame: stretches of pixels that changed, and the flight that is expected where it is a new one."""
        indices = np.searchsorted(np.sort(self.palette), picture).ravel()
        changed = np.ones(indices.size, bool) if self.last is None else indices != self.last
        self.changes.append(stretches(indices, changed))
        self.last = indices
        flight = player.flight
        if flight is not self.made and (flight is None or not self.paths or len(self.changes) - self.paths[-1][0] > 4):
            points = [] if flight is None else np.round(flight.path).astype(int).ravel().tolist()
            self.paths.append([len(self.changes) - 1, *points])
            self.made = flight

    def write(self, path, words):
        height, width = self.shape
        parts = {"WORDS": html.escape(words), "WIDTH": str(width), "HEIGHT": str(height), "PALETTE": json.dumps(np.sort(self.palette).tolist()),
                 "CHANGES": json.dumps(self.changes, separators=(",", ":")), "PATHS": json.dumps(self.paths, separators=(",", ":"))}
        text = PAGE
        for name, value in parts.items():
            text = text.replace(name, value)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
