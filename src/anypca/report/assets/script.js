"use strict";
(function () {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  // Ten colours, those of Okabe and Ito first, and several symbols: groups are told apart without colour vision too.
  const PALETTE = ["@c1", "@c2", "@c3", "@c4", "@c5", "@c6", "@c7", "@c8", "@c9", "@c10"];
  const SYMBOLS = ["circle", "triangle-up", "square", "diamond", "cross", "x"];
  const MISSING = 255;
  const MOST_LISTED = 200;
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    // A list of what there is, not of what is removed: newer versions of plotly offer to upload the chart.
    modeBarButtons: [["toImage"], ["lasso2d", "select2d", "zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    plotlyServerURL: "",
  };
  const QUIET = { responsive: true, displayModeBar: false };

  function variable(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // "@accent" and its like stand for the colours of the style sheet.
  // Only under keys of colours: a column may have such a name.
  function coloured(value, key) {
    if (typeof value === "string") return /color$/.test(key) && /^@[a-z0-9]+$/.test(value) ? variable(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map((part) => coloured(part, key));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, coloured(part, name)]));
  }

  function axis(given) {
    return Object.assign(
      { gridcolor: "@grid", linecolor: "@line", zerolinecolor: "@line", zeroline: false, ticks: "" },
      given,
      { title: Object.assign({ standoff: 12, font: { size: 13 } }, given.title) }
    );
  }

  function dressed(layout) {
    return coloured(Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: "@ink" },
      margin: { l: 56, r: 16, t: 24, b: 48 },
      hoverlabel: {
        bgcolor: "@panel", bordercolor: "@line", align: "left",
        font: { color: "@ink", family: getComputedStyle(document.body).fontFamily },
      },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      hovermode: "closest",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "@muted", activecolor: "@accent" },
    }, layout, { xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis) }));
  }

  function drawFigures() {
    for (const place of document.querySelectorAll("[data-figure]")) {
      const figure = report.figures[place.dataset.figure];
      place.style.height = figure.layout.height + "px";
      Plotly.react(place, coloured(figure.data), dressed(figure.layout), QUIET);
    }
  }

  function bytes(text) {
    const raw = atob(text);
    return Uint8Array.from({ length: raw.length }, (_, i) => raw.charCodeAt(i));
  }

  function decode(packed) {
    const view = new DataView(bytes(packed.codes).buffer);
    return Float64Array.from({ length: view.byteLength / 2 }, (_, i) =>
      packed.low + packed.step * view.getUint16(2 * i, true));
  }

  // Plotly reads some HTML in its texts: names must not be able to write any.
  function plain(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function shown(value) {
    return typeof value === "number" ? String(Number(value.toPrecision(4))) : value;
  }

  function element(name, text) {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function Scores(rows) {
    const place = document.getElementById("scores-plot");
    const list = document.getElementById("selected");
    const input = Object.fromEntries(["axis-x", "axis-y", "colour", "find", "show-std", "show-arrows"].map(
      (id) => [id, document.getElementById(id)]));
    const count = rows.names.length;
    const every = Array.from({ length: count }, (_, i) => i);
    const axes = rows.axes.map((title, k) => ({
      title, values: decode(rows.scores[k]), std: rows.std ? decode(rows.std[k]) : null }));
    axes.push({ title: "row number", values: Float64Array.from(rows.numbers), std: null });
    const columns = rows.columns.map((column) => Object.assign({}, column, { codes: bytes(column.codes) }));
    let selected = null;

    function current() {
      return { x: axes[input["axis-x"].value], y: axes[input["axis-y"].value], colour: columns[input.colour.value] };
    }

    function level(column, i) {
      const code = column.codes[i];
      return code === MISSING ? null : column.levels[code];
    }

    function told(column, i) {
      const value = level(column, i);
      if (value === null) return "missing";
      return (column.exact ? "" : "≈ ") + shown(value);
    }

    function line(part, i) {
      const error = part.std ? " ± " + part.std[i].toPrecision(2) : "";
      return plain(part.title) + ": " + shown(part.values[i]) + error;
    }

    function hover(i) {
      const { x, y, colour } = current();
      const lines = ["<b>" + plain(rows.names[i]) + "</b>", line(x, i), line(y, i)];
      if (colour) lines.push(plain(colour.name) + ": " + plain(told(colour, i)));
      return lines.join("<br>");
    }

    function trace(index, marker, more) {
      const { x, y } = current();
      const base = {
        type: "scatter", mode: "markers",
        x: index.map((i) => x.values[i]), y: index.map((i) => y.values[i]),
        text: index.map(hover), hoverinfo: "text", customdata: index,
        marker: Object.assign({ size: count > 1500 ? 5 : 7, opacity: 0.85, line: { width: 0 } }, marker),
        selected: { marker: { opacity: 1 } }, unselected: { marker: { opacity: 0.15 } },
      };
      if (input["show-std"] && input["show-std"].checked) {
        for (const [key, part] of [["error_x", x], ["error_y", y]]) {
          if (part.std) base[key] = { type: "data", array: index.map((i) => part.std[i]), thickness: 0.7, width: 0, color: "@muted" };
        }
      }
      if (selected) {
        const chosen = new Set(selected);
        base.selectedpoints = index.flatMap((i, at) => (chosen.has(i) ? [at] : []));
      }
      return Object.assign(base, more);
    }

    function grouped(column) {
      const members = column.levels.map(() => []);
      const missing = [];
      for (const i of every) (column.codes[i] === MISSING ? missing : members[column.codes[i]]).push(i);
      const traces = members.map((index, code) => trace(index, {
        color: PALETTE[code % PALETTE.length],
        symbol: SYMBOLS[(code + Math.floor(code / PALETTE.length)) % SYMBOLS.length],
      }, { name: plain(column.levels[code]), showlegend: true }));
      if (missing.length) traces.push(trace(missing, { color: "@muted", symbol: "circle-open" }, { name: "missing", showlegend: true }));
      return traces;
    }

    // A few extreme values must not take the whole scale.
    function limits(values) {
      const sorted = values.slice().sort((a, b) => a - b);
      const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
      return at(0.01) < at(0.99) ? [at(0.01), at(0.99)] : [sorted[0], sorted[sorted.length - 1]];
    }

    function graded(column) {
      const known = every.filter((i) => column.codes[i] !== MISSING);
      const missing = every.filter((i) => column.codes[i] === MISSING);
      const values = known.map((i) => level(column, i));
      const [low, high] = limits(values);
      const bar = { thickness: 12, outlinewidth: 0, len: 0.8, title: { text: plain(column.name), side: "right" } };
      const traces = [trace(known, { color: values, colorscale: "Viridis", cmin: low, cmax: high, showscale: true, colorbar: bar })];
      if (missing.length) traces.push(trace(missing, { color: "@muted", symbol: "circle-open" }, { name: "missing", showlegend: true }));
      return traces;
    }

    // The strongest columns in the plane, stretched by one factor to fill it.
    const MOST_ARROWS = 10, REACH = 0.8;
    function arrows() {
      const box = input["show-arrows"], at = [Number(input["axis-x"].value), Number(input["axis-y"].value)];
      if (!box || !box.checked || at.some((k) => k >= rows.arrows.values.length)) return [];
      const [u, v] = at.map((k) => rows.arrows.values[k]);
      const order = u.map((_, j) => j).filter((j) => u[j] || v[j]);
      order.sort((a, b) => Math.hypot(u[b], v[b]) - Math.hypot(u[a], v[a]));
      const chosen = order.slice(0, MOST_ARROWS);
      const widest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const fits = [[u, at[0]], [v, at[1]]].flatMap(([part, k]) => {
        const length = widest(chosen.map((j) => part[j])), room = widest(axes[k].values);
        return length && room ? [room / length] : [];
      });
      const stretch = REACH * Math.min(...fits, Infinity);
      if (!isFinite(stretch)) return [];
      return chosen.map((j) => ({
        x: u[j] * stretch, y: v[j] * stretch, ax: 0, ay: 0, xref: "x", yref: "y", axref: "x", ayref: "y",
        text: "", showarrow: true, arrowhead: 2, arrowsize: 1, arrowwidth: 1.3, arrowcolor: "@ink", opacity: 0.75,
      })).concat(chosen.map((j) => ({
        x: u[j] * stretch, y: v[j] * stretch, xref: "x", yref: "y", showarrow: false, text: plain(rows.arrows.names[j]),
        xanchor: u[j] < 0 ? "right" : "left", yanchor: v[j] < 0 ? "top" : "bottom",
        font: { size: 11, color: "@ink" }, bgcolor: "@veil", borderpad: 1,
      })));
    }

    function draw() {
      const { x, y, colour } = current();
      const traces = !colour ? [trace(every, { color: "@accent" })] : colour.kind === "category" ? grouped(colour) : graded(colour);
      const layout = dressed({
        xaxis: { title: { text: plain(x.title) }, zeroline: true }, yaxis: { title: { text: plain(y.title) }, zeroline: true },
        dragmode: "lasso", showlegend: traces.some((one) => one.showlegend),
        legend: { orientation: "v", x: 1.01, y: 1, itemsizing: "constant" },
        margin: { l: 60, r: 20, t: 36, b: 52 }, annotations: arrows(),
        uirevision: [input["axis-x"].value, input["axis-y"].value].join(),
      });
      return Plotly.react(place, coloured(traces), layout, CONFIG);
    }

    function listSelected() {
      list.replaceChildren();
      if (!selected) {
        list.append(element("p", "No rows selected."));
        return;
      }
      const { x, y, colour } = current();
      const heads = ["row", x.title, y.title].concat(colour ? [colour.name] : []);
      const table = element("table");
      const head = table.createTHead().insertRow();
      for (const text of heads) head.append(element("th", text));
      const body = table.createTBody();
      for (const i of selected.slice(0, MOST_LISTED)) {
        const cells = [rows.names[i], shown(x.values[i]), shown(y.values[i])].concat(colour ? [told(colour, i)] : []);
        const row = body.insertRow();
        cells.forEach((text, at) => {
          const cell = row.insertCell();
          cell.textContent = text;
          if (at === 1 || at === 2) cell.className = "number";
        });
      }
      for (const at of [1, 2]) head.cells[at].className = "number";
      const more = selected.length > MOST_LISTED ? "; the first " + MOST_LISTED + " are listed" : "";
      const box = element("div");
      box.className = "table";
      box.append(table);
      list.append(element("p", selected.length + (selected.length === 1 ? " row" : " rows") + " selected" + more + "."), box);
    }

    function select(index) {
      selected = index;
      listSelected();
    }

    function find() {
      const part = input.find.value.trim().toLowerCase();
      select(part ? every.filter((i) => rows.names[i].toLowerCase().includes(part)) : null);
      draw();
    }

    function fill(menu, entries) {
      const groups = new Map();
      for (const [value, text, group] of entries) {
        const option = element("option", text);
        option.value = value;
        if (group && !groups.has(group)) {
          groups.set(group, element("optgroup"));
          groups.get(group).label = group;
          menu.append(groups.get(group));
        }
        (group ? groups.get(group) : menu).append(option);
      }
    }

    function open() {
      const titles = axes.map((part, k) => [String(k), part.title]);
      fill(input["axis-x"], titles);
      fill(input["axis-y"], titles);
      input["axis-y"].value = "1";
      fill(input.colour, [["", "none"]].concat(columns.map((column, k) => [String(k), column.name, column.group])));
      if (columns.length && columns[0].group === "metadata") input.colour.value = "0";
      draw().then(() => {
        place.on("plotly_selected", (event) => {
          if (event) select(event.points.map((point) => point.customdata).sort((a, b) => a - b));
        });
        place.on("plotly_deselect", () => { select(null); draw(); });
      });
      for (const id of ["axis-x", "axis-y", "colour", "show-std", "show-arrows"]) {
        if (input[id]) input[id].addEventListener("change", () => { draw(); listSelected(); });
      }
      input.find.addEventListener("input", find);
      listSelected();
    }

    return { open, draw };
  }

  const scores = report.rows ? Scores(report.rows) : null;
  drawFigures();
  if (scores) scores.open();

  function redraw() {
    drawFigures();
    if (scores) scores.draw();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
})();
