// The pages of the laboratory: a form made of a page's controls, an answer of the module drawn. All that is computed is computed in
// crates/wasm; all text goes into the page as text, never as markup.
"use strict";

// What talks to the module; a worker has the same.
function core() {
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  class Engine {
    constructor(module) { this.module = module; this.start(); }
    start() { this.exports = new WebAssembly.Instance(this.module, {}).exports; }
    put(slot, bytes) {
      const at = this.exports.input(slot, bytes.length) >>> 0;
      if (!at && bytes.length) throw new Error("there is not enough memory for this file");
      new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
    }
    // kind: 0 controls, 1 answer, 2 answer with the file in slots 2 and 3, 3 the next step of a long answer.
    ask(kind, page, query) {
      try {
        if (kind < 3) { this.put(0, encoder.encode(page)); this.put(1, encoder.encode(query)); }
        const length = this.exports.ask(kind) >>> 0, at = this.exports.output() >>> 0;
        return JSON.parse(decoder.decode(new Uint8Array(this.exports.memory.buffer, at, length)));
      } catch (error) {
        if (!(error instanceof WebAssembly.RuntimeError)) throw error;
        // A trap leaves the module's state unknown: a new one is as good as the old one.
        this.start();
        return { error: "internal error: " + error.message + ". Please report the link or the file." };
      }
    }
    // Files to take away: [name, bytes].
    files() {
      const list = [];
      for (let length; (length = this.exports.file(list.length) >>> 0);) {
        const all = new Uint8Array(this.exports.memory.buffer, this.exports.output() >>> 0, length).slice(), end = all.indexOf(10);
        list.push([decoder.decode(all.subarray(0, end)), all.subarray(end + 1)]);
      }
      return list;
    }
    async file(file) {
      if (file.size >= 2 ** 31) throw new Error("files of 2 GB and more do not fit into a tab; the command line reads them");
      const at = (this.put(2, encoder.encode(file.name.slice(0, 200))), this.exports.input(3, file.size) >>> 0);
      if (!at && file.size) throw new Error("there is not enough memory for this file");
      // In pieces: the tab never holds the file twice.
      for (let from = 0; from < file.size; from += 4 << 20) {
        const piece = new Uint8Array(await file.slice(from, from + (4 << 20)).arrayBuffer());
        new Uint8Array(this.exports.memory.buffer, at + from, piece.length).set(piece);
      }
    }
  }
  return Engine;
}
const Engine = core();

function work() {
  let engine;
  onmessage = async ({ data }) => {
    try {
      engine = engine || new Engine(data.module);
      if (data.file) await engine.file(data.file);
      let answer = engine.ask(data.file ? 2 : 1, data.page, data.query);
      for (let last = 0; answer.progress && answer.progress[0] < answer.progress[1];) {
        if (Date.now() - last > 100) { postMessage({ answer, partial: true }); last = Date.now(); }
        answer = engine.ask(3);
      }
      postMessage({ answer, files: answer.error ? [] : engine.files(), memory: engine.exports.memory.buffer.byteLength });
    } catch (error) {
      postMessage({ answer: { error: String(error.message || error) } });
    }
  };
}

const $ = (id) => document.getElementById(id);
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name in node && name !== "list" && name !== "role") node[name] = value; else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
// Asking for a style makes the browser lay the page out: each colour is asked for once a theme.
const styles = new Map();
addEventListener("theme", () => styles.clear());
function css(name) {
  if (!styles.has(name)) styles.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return styles.get(name);
}

// ---- numbers ----
const group = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, " ");
function amount(value, unit) {
  if (unit === "ns") {
    if (value === 0) return "0";
    const [size, name] = value >= 1e9 ? [1e9, "s"] : value >= 1e6 ? [1e6, "ms"] : value >= 1e3 ? [1e3, "us"] : [1, "ns"];
    return +(value / size).toPrecision(5) + " " + name;
  }
  if (unit === "kHz") return +(value / 1000).toPrecision(6) + " MHz";
  return group(Math.round(value)) + (unit ? " " + unit : "");
}
function ticks(from, to, most) {
  const raw = Math.max(1e-9, to - from) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw) || raw;
  const list = [];
  for (let n = Math.ceil(from / step); n * step <= to + step * 1e-6; n++) list.push(n * step);
  return list;
}

// ---- pictures ----
const DASH = [[], [], [6, 3], [2, 3], [8, 3, 2, 3], [1, 2]];
const WIDTH = [2.2, 1.6, 1.8, 1.8, 1.6, 1.4];
class Picture {
  constructor(data) {
    this.hidden = new Set();
    this.canvas = make("canvas", { tabIndex: 0, role: "img" });
    this.caption = make("figcaption");
    this.legend = make("div", { className: "legend" });
    this.readout = make("output");
    this.node = make("figure", {}, this.caption, this.legend, this.canvas, this.readout);
    this.cursor = null;
    this.view = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => { this.drag = { x: event.offsetX, view: this.range() }; this.moved = false; });
    addEventListener("pointerup", () => { this.drag = null; });
    this.canvas.addEventListener("pointerleave", () => { if (!this.drag) { this.cursor = null; this.draw(); } });
    this.canvas.addEventListener("click", (event) => { if (!this.moved) this.choose(event.offsetX, event.offsetY); });
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !this.data.lanes.some((lane) => lane.marks.length || lane.spans.length)) return;
      event.preventDefault(); this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.time(event.offsetX));
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.set(data);
  }
  set(data) {
    if (this.data && this.data.x.end !== data.x.end) this.view = null;
    this.data = data;
    // A colour a name, in the order in which names come.
    this.kinds = new Map();
    for (const lane of data.lanes) for (const [, , name] of lane.spans) if (!this.kinds.has(name)) this.kinds.set(name, this.kinds.size);
    const unit = data.y.unit === "kHz" ? "MHz" : data.y.unit, what = data.y.name + (unit ? ", " + unit : "");
    this.caption.replaceChildren(data.title, ...(data.series.length ? [make("small", {}, what + " by " + data.x.name)] : []));
    const names = data.series.map((line) => line.name + line.color).join("\n");
    if (names !== this.names) {
      this.names = names;
      this.legend.replaceChildren(...data.series.map((line) => {
        const key = make("canvas", { width: 44, height: 16, ariaHidden: "true" });
        key.style.cssText = "width:22px;height:8px;border:0;border-radius:0;background:none";
        key.dataset.color = line.color;
        const button = make("button", { type: "button", ariaPressed: String(!this.hidden.has(line.name)) }, key, line.name);
        button.addEventListener("click", () => {
          if (!this.hidden.delete(line.name)) this.hidden.add(line.name);
          button.ariaPressed = String(!this.hidden.has(line.name));
          this.draw();
        });
        return button;
      }));
    }
    this.canvas.ariaLabel = data.title + ": " + data.y.name + " by " + data.x.name + ". Arrow keys move a cursor; plus and minus zoom.";
    this.draw();
  }
  range() { return this.view || [0, Math.max(1, this.data.x.end)]; }
  left() { return this.data.lanes.some((lane) => lane.name.length > 5) ? 92 : 58; }
  time(x) { const [from, to] = this.range(), left = this.left(); return from + (x - left) / (this.width - left - 10) * (to - from); }
  zoom(factor, about) {
    const [from, to] = this.range(), end = this.data.x.end;
    const span = Math.min(end, Math.max(end / 1e5, (to - from) * factor));
    const start = Math.min(end - span, Math.max(0, about - (about - from) / (to - from) * span));
    this.view = span >= end ? null : [start, start + span];
    this.draw();
  }
  point(event) {
    if (this.drag && Math.abs(event.offsetX - this.drag.x) > 4 && this.view) {
      this.moved = true;
      const [from, to] = this.drag.view, span = to - from;
      const start = Math.min(this.data.x.end - span, Math.max(0, from - (event.offsetX - this.drag.x) / (this.width - this.left() - 10) * span));
      this.view = [start, start + span];
    }
    this.cursor = Math.min(this.range()[1], Math.max(this.range()[0], this.time(event.offsetX)));
    this.lane = this.laneAt(event.offsetY);
    this.draw();
  }
  key(event) {
    const [from, to] = this.range(), step = (to - from) / 100;
    const now = this.cursor === null ? from : this.cursor;
    if (event.key === "ArrowLeft") this.cursor = Math.max(from, now - step);
    else if (event.key === "ArrowRight") this.cursor = Math.min(to, now + step);
    else if (event.key === "+" || event.key === "=") this.zoom(0.7, now);
    else if (event.key === "-") this.zoom(1.43, now);
    else if (event.key === "0") { this.view = null; }
    else if (event.key === "n" || event.key === "p") this.step(event.key === "n" ? 1 : -1, now);
    else if (event.key === "Escape") this.cursor = null;
    else return;
    event.preventDefault();
    this.draw();
  }
  step(way, now) {
    const all = this.data.lanes.flatMap((lane) => lane.marks).sort((a, b) => a[0] - b[0]);
    const next = way > 0 ? all.find((mark) => mark[0] > now + 0.5) : all.filter((mark) => mark[0] < now - 0.5).pop();
    if (next) { this.cursor = next[0]; this.say(next[1]); }
  }
  say(words) { this.said = words; this.readout.textContent = words; }
  choose(x, y) {
    const lane = this.laneAt(y);
    if (!lane) return;
    const at = this.time(x), near = (this.range()[1] - this.range()[0]) / 60;
    const found = lane.marks.reduce((best, mark) => !best || Math.abs(mark[0] - at) < Math.abs(best[0] - at) ? mark : best, null);
    if (found && Math.abs(found[0] - at) < near) { this.cursor = found[0]; this.draw(); this.say(found[1]); }
  }
  laneAt(y) { const n = Math.floor((y - this.lanesTop) / this.laneHeight); return this.data.lanes[n] && y >= this.lanesTop ? this.data.lanes[n] : null; }
  draw() {
    const { data, canvas } = this, width = canvas.clientWidth || 600;
    this.width = width;
    const graph = data.series.length ? (width < 500 ? 210 : 270) : 0;
    const tall = data.lanes.some((lane) => lane.level.length);
    this.laneHeight = tall ? 46 : 22;
    this.lanesTop = graph ? graph + 4 : 8;
    const height = this.lanesTop + data.lanes.length * this.laneHeight + 24, scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); canvas.style.height = height + "px";
    }
    const g = canvas.getContext("2d"), left = this.left(), right = width - 10, top = 12, bottom = graph;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
    const colors = [0, 1, 2, 3, 4, 5].map((n) => css("--c" + n)), soft = css("--soft"), grid = css("--grid"), ink = css("--ink");
    const [from, to] = this.range();
    const px = (x) => left + (x - from) / (to - from) * (right - left);
    const y1 = Math.max(1, data.y.end), py = (y) => bottom - y / y1 * (bottom - top);
    g.lineWidth = 1; g.strokeStyle = grid; g.fillStyle = soft; g.textBaseline = "middle";
    if (graph) for (const y of ticks(0, y1, 5)) {
      g.beginPath(); g.moveTo(left, py(y) + .5); g.lineTo(right, py(y) + .5); g.stroke();
      g.textAlign = "right"; g.fillText(data.y.unit === "kHz" ? group(Math.round(y / 1000)) : group(Math.round(y)), left - 6, py(y));
    }
    g.textAlign = "center";
    const axis = height - 11;
    for (const x of ticks(from, to, width < 500 ? 4 : 8)) {
      g.beginPath(); g.moveTo(px(x) + .5, graph ? top : this.lanesTop); g.lineTo(px(x) + .5, height - 20); g.stroke();
      const words = amount(Math.round(x), data.x.unit), half = g.measureText(words).width / 2;
      g.fillText(words, Math.min(right - half, Math.max(left + half - 20, px(x))), axis);
    }
    g.save(); g.beginPath(); g.rect(left, 0, right - left, height); g.clip();
    if (data.mark !== undefined) {
      g.strokeStyle = soft; g.setLineDash([3, 3]); g.beginPath(); g.moveTo(px(data.mark), top); g.lineTo(px(data.mark), bottom); g.stroke(); g.setLineDash([]);
    }
    for (const line of data.series) {
      if (this.hidden.has(line.name)) continue;
      this.path(g, line.points, px, py, line.step, to);
      g.strokeStyle = colors[line.color % 6]; g.lineWidth = WIDTH[line.color % 6]; g.setLineDash(DASH[line.color % 6]); g.stroke(); g.setLineDash([]);
    }
    data.lanes.forEach((lane, at) => this.drawLane(g, lane, at, { px, left, right, from, to, colors, soft, ink }));
    g.restore();
    data.lanes.forEach((lane, at) => {
      g.fillStyle = soft; g.textAlign = "right";
      let name = lane.name;
      while (name.length > 3 && g.measureText(name).width > left - 10) name = name.slice(0, -2) + "\u2026";
      g.fillText(name, left - 6, this.lanesTop + at * this.laneHeight + this.laneHeight / 2);
    });
    for (const key of this.legend.querySelectorAll("canvas")) {
      const small = key.getContext("2d"), color = +key.dataset.color % 6;
      small.clearRect(0, 0, 44, 16); small.setTransform(2, 0, 0, 2, 0, 0);
      small.strokeStyle = colors[color]; small.lineWidth = 2; small.setLineDash(DASH[color]);
      small.beginPath(); small.moveTo(0, 4); small.lineTo(22, 4); small.stroke(); small.setTransform(1, 0, 0, 1, 0, 0);
    }
    if (this.cursor !== null) {
      g.strokeStyle = ink; g.lineWidth = 1; g.beginPath(); g.moveTo(px(this.cursor), graph ? top : this.lanesTop); g.lineTo(px(this.cursor), height - 20); g.stroke();
      const parts = [amount(Math.round(this.cursor), data.x.unit)];
      for (const line of data.series) {
        const value = Picture.at(line, this.cursor);
        if (value !== null && !this.hidden.has(line.name)) parts.push(line.name + " " + amount(value, data.y.unit));
      }
      for (const lane of data.lanes) {
        if (data.series.length === 0 && this.lane && lane !== this.lane) continue;
        const run = lane.spans.find((part) => part[0] <= this.cursor && this.cursor < part[1]);
        const level = lane.level.length ? Picture.at({ points: lane.level, step: true }, this.cursor) : null;
        if (run && run[2] || level !== null) parts.push(lane.name + ": " + [run ? run[2] : "idle", level === null ? "" : amount(level, "kHz")].filter(Boolean).join(" at "));
      }
      if (!this.said) this.readout.textContent = parts.join("   ");
      this.said = null;
    } else if (!this.readout.textContent || !data.lanes.some((lane) => lane.marks.length)) {
      this.readout.textContent = data.lanes.some((lane) => lane.marks.length) ? "Click a mark, or press n and p: why it was decided so. Wheel or + and -: zoom. Drag: move." : "";
    }
  }
  // Many points a pixel: the first, least, most and last of each pixel.
  path(g, points, px, py, step, to) {
    g.beginPath();
    let lastY = null, pixel = null, low = 0, high = 0;
    for (let n = 0; n < points.length; n += 2) {
      const x = px(points[n]), y = py(points[n + 1]), column = Math.round(x * 2);
      if (lastY === null) { g.moveTo(x, y); pixel = column; low = high = y; lastY = y; continue; }
      if (column === pixel) { low = Math.min(low, y); high = Math.max(high, y); lastY = y; continue; }
      if (low !== high) { g.lineTo(pixel / 2, low); g.lineTo(pixel / 2, high); g.lineTo(pixel / 2, lastY); }
      if (step) g.lineTo(x, lastY);
      g.lineTo(x, y); pixel = column; low = high = y; lastY = y;
    }
    if (low !== high) { g.lineTo(pixel / 2, low); g.lineTo(pixel / 2, high); g.lineTo(pixel / 2, lastY); }
    if (step && lastY !== null) g.lineTo(px(to), lastY);
  }
  drawLane(g, lane, at, { px, left, right, from, to, colors, soft, ink }) {
    const y = this.lanesTop + at * this.laneHeight, high = this.laneHeight - 6, bar = lane.level.length ? 14 : high;
    g.fillStyle = css("--lane"); g.fillRect(left, y, right - left, high);
    let filled = -1;
    for (const [start, end, name] of lane.spans) {
      if (end < from || start > to) continue;
      const x = px(start), wide = Math.max(1, px(end) - x);
      if (x + wide <= filled + .3) continue;
      filled = x + wide;
      g.fillStyle = colors[this.kinds.get(name) % 6]; g.globalAlpha = .8; g.fillRect(x, y, wide, bar); g.globalAlpha = 1;
      if (wide > 34 && name) { g.fillStyle = css("--page"); g.textAlign = "left"; g.save(); g.beginPath(); g.rect(x, y, wide - 2, bar); g.clip(); g.fillText(name, x + 3, y + bar / 2 + .5); g.restore(); }
    }
    if (lane.level.length) {
      this.path(g, lane.level, px, (v) => y + high - v / Math.max(1, lane.level_max) * (high - bar - 3), true, to);
      g.strokeStyle = colors[1]; g.lineWidth = 1.4; g.stroke();
    }
    g.fillStyle = ink;
    let last = -9;
    for (const [time] of lane.marks) {
      const x = px(time);
      if (time < from || time > to || x - last < 3) continue;
      last = x; g.beginPath(); g.moveTo(x, y + bar); g.lineTo(x - 3, y + bar + 6); g.lineTo(x + 3, y + bar + 6); g.fill();
    }
  }
  static at(line, x) {
    const p = line.points;
    let low = 0, high = p.length / 2;
    while (low < high) { const middle = (low + high) >> 1; if (p[2 * middle] <= x) low = middle + 1; else high = middle; }
    if (low === 0) return null;
    const [x0, y0] = [p[2 * low - 2], p[2 * low - 1]];
    if (line.step || 2 * low >= p.length) return y0;
    return y0 + (p[2 * low + 1] - y0) * (x - x0) / (p[2 * low] - x0);
  }
}

// ---- the form ----
class Field {
  constructor(control, changed) {
    this.control = control;
    const id = "f-" + control.name, { kind } = control;
    const name = make("span", {}, control.label + (control.unit ? " (" + control.unit + ")" : ""));
    if (kind === "range") {
      const { min, max, step } = control;
      this.log = (max - min) / step > 1500;
      this.input = make("input", { type: "number", id, min, max, step: 1, value: control.default });
      this.slider = make("input", { type: "range", min: 0, max: this.log ? 600 : (max - min) / step, ariaLabel: control.label });
      this.slider.addEventListener("input", () => {
        const at = +this.slider.value;
        const value = this.log ? Math.round((Math.exp(at / 600 * Math.log((max - min) / step + 1)) - 1)) * step + min : at * step + min;
        this.input.value = Math.min(max, value); this.slider.ariaValueText = this.input.value + " " + control.unit; changed();
      });
      // An arrow is a step, where the slider itself has fewer places than there are steps.
      this.slider.addEventListener("keydown", (event) => {
        const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
        if (!this.log || !way) return;
        event.preventDefault();
        this.input.value = Math.min(max, Math.max(min, +this.input.value + way * step)); this.place(); changed();
      });
      this.node = make("label", { htmlFor: id }, name, this.input, this.slider);
    } else if (kind === "choice") {
      this.input = make("select", { id }, ...control.of.map((word) => make("option", { value: word }, word || "none")));
      this.node = make("label", { htmlFor: id }, name, this.input);
    } else {
      const rows = control.max > 2000 ? 9 : control.max > 100 ? 3 : 1;
      this.input = make("textarea", { id, rows, spellcheck: false });
      this.node = make("label", { htmlFor: id, className: "wide" }, name, this.input);
    }
    this.input.addEventListener("input", () => { this.place(); changed(); });
    this.set(control.default);
  }
  place() {
    if (!this.slider) return;
    const { min, max, step } = this.control, value = Math.min(max, Math.max(min, +this.input.value || 0));
    this.slider.value = this.log ? Math.log((value - min) / step + 1) / Math.log((max - min) / step + 1) * 600 : (value - min) / step;
    this.slider.ariaValueText = this.input.value + " " + this.control.unit;
  }
  get() { return this.input.value; }
  set(value) { if (document.activeElement !== this.input || this.input.value === "") this.input.value = value; this.place(); }
}

class Lab {
  constructor(module, page) {
    this.engine = new Engine(this.module = module);
    this.page = page;
    this.pictures = [];
    this.offered = [];
    const about = this.about = this.engine.ask(0, page, "");
    $("question").textContent = about.question;
    $("about").textContent = about.about;
    $("examples").replaceChildren(...about.examples.map(([words, link]) => make("a", { href: "#" + link }, words)));
    this.fields = about.controls.map((control) => new Field(control, () => this.changed()));
    $("form").replaceChildren(...this.fields.map((field) => field.node));
    $("form").addEventListener("submit", (event) => event.preventDefault());
    if (about.drop) this.dropZone(about.drop);
    if (about.worker) this.runButtons();
    addEventListener("hashchange", () => { if (location.hash.slice(1) !== this.link) { this.file = null; this.read(); } });
    $("copy").addEventListener("click", () => this.copy($("link")));
    $("copy-command").addEventListener("click", () => this.copy($("command")));
    this.read();
  }
  runButtons() {
    this.go = make("button", { type: "button", className: "go" }, "Run");
    this.stop = make("button", { type: "button", disabled: true }, "Cancel");
    this.bar = make("progress", { max: 1, value: 0, ariaLabel: "Progress" });
    this.go.addEventListener("click", () => this.long());
    this.stop.addEventListener("click", () => this.cancel("Cancelled. What was finished until then is shown."));
    $("form").prepend(make("div", { className: "row wide" }, this.go, this.stop, this.bar));
  }
  dropZone(words) {
    const input = make("input", { type: "file", ariaLabel: words });
    const zone = make("div", { className: "drop wide" }, words + " ", input);
    const take = (file) => { if (file) { this.file = file; this.long(); } };
    input.addEventListener("change", () => take(input.files[0]));
    addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
    addEventListener("dragleave", () => zone.classList.remove("over"));
    addEventListener("drop", (event) => { event.preventDefault(); zone.classList.remove("over"); take(event.dataTransfer.files[0]); });
    $("form").prepend(zone);
  }
  query() { return this.fields.map((field) => field.control.name + "=" + encodeURIComponent(field.get())).join("&"); }
  read() {
    const answer = this.engine.ask(1, this.page, location.hash.slice(1));
    if (answer.error) { this.show(answer); return; }
    this.fields.forEach((field) => field.set(answer.values[field.control.name]));
    this.show(answer);
    if (this.about.worker) this.long();
  }
  changed() {
    if (this.about.worker) { const answer = this.engine.ask(1, this.page, this.query()); if (answer.error) this.show(answer); else this.share(answer); return; }
    if (this.file) { this.long(); return; }
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.show(this.engine.ask(1, this.page, this.query())); });
  }
  // What may take long runs in a worker, which can be ended at any time.
  long() {
    this.cancel("");
    const source = "\"use strict\"; const Engine = (" + core + ")(); (" + work + ")();";
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const worker = this.worker = new Worker(address);
    URL.revokeObjectURL(address);
    this.began = performance.now();
    document.documentElement.dataset.busy = "yes";
    if (this.go) { this.stop.disabled = false; this.bar.removeAttribute("value"); }
    worker.onmessage = ({ data }) => {
      if (worker !== this.worker) return;
      const { answer } = data;
      if (answer.progress && this.bar) { this.bar.max = answer.progress[1]; this.bar.value = answer.progress[0]; }
      this.show(answer);
      if (data.partial) return;
      this.worker = null; worker.terminate();
      delete document.documentElement.dataset.busy;
      this.offer(data.files || []);
      // On a page that answers at once a file becomes parameters, and is not needed any more.
      if (!this.about.worker) { this.file = null; if (!answer.error) this.fields.forEach((field) => field.set(answer.values[field.control.name])); }
      document.documentElement.dataset.memory = data.memory || 0;
      document.documentElement.dataset.took = Math.round(performance.now() - this.began);
      if (this.go) { this.stop.disabled = true; if (answer.error) this.bar.value = 0; else this.bar.value = this.bar.max; }
    };
    worker.onerror = (event) => { event.preventDefault(); this.cancel("the worker failed: " + event.message); };
    worker.postMessage({ module: this.module, page: this.page, query: this.query(), file: this.file || null });
  }
  cancel(words) {
    delete document.documentElement.dataset.busy;
    if (this.worker) { this.worker.terminate(); this.worker = null; if (words) $("error").textContent = words; }
    if (this.go) { this.stop.disabled = true; this.bar.value = 0; }
  }
  offer(files) {
    this.blobs = [];
    this.offered.splice(0).forEach((address) => URL.revokeObjectURL(address));
    const links = files.map(([name, bytes]) => {
      const blob = new Blob([bytes]), address = URL.createObjectURL(blob);
      this.blobs.push(blob);
      this.offered.push(address);
      return make("a", { href: address, download: name }, name);
    });
    $("files").replaceChildren(...links.length ? ["For ui.perfetto.dev, with reasons: ", ...links] : []);
  }
  share(answer) {
    $("error").textContent = "";
    this.link = answer.link;
    const base = location.href.split("#")[0];
    $("link").value = base + (answer.link ? "#" + answer.link : "");
    $("command").value = answer.command;
    $("command").parentNode.hidden = !answer.command;
    this.sources(answer.sources);
    // Browsers refuse more than a few changes of the address a second.
    clearTimeout(this.later);
    this.later = setTimeout(() => { try { history.replaceState(null, "", "#" + answer.link); } catch { /* the link is in its field */ } }, 250);
  }
  // The files that the command reads; one that is open stays open while sliders move.
  sources(files) {
    const names = files.map(([name]) => name).join("\n");
    if (names !== this.sourceNames) {
      this.sourceNames = names;
      $("sources").replaceChildren(...files.map(([name]) => make("details", {}, make("summary", {}, name), make("pre", { tabIndex: 0 }))));
    }
    $("sources").querySelectorAll("pre").forEach((pre, n) => { if (pre.textContent !== files[n][1]) pre.textContent = files[n][1]; });
  }
  show(answer) {
    const root = document.documentElement;
    if (answer.error) { $("error").textContent = answer.error; root.dataset.state = "error"; return; }
    this.share(answer);
    $("words").replaceChildren(...answer.words.map((words) => make("p", {}, words)));
    $("facts").replaceChildren(...answer.facts.map((fact) => make("div", {}, make("dt", {}, fact.name), make("dd", {}, fact.value, make("small", {}, fact.of)))));
    $("facts").hidden = !answer.facts.length;
    answer.charts.forEach((chart, n) => {
      if (this.pictures[n]) this.pictures[n].set(chart);
      else { this.pictures[n] = new Picture(chart); $("charts").append(this.pictures[n].node); }
    });
    for (const gone of this.pictures.splice(answer.charts.length)) gone.node.remove();
    $("tables").replaceChildren(...answer.tables.filter((table) => table.rows.length).map((table) => {
      const long = table.columns.map((_, n) => table.rows.some((row) => row[n].length > 28));
      const cell = (tag) => (words, n) => make(tag, { className: long[n] ? "text" : "" }, words);
      return make("div", {}, make("h2", {}, table.title), make("div", { className: "scroll", tabIndex: 0 }, make("table", {},
        make("thead", {}, make("tr", {}, ...table.columns.map(cell("th")))),
        make("tbody", {}, ...table.rows.map((row, n) => make("tr", { className: n === table.chosen ? "chosen" : "" }, ...row.map(cell("td"))))))));
    }));
    root.dataset.state = "ready";
    root.dataset.shown = 1 + (+root.dataset.shown || 0);
  }
  copy(field) {
    field.select();
    const done = navigator.clipboard ? navigator.clipboard.writeText(field.value) : Promise.reject();
    done.catch(() => document.execCommand("copy"));
  }
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* a browser that keeps nothing */ }
  const apply = () => {
    const mode = chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light";
    document.documentElement.classList.toggle("dark", mode === "dark");
    document.documentElement.classList.toggle("light", mode === "light");
    dispatchEvent(new Event("theme"));
  };
  dark.addEventListener("change", apply);
  $("theme").addEventListener("click", () => {
    chosen = document.documentElement.classList.contains("dark") ? "light" : "dark";
    try { localStorage.setItem("theme", chosen); } catch { /* as above */ }
    apply();
  });
  apply();
}

async function boot() {
  theme();
  const began = performance.now();
  try {
    const packed = Uint8Array.from(atob(globalThis.OPPLAB_WASM), (letter) => letter.charCodeAt(0));
    globalThis.OPPLAB_WASM = null;
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    const lab = new Lab(module, document.body.dataset.page);
    addEventListener("theme", () => lab.pictures.forEach((picture) => picture.draw()));
    globalThis.lab = lab;
  } catch (error) {
    $("error").textContent = "This page needs WebAssembly and a browser of 2023 or later: " + error.message;
    document.documentElement.dataset.state = "error";
  }
  document.documentElement.dataset.boot = Math.round(performance.now() - began);
  document.documentElement.dataset.first = Math.round(performance.now());
}
boot();
