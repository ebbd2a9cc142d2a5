"use strict";
(function () {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  // Ten colours of the style sheet and six symbols, so that groups differ without colour vision too.
  const N_COLOURS = 10;
  const SYMBOLS = {
    disk: "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0 -1 0Z",
    triangle: "M0 -1.2L1.1 0.8L-1.1 0.8Z",
    square: "M-0.9 -0.9H0.9V0.9H-0.9Z",
    diamond: "M0 -1.3L1.3 0L0 1.3L-1.3 0Z",
    cross: "M-0.4 -1.2H0.4V-0.4H1.2V0.4H0.4V1.2H-0.4V0.4H-1.2V-0.4H-0.4Z",
    star: "M0 -1.4L0.4 -0.4L1.4 0L0.4 0.4L0 1.4L-0.4 0.4L-1.4 0L-0.4 -0.4Z",
  };
  const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const MISSING = 255, MOST_LISTED = 200, NEAR = 24;
  const FONT = 12;

  // ------------------------------------------------------------------------------------------------ elements

  // Text enters the page by textContent alone: names cannot write HTML.
  function element(name, text, attributes) {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    return Object.assign(node, attributes);
  }

  function shape(name, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes || {})) {
      // Colours are names of the style sheet or codes; light and dark pages differ.
      if (key === "fill" || key === "stroke") node.style[key] = /^[a-z0-9]+$/.test(value) && value !== "none" ? `var(--${value})` : value;
      else if (value !== undefined) node.setAttribute(key, value);
    }
    if (text !== undefined) node.textContent = text;
    return node;
  }

  const brush = document.createElement("canvas").getContext("2d");
  function widthOf(text, size = FONT) {
    brush.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    return brush.measureText(text).width;
  }

  function cut(text, room) {
    let shown = text;
    while (shown.length > 1 && widthOf(shown) > room) shown = shown.slice(0, -2).trimEnd() + "…";
    return shown;
  }

  const tip = element("div", undefined, { id: "tip", hidden: true });
  document.body.append(tip);
  function showTip(text, event) {
    tip.textContent = text;
    tip.hidden = false;
    const right = event.clientX + 14 + tip.offsetWidth < document.documentElement.clientWidth;
    tip.style.left = Math.max(0, window.scrollX + event.clientX + (right ? 14 : -14 - tip.offsetWidth)) + "px";
    tip.style.top = window.scrollY + event.clientY + 12 + "px";
  }

  // ---------------------------------------------------------------------------------------------------- axes

  function extent(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) if (value !== null && isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return low <= high ? [low, high] : [0, 1];
  }

  function widened([low, high], share) {
    const room = (high - low) * share || Math.abs(high) * share || 1;
    return [low - room, high + room];
  }

  // Round numbers, and as many decimals as tell them apart.
  function roundTicks([low, high], most, least = 0) {
    const raw = Math.max((high - low) / Math.max(most, 3), least), power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) * power;
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
      found.push([k * step, decimals > 8 ? (k * step).toExponential(2) : minus((k * step).toFixed(decimals))]);
    }
    return found;
  }

  function logTicks([low, high]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const factor of [1, 2, 5]) {
        const value = factor * 10 ** power;
        if (value >= low && value <= high) found.push([value, String(Number(value.toPrecision(3)))]);
      }
    }
    return found.length > 8 ? found.filter((_, i) => i % 3 === 0) : found;
  }

  function minus(text) {
    return text.replace("-", "−");
  }

  function number(value) {
    return typeof value === "number" ? String(Number(value.toPrecision(4))) : value;
  }

  // A frame with two axes; `at` maps values to pixels.
  function Plane(place, x, y, height) {
    const width = Math.max(place.clientWidth, 200);
    const ticksOf = (axis, most) => axis.ticks ? axis.ticks.map((value, i) => [value, axis.labels ? axis.labels[i] : String(value)])
      : axis.log ? logTicks(axis.range) : roundTicks(axis.range, most, axis.whole ? 1 : 0);
    const yTicks = ticksOf(y, height / 45).map(([value, text]) => [value, cut(text, 0.42 * width)]);
    const wide = Math.max(0, ...yTicks.map(([, text]) => widthOf(text)));
    const box = { left: wide + (y.title ? 34 : 14), right: width - 14, top: 10, bottom: height - (x.title ? 46 : 28) };
    let xTicks = ticksOf(x, (box.right - box.left) / 60);
    const most = Math.max(0, ...xTicks.map(([, text]) => widthOf(text))) + 8;
    const every = Math.ceil((xTicks.length * most) / (box.right - box.left));
    xTicks = xTicks.filter((_, i) => i % every === 0);
    const scale = (axis, start, end) => {
      const form = axis.log ? Math.log : (value) => value, [low, high] = axis.range.map(form);
      return (value) => start + ((form(value) - low) / (high - low)) * (end - start);
    };
    const at = { x: scale(x, box.left, box.right), y: scale(y, box.bottom, box.top) };
    const root = shape("svg", { viewBox: `0 0 ${width} ${height}`, "font-size": FONT });
    for (const [value, text] of yTicks) {
      if (!y.labels) root.append(shape("line", { x1: box.left, x2: box.right, y1: at.y(value), y2: at.y(value), stroke: "grid" }));
      root.append(shape("text", { x: box.left - 7, y: at.y(value) + 4, "text-anchor": "end", fill: "ink" }, text));
    }
    for (const [value, text] of xTicks) {
      root.append(shape("line", { x1: at.x(value), x2: at.x(value), y1: box.top, y2: box.bottom, stroke: "grid" }));
      root.append(shape("text", { x: at.x(value), y: box.bottom + 17, "text-anchor": "middle", fill: "ink" }, text));
    }
    for (const [axis, name] of [[x, "x"], [y, "y"]]) {
      if (!axis.zero || axis.range[0] > 0 || axis.range[1] < 0) continue;
      const ends = name === "x" ? { x1: at.x(0), x2: at.x(0), y1: box.top, y2: box.bottom } : { x1: box.left, x2: box.right, y1: at.y(0), y2: at.y(0) };
      root.append(shape("line", { ...ends, stroke: "line", "stroke-width": 1.5 }));
    }
    const middle = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    if (x.title) root.append(shape("text", { class: "xtitle", x: middle[0], y: height - 8, "text-anchor": "middle", fill: "muted" }, cut(x.title, width - 20)));
    if (y.title) root.append(shape("text", { class: "ytitle", transform: `translate(13 ${middle[1]}) rotate(-90)`, "text-anchor": "middle", fill: "muted" }, cut(y.title, height - 30)));
    place.replaceChildren(root);
    return { root, at, box, width, height };
  }

  // ------------------------------------------------------------------------------------------------- figures

  function domain(figure, name) {
    const axis = Object.assign({}, figure[name]);
    if (axis.range) return axis;
    const values = figure.marks.flatMap((mark) => {
      const own = mark[name], bars = mark.kind === "bars" && (name === "x") === Boolean(mark.across);
      const error = mark.error && (name === "x") === Boolean(mark.across) ? mark.error : null;
      const ends = error ? own.flatMap((value, i) => [value - error[i], value + error[i]]) : own;
      return bars ? [0, ...ends] : ends;
    });
    const [low, high] = extent(values);
    axis.range = axis.log ? [low / 1.1, high * 1.1] : widened([low, high], 0.06);
    if (low === 0) axis.range[0] = 0;
    if (high === 0) axis.range[1] = 0;
    return axis;
  }

  const DRAW = {
    bars(plane, mark, targets) {
      const { at } = plane, half = 0.5 * (mark.width || 0.8);
      mark.x.forEach((value, i) => {
        const across = mark.across;
        const [start, end] = across ? [at.x(0), at.x(value)] : [at.y(0), at.y(mark.y[i])];
        const [low, high] = across ? [at.y(mark.y[i] + half), at.y(mark.y[i] - half)] : [at.x(value - half), at.x(value + half)];
        const from = Math.min(start, end), size = Math.abs(end - start);
        const box = across ? { x: from, y: low, width: size, height: high - low } : { x: low, y: from, width: high - low, height: size };
        const fill = Array.isArray(mark.color) ? mark.color[i] : mark.color;
        plane.root.append(shape("rect", { ...box, fill }));
        if (mark.error) {
          const ends = { x1: at.x(value - mark.error[i]), x2: at.x(value + mark.error[i]), y1: at.y(mark.y[i]), y2: at.y(mark.y[i]) };
          plane.root.append(shape("line", { ...ends, stroke: "ink", "stroke-width": 1.2 }));
        }
        // The whole row or column of a bar reacts: short ones are hard to hit.
        const room = plane.box;
        targets.push(across ? { box: [room.left, low, room.right, high], text: mark.texts[i] } : { box: [low, room.top, high, room.bottom], text: mark.texts[i] });
      });
    },
    line(plane, mark, targets) {
      const points = mark.x.map((value, i) => [plane.at.x(value), plane.at.y(mark.y[i])]);
      const look = { fill: "none", stroke: mark.color, "stroke-width": mark.dash ? 1.2 : 2, "stroke-dasharray": mark.dash ? "5 4" : undefined };
      plane.root.append(shape("path", { d: "M" + points.map((point) => point.join(" ")).join("L"), ...look }));
      if (mark.dots) for (const [x, y] of points) plane.root.append(shape("circle", { cx: x, cy: y, r: 3, fill: mark.color }));
      if (mark.texts) points.forEach(([x, y], i) => targets.push({ x, y, text: mark.texts[i] }));
    },
    dots(plane, mark, targets) {
      mark.x.forEach((value, i) => {
        const [x, y] = [plane.at.x(value), plane.at.y(mark.y[i])];
        if (mark.error) {
          const low = plane.at.y(Math.max(mark.y[i] - mark.error[i], mark.least ?? -Infinity));
          plane.root.append(shape("line", { x1: x, x2: x, y1: low, y2: plane.at.y(mark.y[i] + mark.error[i]), stroke: mark.color, "stroke-width": 1.2 }));
        }
        plane.root.append(shape("path", { d: SYMBOLS[mark.symbol || "disk"], transform: `translate(${x} ${y}) scale(${mark.size || 3.5})`, fill: mark.color }));
        if (mark.label) plane.root.append(shape("text", { x, y: Math.min(y + 22, plane.box.bottom - 4), "text-anchor": "middle", fill: "ink", class: "halo" }, mark.label));
        targets.push({ x, y, text: mark.texts[i] });
      });
    },
  };

  // The target under the pointer: the box that holds it, or the nearest point.
  function targetAt(targets, x, y) {
    let best = null, least = NEAR;
    for (const target of targets) {
      if (target.box) {
        const [left, top, right, bottom] = target.box;
        if (!best && x >= left && x <= right && y >= top && y <= bottom) best = target;
      } else {
        const apart = Math.hypot(target.x - x, target.y - y);
        if (apart < least) [best, least] = [target, apart];
      }
    }
    return best;
  }

  function pointerIn(plane, event) {
    const box = plane.root.getBoundingClientRect();
    return [((event.clientX - box.left) * plane.width) / box.width, ((event.clientY - box.top) * plane.height) / box.height];
  }

  function drawFigure(place) {
    const figure = report.figures[place.dataset.figure], targets = [];
    const plane = Plane(place, domain(figure, "x"), domain(figure, "y"), figure.height || 300);
    for (const mark of figure.marks) DRAW[mark.kind](plane, mark, targets);
    const named = figure.marks.filter((mark) => mark.name);
    if (named.length > 1) {
      const legend = element("div", undefined, { className: "legend" });
      named.forEach((mark) => legend.append(legendEntry(mark.name, mark.color, "square")));
      place.prepend(legend);
    }
    plane.root.addEventListener("pointermove", (event) => {
      const target = targetAt(targets, ...pointerIn(plane, event));
      if (target) showTip(target.text, event);
      else tip.hidden = true;
    });
    plane.root.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  function legendEntry(text, color, symbol) {
    const entry = element("span", undefined, { className: "entry" });
    const mark = shape("svg", { viewBox: "-1.5 -1.5 3 3", class: "mark" });
    mark.append(shape("path", { d: SYMBOLS[symbol] || SYMBOLS.disk, fill: symbol === "open" ? "none" : color, stroke: color, "stroke-width": symbol === "open" ? 0.4 : 0 }));
    entry.append(mark, element("span", text));
    return entry;
  }

  // --------------------------------------------------------------------------------------------------- scores

  function bytes(text) {
    const raw = atob(text);
    return Uint8Array.from({ length: raw.length }, (_, i) => raw.charCodeAt(i));
  }

  function decode(packed) {
    const view = new DataView(bytes(packed.codes).buffer);
    return Float64Array.from({ length: view.byteLength / 2 }, (_, i) => packed.low + packed.step * view.getUint16(2 * i, true));
  }

  function gradient(share) {
    const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1), i = Math.min(Math.floor(place), VIRIDIS.length - 2);
    const parts = [VIRIDIS[i], VIRIDIS[i + 1]].map((code) => [1, 3, 5].map((start) => parseInt(code.slice(start, start + 2), 16)));
    return `rgb(${parts[0].map((low, k) => Math.round(low + (place - i) * (parts[1][k] - low))).join(",")})`;
  }

  function isInside([x, y], polygon) {
    let inside = false;
    polygon.forEach(([ax, ay], i) => {
      const [bx, by] = polygon[(i + 1) % polygon.length];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
    });
    return inside;
  }

  function Scores(rows) {
    const byId = (id) => document.getElementById(id);
    const place = byId("scores-plot"), list = byId("selected"), legend = byId("legend");
    const count = rows.names.length, every = Array.from({ length: count }, (_, i) => i);
    const axes = rows.axes.map((title, k) => ({ title, values: decode(rows.scores[k]), std: rows.std ? decode(rows.std[k]) : null }));
    axes.push({ title: "row number", values: Float64Array.from(rows.numbers), std: null });
    const columns = rows.columns.map((column) => Object.assign({}, column, { codes: bytes(column.codes) }));
    let selected = null, view = null, plane = null, lasso = null;

    const isOn = (id) => byId(id) !== null && byId(id).checked;
    const current = () => ({ x: axes[byId("axis-x").value], y: axes[byId("axis-y").value], colour: columns[byId("colour").value] });
    const level = (column, i) => (column.codes[i] === MISSING ? null : column.levels[column.codes[i]]);

    function valueText(column, i) {
      const value = level(column, i);
      return value === null ? "missing" : (column.exact ? "" : "≈ ") + number(value);
    }

    function hoverText(i) {
      const { x, y, colour } = current();
      const line = (part) => `${part.title}: ${number(part.values[i])}${part.std ? " ± " + part.std[i].toPrecision(2) : ""}`;
      return [rows.names[i], line(x), line(y), ...(colour ? [`${colour.name}: ${valueText(colour, i)}`] : [])].join("\n");
    }

    // A few extreme values must not take the whole scale.
    function limits(values) {
      const sorted = values.slice().sort((a, b) => a - b), at = (share) => sorted[Math.round(share * (sorted.length - 1))];
      return at(0.01) < at(0.99) ? [at(0.01), at(0.99)] : [sorted[0], sorted[sorted.length - 1]];
    }

    // Colour and symbol of each row, and the legend.
    function looks(colour) {
      legend.replaceChildren();
      if (!colour) return () => ["accent", "disk"];
      const add = (text, color, symbol, mine) => {
        const entry = legendEntry(text, color, symbol);
        entry.addEventListener("click", () => { select(every.filter(mine)); draw(); });
        legend.append(entry);
      };
      const addMissing = () => colour.codes.some((code) => code === MISSING) && add("missing", "muted", "open", (i) => colour.codes[i] === MISSING);
      if (colour.kind === "category") {
        const names = Object.keys(SYMBOLS);
        const look = (code) => [`c${(code % N_COLOURS) + 1}`, names[(code + Math.floor(code / N_COLOURS)) % names.length]];
        colour.levels.forEach((text, code) => add(text, ...look(code), (i) => colour.codes[i] === code));
        addMissing();
        return (i) => (colour.codes[i] === MISSING ? ["muted", "open"] : look(colour.codes[i]));
      }
      const values = every.map((i) => level(colour, i)), [low, high] = limits(values.filter((value) => value !== null));
      const bar = element("span", undefined, { className: "colorbar" });
      bar.style.background = `linear-gradient(to right, ${VIRIDIS.join(",")})`;
      legend.append(element("span", `${colour.name}: ${number(low)}`), bar, element("span", number(high)));
      addMissing();
      return (i) => (values[i] === null ? ["muted", "open"] : [gradient((values[i] - low) / (high - low || 1)), "disk"]);
    }

    function drawArrows() {
      const at = [Number(byId("axis-x").value), Number(byId("axis-y").value)], most = 10, reach = 0.8;
      if (!isOn("show-arrows") || at.some((k) => k >= rows.arrows.values.length)) return;
      const [u, v] = at.map((k) => rows.arrows.values[k]);
      const order = u.map((_, j) => j).filter((j) => u[j] || v[j]).sort((a, b) => Math.hypot(u[b], v[b]) - Math.hypot(u[a], v[a]));
      const chosen = order.slice(0, most), widest = (values) => values.reduce((top, value) => Math.max(top, Math.abs(value)), 0);
      const fits = [[u, at[0]], [v, at[1]]].map(([part, k]) => [widest(chosen.map((j) => part[j])), widest(axes[k].values)]);
      // One factor for all arrows, so that they fill the plane.
      const stretch = reach * Math.min(...fits.filter((pair) => pair[0] && pair[1]).map(([length, room]) => room / length));
      if (!isFinite(stretch)) return;
      const layer = shape("g", { class: "arrows", "clip-path": "url(#scores-clip)" }), boxes = [];
      plane.root.append(layer);
      const start = [plane.at.x(0), plane.at.y(0)];
      for (const j of chosen) {
        const end = [plane.at.x(u[j] * stretch), plane.at.y(v[j] * stretch)], turn = Math.atan2(end[1] - start[1], end[0] - start[0]);
        const barb = (side) => `L${end[0] - 8 * Math.cos(turn + side)} ${end[1] - 8 * Math.sin(turn + side)}`;
        layer.append(shape("path", { d: `M${start.join(" ")}L${end.join(" ")}${barb(0.4)}M${end.join(" ")}${barb(-0.4)}`, fill: "none", stroke: "ink", "stroke-width": 1.2 }));
        const text = cut(rows.arrows.names[j], 0.35 * plane.width), half = widthOf(text) / 2 + 2;
        const middle = Math.min(Math.max(end[0] + (u[j] < 0 ? -half : half), plane.box.left + half), plane.box.right - half);
        // Names of near arrows move apart; without room within three lines a name is left out.
        const free = [0, 1, -1, 2, -2, 3, -3].map((k) => end[1] + (v[j] < 0 ? 13 : -5) + 13 * k).find((y) =>
          y > plane.box.top + 8 && y < plane.box.bottom && boxes.every(([x, other, wide]) => Math.abs(x - middle) > wide + half || Math.abs(other - y) > 12));
        if (free === undefined) continue;
        boxes.push([middle, free, half]);
        layer.append(shape("text", { x: middle, y: free, "text-anchor": "middle", fill: "ink", class: "halo" }, text));
      }
    }

    function draw() {
      const { x, y, colour } = current(), look = looks(colour), chosen = selected && new Set(selected);
      const full = [x, y].map((part) => widened(extent(part.values), 0.06));
      if (!view || view.of !== x.title + y.title) view = { of: x.title + y.title, ranges: full };
      const [xRange, yRange] = view.ranges;
      plane = Plane(place, { title: x.title, range: xRange, zero: true }, { title: y.title, range: yRange, zero: true }, Math.min(580, Math.max(340, place.clientWidth * 0.85)));
      const { at, box, root } = plane, clip = shape("clipPath", { id: "scores-clip" });
      clip.append(shape("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }));
      const points = shape("g", { class: "points", "clip-path": "url(#scores-clip)" });
      if (isOn("show-std")) {
        const bars = every.map((i) => (x.std ? `M${at.x(x.values[i] - x.std[i])} ${at.y(y.values[i])}H${at.x(x.values[i] + x.std[i])}` : "") +
          (y.std ? `M${at.x(x.values[i])} ${at.y(y.values[i] - y.std[i])}V${at.y(y.values[i] + y.std[i])}` : ""));
        root.append(shape("path", { class: "bars", d: bars.join(""), fill: "none", stroke: "muted", "stroke-width": 0.6, "clip-path": "url(#scores-clip)" }));
      }
      const size = count > 1500 ? 2.4 : 3.5;
      for (const i of every) {
        const [color, symbol] = look(i);
        points.append(shape("path", {
          d: SYMBOLS[symbol] || SYMBOLS.disk, transform: `translate(${at.x(x.values[i])} ${at.y(y.values[i])}) scale(${size})`,
          fill: symbol === "open" ? "none" : color, stroke: color, "stroke-width": symbol === "open" ? 0.35 : 0,
          opacity: chosen && !chosen.has(i) ? 0.15 : 0.85, "data-row": i,
        }));
      }
      root.append(clip, points);
      drawArrows();
      lasso = shape("path", { fill: "none", stroke: "ink", "stroke-dasharray": "4 3" });
      root.append(lasso);
      listen(x, y);
    }

    function listen(x, y) {
      const { root, at } = plane;
      const targets = every.map((i) => ({ x: at.x(x.values[i]), y: at.y(y.values[i]), text: i }));
      let path = null, grabbed = null;
      root.addEventListener("pointerdown", (event) => {
        // A finger scrolls the page and shows names; lines are drawn with a mouse or a pen.
        if (event.pointerType === "touch" || event.button !== 0) return;
        tip.hidden = true;
        if (byId("drag").value === "move") grabbed = pointerIn(plane, event);
        else path = [pointerIn(plane, event)];
        root.setPointerCapture(event.pointerId);
        event.preventDefault();
      });
      root.addEventListener("pointermove", (event) => {
        const here = pointerIn(plane, event);
        if (path) {
          path.push(here);
          lasso.setAttribute("d", "M" + path.map((point) => point.join(" ")).join("L") + "Z");
        } else if (!grabbed) {
          const target = targetAt(targets, ...here);
          if (target) showTip(hoverText(target.text), event);
          else tip.hidden = true;
        }
      });
      root.addEventListener("pointerup", (event) => {
        if (grabbed) {
          const here = pointerIn(plane, event), { box } = plane;
          const moves = [(grabbed[0] - here[0]) / (box.right - box.left), (here[1] - grabbed[1]) / (box.bottom - box.top)];
          view.ranges = view.ranges.map(([low, high], k) => [low + moves[k] * (high - low), high + moves[k] * (high - low)]);
          draw();
        } else if (path && path.length > 3) {
          select(every.filter((i) => isInside([targets[i].x, targets[i].y], path)));
          draw();
        }
        path = grabbed = null;
      });
      root.addEventListener("pointerleave", () => { tip.hidden = true; });
      root.addEventListener("dblclick", () => { select(null); draw(); });
    }

    function zoom(factor) {
      view.ranges = view.ranges.map(([low, high]) => widened([low, high], (factor - 1) / 2));
      draw();
    }

    // The picture as a file of its own: its colours no longer depend on the style sheet.
    function save() {
      const copy = plane.root.cloneNode(true), style = getComputedStyle(document.documentElement);
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      copy.setAttribute("font-family", "sans-serif");
      copy.style.background = style.getPropertyValue("--paper");
      for (const node of copy.querySelectorAll("*")) {
        for (const key of ["fill", "stroke"]) {
          const name = /var\((--\w+)\)/.exec(node.style[key]);
          if (name) node.style[key] = style.getPropertyValue(name[1]);
        }
      }
      const link = element("a", undefined, { download: "rows.svg", href: URL.createObjectURL(new Blob([copy.outerHTML], { type: "image/svg+xml" })) });
      link.click();
      URL.revokeObjectURL(link.href);
    }

    function select(index) {
      selected = index;
      list.replaceChildren();
      if (!selected) {
        list.append(element("p", "No rows selected."));
        return;
      }
      const { x, y, colour } = current(), table = element("table"), box = element("div", undefined, { className: "table" });
      const fill = (row, cells, name) => cells.forEach((text, k) => row.append(element(name, text, { className: k === 1 || k === 2 ? "number" : "" })));
      fill(table.createTHead().insertRow(), ["row", x.title, y.title, ...(colour ? [colour.name] : [])], "th");
      const body = table.createTBody();
      for (const i of selected.slice(0, MOST_LISTED)) {
        fill(body.insertRow(), [rows.names[i], number(x.values[i]), number(y.values[i]), ...(colour ? [valueText(colour, i)] : [])], "td");
      }
      const more = selected.length > MOST_LISTED ? `; the first ${MOST_LISTED} are listed` : "";
      box.append(table);
      list.append(element("p", `${selected.length} ${selected.length === 1 ? "row" : "rows"} selected${more}.`), box);
    }

    function fillMenu(menu, entries) {
      const groups = new Map([[undefined, menu]]);
      for (const [value, text, group] of entries) {
        if (!groups.has(group)) {
          groups.set(group, element("optgroup", undefined, { label: group }));
          menu.append(groups.get(group));
        }
        groups.get(group).append(element("option", text, { value }));
      }
    }

    for (const id of ["axis-x", "axis-y"]) fillMenu(byId(id), axes.map((part, k) => [String(k), part.title]));
    byId("axis-y").value = "1";
    fillMenu(byId("colour"), [["", "none"], ...columns.map((column, k) => [String(k), column.name, column.group])]);
    if (columns.length && columns[0].group === "metadata") byId("colour").value = "0";
    for (const id of ["axis-x", "axis-y", "colour", "show-std", "show-arrows"]) {
      if (byId(id)) byId(id).addEventListener("change", () => { draw(); select(selected); });
    }
    byId("find").addEventListener("input", () => {
      const part = byId("find").value.trim().toLowerCase();
      select(part ? every.filter((i) => rows.names[i].toLowerCase().includes(part)) : null);
      draw();
    });
    const actions = { "zoom-in": () => zoom(0.6), "zoom-out": () => zoom(1 / 0.6), reset: () => { view = null; draw(); }, save };
    for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
    select(null);
    return draw;
  }

  const drawScores = report.rows ? Scores(report.rows) : null;
  // Pictures are drawn for the width they have, anew when it changes.
  const widths = new Map();
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (widths.get(target) === target.clientWidth) continue;
      widths.set(target, target.clientWidth);
      if (target.dataset.figure) drawFigure(target);
      else drawScores();
    }
  });
  for (const place of document.querySelectorAll(".plot")) observer.observe(place);
})();
