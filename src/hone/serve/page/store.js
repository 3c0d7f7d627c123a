// Conversations and settings, kept in this browser and nowhere else. Several tabs share them: each writes only what it changed.
import { forgetMedia } from "./media.js";

const KEY = "hone.conversations", SETTINGS = "hone.settings", MOST = 200;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const read = (key) => {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
};

const write = (key, value) => {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch (problem) {
    console.warn("not saved:", problem);
    return false;
  }
};

// ---- what may stand in the store is not always ours ----------------------------------------------------------------------------

const texts = (object, ...names) => Object.fromEntries(names.filter((name) => typeof object[name] === "string").map((name) => [name, object[name]]));

const isMessage = (value) => isObject(value) && ["user", "assistant"].includes(value.role) && typeof value.content === "string";

const isMedium = (value) => isObject(value) && ["image", "audio", "video"].includes(value.kind) && typeof value.id === "string" && typeof value.name === "string";

// A message: {role, content, media?, thought?, problem?, note?, unfinished?}; unfinished while its answer is being written.
const messageOf = (value) => ({
  ...texts(value, "role", "content", "thought", "problem", "note"),
  ...(Array.isArray(value.media) && { media: value.media.filter(isMedium).map((medium) => texts(medium, "kind", "id", "name")) }),
  ...(value.unfinished === true && { unfinished: true }),
});

const isConversation = (value) => isObject(value) && typeof value.id === "string" && Array.isArray(value.messages) && value.messages.length > 0 && value.messages.every(isMessage);

const conversationOf = (value) => ({ id: value.id, title: "", ...texts(value, "title"), messages: value.messages.map(messageOf) });

function stored() {
  const list = read(KEY);
  return Array.isArray(list) ? list.filter(isConversation).map(conversationOf) : [];
}

// ---- settings -----------------------------------------------------------------------------------------------------------------

const given = read(SETTINGS);
export const settings = isObject(given) ? { ...given } : {};
for (const name of ["system", "model", "theme"]) if (typeof settings[name] !== "string") delete settings[name];
if (!["light", "dark"].includes(settings.theme)) delete settings.theme;
export const saveSettings = () => write(SETTINGS, settings);

// ---- conversations ------------------------------------------------------------------------------------------------------------

// Those in the store, the one changed last first.
export let conversations = stored();
const removed = new Set(); // here; an answer that ends after its conversation was deleted does not bring it back

let tellFull = () => {};
// Calls back when the store is full, with the conversations that made room; none: the newest is not kept, and all others are.
export const onFullStore = (told) => (tellFull = told);

// A full store costs as few of the oldest conversations as it takes, never the one on screen.
function keep(list) {
  conversations = list.slice(0, MOST);
  let count = conversations.length;
  while (!write(KEY, conversations.slice(0, count)))
    if (--count < 1) return tellFull([]);
  const gone = conversations.splice(count);
  for (const { messages } of gone) forgetMedia(messages);
  if (gone.length) tellFull(gone);
}

export function startConversation() {
  return { id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, title: "", messages: [] };
}

export function saveConversation(conversation) {
  if (!conversation.messages.length || removed.has(conversation.id)) return;
  keep([conversation, ...stored().filter((other) => other.id !== conversation.id)]);
}

export function removeConversation(id) {
  removed.add(id);
  forgetMedia(stored().find((other) => other.id === id)?.messages ?? []);
  keep(stored().filter((other) => other.id !== id));
}

export function removeAll() {
  for (const { id, messages } of [...conversations, ...stored()]) removed.add(id), forgetMedia(messages);
  keep([]);
}

// Calls back when another tab changed the conversations.
export function onOtherTab(changed) {
  addEventListener("storage", ({ key }) => {
    if (key !== KEY && key !== null) return;
    conversations = stored();
    changed();
  });
}
