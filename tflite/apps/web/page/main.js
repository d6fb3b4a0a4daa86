// The page: starts the runtime, shows the models as tabs, and tells whether it works offline.

import { readAsset, readJson } from "./assets.js";
import { element, reason } from "./dom.js";
import { storeForOffline } from "./offline.js";
import { Panel } from "./panel.js";
import { bytesOf, asArray, toReal, toStored } from "./tensors.js";
import { Runtime } from "./runtime.js";

const state = document.getElementById("state");
const tabs = document.getElementById("tabs");
const place = document.getElementById("model");
const panels = [];
let runtime;
let opening = Promise.resolve();

async function start() {
  try {
    const page = await readJson("page.json");
    runtime = await Runtime.start(page.runtime);
    page.models.forEach((entry) => panels.push(new Panel(entry, page.recordings)));
    if (panels.length > 1) tabs.append(...panels.map(makeTab));
    await show(0);
    state.textContent = "";
    storeForOffline(document.getElementById("offline"), page.single_file);
  } catch (error) {
    state.className = "verdict refused";
    state.replaceChildren(element("strong", {}, "The page can't start"), element("p", {}, reason(error)));
  }
}

function makeTab(panel, at) {
  const choice = element("input", {
    type: "radio",
    name: "model",
    value: at,
    checked: at === 0,
    change: () => show(at),
  });
  return element("label", { class: "tab" }, choice, element("span", {}, panel.entry.name));
}

/** Show a model. Models are loaded one after the other, when they are first wanted. */
async function show(at) {
  panels.forEach((panel) => panel.stop());
  place.replaceChildren(panels[at].element);
  try {
    await ready(at);
  } catch {
    // The panel itself says what is wrong.
  }
}

function ready(at) {
  const panel = panels[at];
  panel.opened ??= opening = opening
    .catch(() => null)
    .then(async () => panel.open(runtime, await readAsset(panel.entry.file)));
  return panel.opened;
}

/**
 * For scripts and the console: `await keras_attention.run(0, {window: [...]})` gives real values by output
 * name, `{raw: true}` takes and gives stored ones. `signature` is a number.
 */
globalThis.keras_attention = {
  started: start(),
  panels,
  async run(at, inputs, { signature = 0, raw = false } = {}) {
    await this.started;
    await ready(at);
    const { model, entry } = panels[at];
    const called = entry.signatures[signature];
    const bytes = {};
    for (const tensor of called.inputs) {
      const unscaled = raw ? { ...tensor, scale: null } : tensor;
      bytes[tensor.name] = bytesOf(toStored(Float64Array.from(inputs[tensor.name]), unscaled));
    }
    const { outputs } = await model.run(called.key, bytes);
    return Object.fromEntries(
      called.outputs.map((tensor) => {
        const stored = asArray(outputs[tensor.name], tensor);
        return [tensor.name, Array.from(raw ? stored : toReal(stored, tensor), Number)];
      }),
    );
  },
};
