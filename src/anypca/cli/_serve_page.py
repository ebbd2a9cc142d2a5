"""The page of ``anypca serve``. Names and messages enter it as text only."""

from __future__ import annotations

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>anypca</title>
<style nonce="NONCE">
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
#drop { border: 2px dashed #767676; border-radius: .5rem; padding: 2rem; text-align: center; }
#drop.over { border-color: #0072b2; background: #eef6fb; }
#columns { max-height: 24rem; overflow: auto; }
table { border-collapse: collapse; } td, th { padding: .15rem .6rem; text-align: left; }
[hidden] { display: none; } #error { color: #a40000; } progress { width: 100%; }
button, select, input { font: inherit; }
</style>
</head>
<body>
<h1>anypca</h1>
<p>The file stays on this machine and is removed when <code>anypca serve</code> ends.</p>
<div id="drop"><label>Drop a table here, or choose one: <input type="file" id="file"></label></div>
<p id="error" role="alert"></p>
<section id="table" hidden>
<h2 id="name"></h2><p id="size"></p><ul id="notes"></ul>
<div id="columns"><table><thead><tr>
<th>column</th><th>first values</th><th>kind</th><th>family</th><th>role</th></tr></thead>
<tbody id="rows"></tbody></table></div>
<p><label>Model <select id="model"></select></label>
<label>Family <input id="family" value="auto" size="16"></label>
<label>Components <input id="components" type="number" min="1"></label>
<button id="fit">Fit</button> <button id="stop" hidden>Stop</button></p>
<div id="progress" hidden><progress></progress><p id="line" aria-live="polite"></p></div>
<p id="results" hidden><a id="report" target="_blank" rel="noopener">Report</a> · <a id="files">All files (zip)</a></p>
</section>
<script nonce="NONCE">
"use strict";
const find = (id) => document.getElementById(id);
let job = null;
const say = (text) => { find("error").textContent = text || ""; };
async function ask(path, options) {
  const answer = await fetch(path, options);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error || "the request failed");
  return content;
}
function add(parent, kind, text) {
  const child = document.createElement(kind);
  if (text !== undefined) child.textContent = text;
  parent.append(child);
  return child;
}
async function send(file) {
  say(""); find("table").hidden = true; find("results").hidden = true;
  try {
    show(file.name, await ask("/tables?name=" + encodeURIComponent(file.name), {method: "POST", body: file}));
  } catch (error) { say(error.message); }
}
function show(name, found) {
  job = found.id;
  find("name").textContent = name;
  find("size").textContent = found.rows + " rows, " + found.columns.length + " columns";
  find("notes").replaceChildren(); find("rows").replaceChildren(); find("model").replaceChildren();
  for (const note of found.notes) add(find("notes"), "li", note);
  for (const model of found.models) add(find("model"), "option", model);
  for (const column of found.columns) {
    const row = add(find("rows"), "tr");
    add(row, "td", column.name); add(row, "td", column.values.join(", "));
    const doubt = column.doubt ? " (" + column.doubt + ")" : "";
    add(row, "td", (column.kind || "") + doubt);
    const family = add(add(row, "td"), "select");
    family.dataset.family = column.name; family.title = column.reason || "";
    add(family, "option", column.family ? "auto: " + column.family : "auto").value = "";
    for (const name of found.families) add(family, "option", name);
    const role = add(add(row, "td"), "select");
    role.dataset.role = column.name;
    for (const name of ["in the model", "leave out", "row names", "covariate", "offset", "log offset"])
      add(role, "option", name);
    role.addEventListener("change", () => { family.disabled = role.selectedIndex > 0; });
  }
  find("table").hidden = false;
}
async function fit() {
  const roles = Object.create(null), families = Object.create(null);  // any name is a key, also __proto__
  for (const choice of find("rows").querySelectorAll("select[data-role]"))
    if (choice.selectedIndex) roles[choice.dataset.role] = choice.value;
  for (const choice of find("rows").querySelectorAll("select[data-family]"))
    if (choice.value && !choice.disabled) families[choice.dataset.family] = choice.value;
  const wanted = {model: find("model").value, family: find("family").value,
                  components: find("components").value, roles, families};
  say(""); find("results").hidden = true; find("line").textContent = "";
  try {
    await ask(`/tables/${job}/fit`, {method: "POST", body: JSON.stringify(wanted)});
    await watch(job);
  } catch (error) { say(error.message); }
}
async function watch(id) {
  find("progress").hidden = find("stop").hidden = false; find("fit").disabled = true;
  let found;
  do {
    await new Promise((resolve) => setTimeout(resolve, 400));
    found = await ask("/tables/" + id);
    find("line").textContent = found.line;
  } while (found.state === "running");
  find("progress").hidden = find("stop").hidden = true; find("fit").disabled = false;
  if (found.state !== "done") { say(found.line || found.state); return; }
  find("report").href = `/tables/${id}/report`; find("files").href = `/tables/${id}/files`;
  find("results").hidden = false;
}
find("file").addEventListener("change", (event) => { if (event.target.files.length) send(event.target.files[0]); });
find("fit").addEventListener("click", fit);
find("stop").addEventListener("click", () => ask(`/tables/${job}/stop`, {method: "POST"}).catch((e) => say(e.message)));
const drop = find("drop");
drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault(); drop.classList.remove("over");
  if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
});
</script>
</body>
</html>
"""
