"use strict";
// Connects the tables of the page with the Bokeh charts of the samples: sorting, search, selection, export. Every
// name is set through textContent.
(() => {
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const data = JSON.parse(one("#data").textContent);
  const root = document.documentElement;
  const announce = (message) => { one("#announcement").textContent = message; };
  const short = (x) => Number.isFinite(x) ? String(Number(x.toPrecision(4))).replace("-", "−") : "–";

  // Tables
  const rows = (table) => all("tbody tr", table);
  const value = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();

  function sort(head) {
    const table = head.closest("table"), column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    all("th[aria-sort]", table).forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keys = new Map(rows(table).map((row) => [row, value(row, column)]));
    const numeric = [...keys.values()].every((key) => key === "" || !Number.isNaN(Number(key)));
    const order = (a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // missing values come last in both orders
      return (down ? -1 : 1) * (numeric ? Number(x) - Number(y) : x.localeCompare(y, "en", { numeric: true }));
    };
    table.tBodies[0].append(...rows(table).sort(order));
  }

  function show(tools) {
    const table = one("#" + tools.dataset.for), query = one("input", tools).value.trim().toLowerCase();
    const chosen = rows(table).some((row) => row.classList.contains("chosen")), component = one("select", tools)?.value;
    let count = 0;
    for (const row of rows(table)) {
      row.hidden = (chosen && !row.classList.contains("chosen")) || !row.textContent.toLowerCase().includes(query)
        || Boolean(component && row.cells[0].textContent !== component);
      count += !row.hidden;
    }
    one("output", tools).textContent = `${count} of ${rows(table).length} rows${chosen ? ", of the samples chosen" : ""}`;
  }

  // A cell that a spreadsheet would take for a formula gets an apostrophe, also if the spreadsheet splits at semicolons or tabs.
  const harmless = (text) => Number.isNaN(Number(text)) ? text.replace(/(^|[;\t\n\r])(?=\s*[=+\-@＝＋－＠])/g, "$1'") : text;
  const field = (text) => /[",;\t\n\r]/.test(text) ? `"${harmless(text).replaceAll('"', '""')}"` : harmless(text);

  function csv(table) {
    const columns = all("thead th", table).filter((head) => one(".sort", head) && !head.hidden);
    const lines = [columns.map((head) => field(head.textContent.trim()))];
    for (const row of rows(table).filter((each) => !each.hidden))
      lines.push(columns.map((head) => field(value(row, head.cellIndex))));
    return lines.map((line) => line.join(",") + "\n").join("");
  }

  function save(text, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // The button shows the outcome for two seconds.
  function copy(button, text) {
    const label = button.dataset.label ??= button.textContent;
    const done = (message) => { button.textContent = message; announce(message); setTimeout(() => { button.textContent = label; }, 2000); };
    navigator.clipboard.writeText(text).then(() => done("Copied"), () => done("The browser refused"));
  }

  all("th[aria-sort] .sort").forEach((button) => button.addEventListener("click", () => sort(button.closest("th"))));
  for (const tools of all(".tools")) {
    all("input, select", tools).forEach((each) => each.addEventListener("input", () => show(tools)));
    one(".csv", tools).addEventListener("click", (event) => save(csv(one("#" + tools.dataset.for)), event.target.dataset.file));
    show(tools);
  }
  const loadingTools = one(".tools[data-for=t-loadings]");
  one(".names", loadingTools).addEventListener("click", (event) => {
    const shown = rows(one("#t-loadings")).filter((row) => !row.hidden).map((row) => harmless(row.cells[1].textContent.trim()));
    copy(event.target, [...new Set(shown)].join("\n"));
  });
  one("#copy-methods").addEventListener("click", (event) => copy(event.target, one("#methods-text").textContent.trim()));
  all(".to-table").forEach((link) => link.addEventListener("click", () => {
    [one("#component").value, one("input", loadingTools).value] = [link.dataset.component, ""];
    show(loadingTools);
  }));
  const samples = one("#t-samples") && rows(one("#t-samples"));
  samples?.forEach((row, i) => { row.dataset.row = i; });

  // Figures
  function colour(part, colours) {
    for (const [name, value] of Object.entries(colours)) if (name in part) part[name] = value;
  }

  function paint(figures) {
    const style = getComputedStyle(root), of = (name) => style.getPropertyValue("--" + name).trim();
    const [ink, quiet, line, grid] = ["ink", "quiet", "line", "grid"].map(of);
    const parts = {
      axis_label_text_color: ink, major_label_text_color: quiet, axis_line_color: line, major_tick_line_color: line,
      minor_tick_line_color: null, grid_line_color: grid,
    };
    for (const figure of figures) [...figure.below, ...figure.left, ...figure.center].forEach((part) => colour(part, parts));
  }

  // On touch screens a finger scrolls the page unless the lasso is switched on.
  function deactivateLasso(figures) {
    for (const figure of figures) figure.toolbar.tools.filter((tool) => tool.type === "LassoSelectTool").forEach((tool) => { tool.active = false; });
  }

  function explore(page) {
    const named = (name) => page.get_model_by_name(name);
    const source = named("samples");
    const set = (columns) => { source.data = { ...source.data, ...columns }; };
    paint(page.roots());
    if (matchMedia("(pointer: coarse)").matches) deactivateLasso(page.roots());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(page.roots()));

    function by(key) {
      one("#colour").value = key;
      for (const dots of named("figure-scores").renderers) dots.visible = dots.name === "by:" + key;
      all(".legend").forEach((legend) => { legend.hidden = legend.dataset.by !== key; });
    }

    function pick(at, name) {
      const values = source.data["v" + at];
      if (!values) return announce(`The values of ${name} are not in this page.`);
      const finite = [...values].filter(Number.isFinite), [low, high] = [Math.min(...finite), Math.max(...finite)];
      const shades = named("by:value").glyph.fill_color.transform;
      Object.assign(shades, { low, high });
      set({ value: values });
      for (const place of ["#value-name", "#value-head"]) one(place).textContent = name;
      [one("#value-low").textContent, one("#value-high").textContent] = [short(low), short(high)];
      const option = one("#colour option[value=value]");
      Object.assign(option, { hidden: false, disabled: false, textContent: name });
      all(".value-cell").forEach((cell) => { cell.hidden = false; });
      for (const row of samples) {
        const cell = row.cells[row.cells.length - 1], x = values[row.dataset.row];
        [cell.textContent, cell.dataset.v] = [short(x), Number.isFinite(x) ? x : ""];
      }
      by("value");
      announce(`Samples are coloured by ${name}, from ${short(low)} to ${short(high)}.`);
    }

    all(".variable").forEach((button) => button.addEventListener("click", () => {
      pick(button.dataset.variable, button.textContent);
      one("#samples").scrollIntoView();
    }));
    chooseSamples(source, set, by);
  }

  function chooseSamples(source, set, by) {
    const tools = one(".tools[data-for=t-samples]"), choose = (list) => { source.selected.indices = list; };
    const components = source.document.get_model_by_name("figure-scores");
    const axes = [one("#across"), one("#upwards")];
    let shown = axes.map((axis) => axis.value);
    const turn = () => {
      // A component is on one axis only: choosing that of the other axis swaps them.
      axes.forEach((axis, i) => { if (axis.value === axes[1 - i].value && axis.value === shown[i]) axis.value = shown[1 - i]; });
      shown = axes.map((axis) => axis.value);
      const [x, y] = axes.map((axis) => axis.selectedOptions[0]);
      set({ x: source.data["t" + x.value], y: source.data["t" + y.value] });
      [components.below[0].axis_label.text, components.left[0].axis_label.text] = [x.textContent, y.textContent];
    };
    axes.forEach((axis) => axis.addEventListener("change", turn));
    one("#colour").addEventListener("change", (event) => by(event.target.value));
    by(one("#colour").value);
    source.selected.properties.indices.change.connect(() => {
      const chosen = new Set(source.selected.indices);
      for (const row of samples) {
        row.classList.toggle("chosen", chosen.has(Number(row.dataset.row)));
        one("input", row).checked = row.classList.contains("chosen");
      }
      show(tools);
    });
    samples.forEach((row) => one("input", row).addEventListener("change", () =>
      choose(samples.filter((each) => one("input", each).checked).map((each) => Number(each.dataset.row)))));
    one(".clear", tools).addEventListener("click", () => choose([]));
    one(".choose", tools).addEventListener("click", () =>
      choose(samples.filter((row) => !row.hidden).map((row) => Number(row.dataset.row))));
  }

  function walk() {
    const slider = one("#point");
    const step = () => {
      const point = data.path[slider.value];
      const mean = point.cardinality.reduce((a, b) => a + b) / point.cardinality.length;
      const count = `${short(mean)} ${mean === 1 ? "variable" : "variables"} per component${point.is_model ? ", as on this page" : ""}`;
      const text = `${count}: ${short(100 * point.share_of_pca)} % of the variance of ordinary components`;
      one("#point-words").textContent = text;
      slider.setAttribute("aria-valuetext", text);
      one("#point-components").replaceChildren(...point.components.map(card));
    };
    slider.addEventListener("input", step);
    slider.value = data.path.findIndex((point) => point.is_model);
    step();
  }

  function card(loadings, i) {
    const element = (tag, text = "") => Object.assign(document.createElement(tag), { textContent: text });
    const box = element("article"), list = element("p");
    box.className = "card";
    for (const [name, loading] of loadings) {
      list.append(element("bdi", name), ` ${loading < 0 ? "−" : "+"}${Math.abs(loading).toFixed(3)} `, element("br"));
    }
    box.append(element("h3", `Component ${i + 1}`), list);
    return box;
  }

  async function draw() {
    if (!samples) return; // the page then has no chart, and no script of Bokeh
    Bokeh.set_log_level("error");
    const roots = Object.fromEntries(Object.entries(data.roots).map(([id, place]) => [id, "chart-" + place]));
    await Bokeh.embed.embed_items({ page: data.document }, [{ docid: "page", roots, root_ids: Object.keys(roots) }]);
    explore(Bokeh.documents.at(-1));
  }

  root.classList.add("live");
  if (data.path.length) walk();
  draw()
    .then(() => { root.dataset.ready = "yes"; })
    .catch((error) => { root.classList.remove("live"); console.error(error); });
})();
