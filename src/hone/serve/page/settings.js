// Settings next to the conversation: sampling, the system prompt, the model, the theme; and the export of all conversations.
import { listModels } from "./api.js";
import { $, element } from "./elements.js";
import { conversations, saveSettings, settings } from "./store.js";
import { say, title } from "./translations.js";

export const NUMBERS = ["temperature", "top_p", "top_k", "max_tokens", "repetition_penalty", "seed"];

export function wireSettings() {
  $("system").value = settings.system ?? "";
  $("system").addEventListener("input", (event) => ((settings.system = event.target.value), saveSettings()));
  for (const name of NUMBERS) {
    const field = $(name);
    field.value = settings[name] ?? "";
    field.addEventListener("input", () => ((settings[name] = field.value === "" ? undefined : field.valueAsNumber), saveSettings()));
  }
  $("toggle-settings").addEventListener("click", (event) => {
    const open = ($("settings").hidden = !$("settings").hidden);
    event.currentTarget.ariaExpanded = String(!open);
  });
}

export function exportAll() {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(conversations, null, 2)], { type: "application/json" }));
  link.download = "conversations.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

export async function fillModels() {
  const choice = $("model");
  try {
    const models = await listModels();
    choice.replaceChildren(...models.map((model) => {
      const option = element("option", "", model.parent ? say("{} (adapter)", model.id) : model.id);
      option.value = model.id;
      return option;
    }));
    if (models.some((model) => model.id === settings.model)) choice.value = settings.model;
    document.title = title ?? `${models[0].id} – hone`;
  } catch (problem) {
    $("messages").replaceChildren(element("div", "problem", say("The server does not respond: {}", problem.message)));
  }
  choice.addEventListener("change", () => ((settings.model = choice.value), saveSettings()));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

export function wireTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(settings.theme ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => settings.theme || setTheme(dark.matches ? "dark" : "light"));
  $("toggle-theme").addEventListener("click", () => {
    settings.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    setTheme(settings.theme);
    saveSettings();
  });
}
