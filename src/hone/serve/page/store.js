// Conversations and settings, kept in this browser and nowhere else.

const KEY = "hone.conversations", SETTINGS = "hone.settings", MOST = 200;

const read = (key, fallback) => {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? fallback;
  } catch {
    return fallback;
  }
};

// A full or forbidden store costs the history, never the conversation on screen.
const write = (key, value) => {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch (problem) {
    console.warn("not saved:", problem);
  }
};

export const settings = read(SETTINGS, {});
export const saveSettings = () => write(SETTINGS, settings);

// A conversation: {id, title, messages: [{role, content, thought?, problem?, note?}]}, newest first.
export let conversations = read(KEY, []);
export const saveConversations = () => write(KEY, conversations.filter((c) => c.messages.length).slice(0, MOST));

export function startConversation() {
  const fresh = { id: crypto.randomUUID?.() ?? String(Date.now()), title: "", messages: [] };
  conversations = [fresh, ...conversations.filter((c) => c.messages.length)];
  return fresh;
}

export function removeConversation(id) {
  conversations = conversations.filter((c) => c.id !== id);
  saveConversations();
}

export function removeAll() {
  conversations = [];
  saveConversations();
}
