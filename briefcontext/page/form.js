// The form: question, options, settings, examples.

import { count } from "./api.js";
import { byId, counted, el, refill, shown } from "./dom.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const FIRST_OPTIONS = 4;
const FIRST_EXAMPLES = 6;
const MORE_FILTERS = ["journals", "mesh", "languages"];
const FILTERS = ["years", "publication_types", ...MORE_FILTERS];
let settings = [];
let countable = false;
let counting = null;
let earlier = [];

/** Fill the form with what the server knows. */
export function prepare(known, submit) {
  settings = known.settings;
  countable = known.sources;
  for (const id of ["filters", "settings"]) byId(id).addEventListener("change", showCount);
  prepareFile(known.uploads);
  setOptions({});
  byId("more-options").addEventListener("click", () => addOption("").focus());
  byId("reset-settings").addEventListener("click", () => showSettings());
  showSettings();
  const examples = known.examples;
  const [first, more] = [examples.slice(0, FIRST_EXAMPLES), examples.slice(FIRST_EXAMPLES)];
  byId("examples").hidden = examples.length === 0;
  refill(byId("first-examples"), first.map((example) => exampleItem(example, submit)));
  refill(byId("more-examples"), more.map((example) => exampleItem(example, submit)));
  byId("more-examples").parentElement.hidden = more.length === 0;
}

function prepareFile(limits) {
  byId("own-file").hidden = !limits;
  if (!limits) return;
  const field = byId("file");
  field.accept = limits.kinds.join(",");
  const most = limits.bytes / 1024 ** 2;
  byId("file-hint").textContent = `${limits.kinds.join(", ")}; up to ${most} MiB and ${limits.pages} pages. `
    + "It is sent with your question, and not stored: it is forgotten after the answer. Do not send names of patients.";
  field.addEventListener("change", () => {
    const chosen = file();
    if (chosen) follow([]);
    field.setCustomValidity(chosen?.size > limits.bytes ? `This file is larger than ${most} MiB.` : "");
    byId("no-file").hidden = !chosen;
    byId("own-file").querySelector("summary").textContent = chosen ? `Your own file (${chosen.name})` : "Your own file";
    byId("filters").hidden = Boolean(chosen) || !filters().length;
  });
  byId("no-file").addEventListener("click", noFile);
}

/** Open the filters, where there are any. */
export function openFilters() {
  byId("filters").open = true;
  byId("filters").querySelector("summary").focus();
}

/** Return the visitor's own file; undefined where none is chosen. */
export function file() {
  return byId("file").files[0];
}

function noFile() {
  byId("file").value = "";
  byId("file").dispatchEvent(new Event("change"));
}

function filters() {
  return settings.filter((setting) => FILTERS.includes(setting.name));
}

/** Make the next question a follow-up to earlier ones; to none, a question on its own. */
export function follow(questions) {
  earlier = questions;
  byId("following").hidden = questions.length === 0;
  byId("followed").textContent = `A follow-up to “${shown(questions.at(-1))}”`;
}

/** Put a question into the form that was asked before. */
export function show({ question, options, earlier: before = [] }) {
  follow(before);
  byId("question").value = question;
  setOptions(options);
}

function exampleItem(example, submit) {
  const click = () => {
    noFile();
    show(example);
    submit();
  };
  const marked = Object.keys(example.options).length > 0 && el("span", { class: "tag" }, "multiple choice");
  return el("li", {}, el("button", { type: "button", class: "example", click }, example.question, " ", marked));
}

function setOptions(options) {
  byId("options").replaceChildren();
  const texts = Object.values(options);
  for (let place = 0; place < Math.max(FIRST_OPTIONS, texts.length); place++) addOption(texts[place] ?? "");
  byId("multiple-choice").open = texts.length > 0;
}

function addOption(text) {
  const rows = byId("options");
  const letter = LETTERS[rows.childElementCount];
  const input = el("input", { id: `option-${letter}`, type: "text", maxlength: 2000, autocomplete: "off" });
  input.value = text;
  rows.append(el("div", { class: "option" }, el("label", { for: input.id }, letter), input));
  byId("more-options").hidden = rows.childElementCount === LETTERS.length;
  return input;
}

function showSettings() {
  refill(byId("setting-fields"), settings.filter((setting) => !FILTERS.includes(setting.name)).map(settingField));
  const [more, first] = [true, false].map((is) => filters().filter(({ name }) => MORE_FILTERS.includes(name) === is));
  refill(byId("filter-fields"), first.map(settingField));
  refill(byId("more-filter-fields"), more.map(settingField));
  byId("more-filters").hidden = more.length === 0;
  byId("filters").hidden = filters().length === 0;
  showCount();
}

/** Say how many passages the filters leave to answer from, or what is wrong with them; nothing where there are none. */
async function showCount() {
  const none = filters().every((setting) => !chosen(setting)?.length);
  const asked = Object.fromEntries(settings.filter(({ name }) => [...FILTERS, "include_retracted"].includes(name))
    .map((setting) => [setting.name, chosen(setting)]));
  const mine = counting = {};
  const found = countable && !none ? await count(asked).catch((error) => error) : null;
  if (mine !== counting) return;
  byId("filter-count").textContent = found?.message
    ?? (found ? `${found.passages.toLocaleString("en")} of ${counted(found.all, "passage")} left` : "");
  byId("filters").querySelector("summary").textContent = none ? "Filters" : "Filters (on)";
}

function settingField(setting) {
  const id = `setting-${setting.name}`;
  const hint = el("p", { id: `${id}-hint`, class: "hint" }, setting.description);
  const label = el("label", { for: id }, setting.label);
  const common = { id, "aria-describedby": hint.id };
  if (setting.type === "boolean") {
    const box = el("input", { ...common, type: "checkbox" });
    box.checked = setting.default;
    return el("div", { class: "setting tick" }, box, label, hint);
  }
  if (setting.type === "array") {
    const ticks = setting.values.map((value) => {
      const box = el("input", { type: "checkbox", value });
      box.checked = setting.default.includes(value);
      return el("label", {}, box, value);
    });
    return el("fieldset", { ...common, class: "setting many" }, el("legend", {}, setting.label), ticks, hint);
  }
  if (setting.type === "years") {
    const years = ["from", "to"].map((end, place) => {
      const year = el("input", { type: "number", min: 1000, max: 9999, step: 1 });
      year.value = setting.default?.[place] ?? "";
      return el("label", {}, end, year);
    });
    return el("fieldset", { ...common, class: "setting" }, el("legend", {}, setting.label),
      el("div", { class: "ends" }, years), hint);
  }
  if (setting.type === "labels") {
    const offered = el("datalist", { id: `${id}-offered` }, setting.values.map((value) => el("option", { value })));
    const input = el("input", { ...common, type: "text", list: offered.id, autocomplete: "off" });
    input.value = setting.default.join("; ");
    return el("div", { class: "setting" }, label, input, offered, hint);
  }
  if (setting.values) {
    const words = (value) => value.replaceAll("_", "-");
    const list = el("select", common, setting.values.map((value) => el("option", { value }, words(value))));
    list.value = setting.default;
    return el("div", { class: "setting" }, label, list, hint);
  }
  const { minimum: min, maximum: max } = setting;
  const step = setting.type === "integer" ? 1 : "any";
  const input = el("input", { ...common, type: "number", required: true, min, max, step });
  input.value = setting.default;
  return el("div", { class: "setting" }, label, input, hint);
}

function chosen(setting) {
  const field = byId(`setting-${setting.name}`);
  if (setting.type === "boolean") return field.checked;
  if (setting.type === "array") return [...field.querySelectorAll(":checked")].map((box) => box.value);
  if (setting.type === "labels") return field.value.split(";").map((words) => words.trim()).filter(Boolean);
  if (setting.type === "years") {
    const years = [...field.querySelectorAll("input")].map((year) => (year.value ? Number(year.value) : null));
    return years.some(Boolean) ? years : null;
  }
  return setting.values ? field.value : Number(field.value);
}

/** Return the question as the server takes it; only settings that differ from the defaults are sent. */
export function asked() {
  const options = {};
  for (const input of byId("options").querySelectorAll("input")) {
    if (input.value.trim()) options[input.id.replace("option-", "")] = input.value.trim();
  }
  const own = file();
  const differing = settings.filter((setting) => !own || !FILTERS.includes(setting.name)).map((setting) => [setting.name, chosen(setting), setting.default])
    .filter(([, value, fallback]) => JSON.stringify(value) !== JSON.stringify(fallback))
    .map(([name, value]) => [name, value]);
  return { question: byId("question").value.trim(), options, settings: Object.fromEntries(differing), earlier, own: own?.name };
}

/** Say whether the form can be sent; the first field that is at fault is shown, also in a closed fold. */
export function check() {
  const form = byId("ask-form");
  const wrong = form.querySelector(":invalid:not(fieldset)");
  if (wrong) {
    const fold = wrong.closest("details");
    if (fold) fold.open = true;
    form.reportValidity();
  }
  return !wrong;
}
