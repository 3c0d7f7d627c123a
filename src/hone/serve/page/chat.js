// The page: one conversation on screen, the others in the sidebar.
import { BrokenOff, streamChat } from "./api.js";
import { hasAttached, takeAttached, wireAttachments } from "./attachments.js";
import { $, button, element } from "./elements.js";
import { markdown } from "./markdown.js";
import { contentOf, mediumNode } from "./media.js";
import { exportAll, fillModels, NUMBERS, wireSettings, wireTheme } from "./settings.js";
import { conversations, onFullStore, onOtherTab, removeAll, removeConversation, saveConversation, settings, startConversation } from "./store.js";
import { say, title, translatePage } from "./translations.js";

const SAVE_EVERY = 500; // milliseconds, while an answer is written
let current = startConversation();
let running = null; // the AbortController of the answer being written

// ---- one turn -----------------------------------------------------------------------------------------------------------------

function fillAnswer(body, message, busy) {
  body.replaceChildren();
  if (message.thought) {
    const thought = element("details", "thought");
    thought.open = busy && !message.content;
    thought.append(element("summary", "", say(busy && !message.content ? "Thinking…" : "Reasoning")), markdown(message.thought));
    body.append(thought);
  }
  const text = element("div", "text");
  text.append(markdown(message.content ?? ""));
  body.append(text);
  if (busy && !message.content) text.append(element("span", "waiting"));
  if (!busy && !message.content && !message.problem) text.append(element("p", "nothing", say("The response is empty.")));
  if (message.problem) body.append(element("div", "problem", message.problem));
}

function turn(message, index) {
  const node = element("article", `turn ${message.role}`);
  node.ariaLabel = say(message.role === "user" ? "You" : "Assistant");
  const body = element("div", "body");
  const busy = running && index === current.messages.length - 1;
  if (message.media?.length) body.append(element("div", "media")), body.firstChild.append(...message.media.map(mediumNode));
  if (message.role === "user") body.append(message.content);
  else fillAnswer(body, message, busy);
  node.append(body);
  const tools = element("div", "tools");
  if (!busy) {
    tools.append(button(say("Copy"), () => navigator.clipboard?.writeText(message.content)));
    if (message.role === "user") tools.append(button(say("Edit"), () => edit(node, index)));
    else tools.append(button(say("Regenerate"), () => regenerate(index)));
    const note = message.unfinished ? say("interrupted") : message.note;
    if (note) tools.append(element("span", "count", note));
  }
  node.append(tools);
  return node;
}

function edit(node, index) {
  const field = element("textarea");
  field.value = current.messages[index].content;
  field.ariaLabel = say("Edit the message");
  const { media } = current.messages[index];
  const commit = () => {
    if (!field.value.trim() && !media?.length) return;
    current.messages.splice(index);
    ask(field.value, media);
  };
  const choices = element("div", "choices");
  const save = button(say("Send"), commit);
  save.className = "main";
  choices.append(button(say("Cancel"), showConversation), save);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) event.preventDefault(), commit();
    if (event.key === "Escape") event.stopPropagation(), showConversation(), $("composer").focus();
  });
  node.className = "turn";
  node.replaceChildren(field, choices);
  field.focus();
}

// ---- the conversation ---------------------------------------------------------------------------------------------------------

function showConversation() {
  const list = $("messages");
  if (current.messages.length === 0) {
    const empty = element("div", "empty");
    empty.append(element("h1", "", say("Start a conversation")), element("p", "", say("Conversations stay in this browser.")));
    list.replaceChildren(empty);
  } else {
    list.replaceChildren(...current.messages.map(turn));
  }
  const toEnd = () => (list.scrollTop = list.scrollHeight);
  toEnd();
  for (const node of list.querySelectorAll("img, video")) for (const event of ["load", "loadedmetadata"]) node.addEventListener(event, toEnd, { once: true }); // it has no height before
  $("send").hidden = Boolean(running);
  $("stop").hidden = !running;
  showHistory();
}

function showHistory() {
  $("history").replaceChildren(...conversations.map((conversation) => {
    const shown = conversation.id === current.id;
    const row = element("div", "entry");
    if (shown) row.setAttribute("aria-current", "true");
    const open = button(conversation.title || say("Conversation"), () => (shown ? browse(false) : openConversation(conversation)));
    open.className = "open";
    const remove = button("×", () => {
      removeConversation(conversation.id);
      if (conversation.id === current.id) openConversation(startConversation());
      else showHistory();
    }, say("Delete {}", conversation.title));
    remove.className = "remove";
    row.append(open, remove);
    return row;
  }));
}

function openConversation(conversation) {
  running?.abort();
  running = null;
  current = conversation;
  browse(false);
  showConversation();
  $("composer").focus();
}

// The conversation on screen may be one that another tab went on with.
function followOtherTab() {
  const theirs = conversations.find(({ id }) => id === current.id);
  if (running || !theirs || JSON.stringify(theirs) === JSON.stringify(current)) return showHistory();
  current = theirs;
  if (!document.querySelector(".turn textarea")) showConversation();
}

// What was deleted to make room stays on screen until it is read.
const deleted = [];
function tellFullStore(gone) {
  deleted.push(...gone.map(({ title }) => title || say("Conversation")));
  const words = gone.length ? say("Browser storage is full. Deleted to free space: {}", deleted.join(" · ")) : say("Browser storage is full: this conversation is not saved.");
  tell(words);
  showHistory();
}

function tell(words) {
  $("notice").firstElementChild.textContent = words;
  $("notice").hidden = false;
}

function closeNotice() {
  deleted.length = 0;
  $("notice").hidden = true;
}

// ---- asking -------------------------------------------------------------------------------------------------------------------

async function requestFor(messages) {
  const request = { model: $("model").value, messages: await Promise.all(messages.map(async (message) => ({ role: message.role, content: await contentOf(message) }))) };
  if (settings.system) request.messages.unshift({ role: "system", content: settings.system });
  for (const name of NUMBERS) if (Number.isFinite(settings[name])) request[name] = settings[name];
  return request;
}

function ask(text, media = []) {
  current.messages.push({ role: "user", content: text, ...(media.length && { media }) });
  if (current.messages.length === 1) current.title = (text.trim() || media[0].name).split("\n")[0].slice(0, 60);
  answer();
}

function regenerate(index) {
  current.messages.splice(index);
  answer();
}

async function answer() {
  const conversation = current;
  const control = (running = new AbortController());
  const asked = [...conversation.messages];
  const message = { role: "assistant", content: "", thought: "", unfinished: true };
  conversation.messages.push(message);
  saveConversation(conversation);
  showConversation();
  const list = $("messages"), body = list.lastElementChild.querySelector(".body");
  let drawn = 0;
  const draw = () => {
    drawn ||= requestAnimationFrame(() => {
      drawn = 0;
      if (running !== control) return;
      const follows = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
      fillAnswer(body, message, true);
      if (follows) list.scrollTop = list.scrollHeight;
    });
  };
  const began = performance.now();
  let saved = began;
  try {
    for await (const piece of streamChat(await requestFor(asked), control.signal)) {
      message.content += piece.content ?? "";
      message.thought += piece.thought ?? "";
      if (piece.finish === "length") message.note = say("stopped at max tokens");
      if (piece.usage) message.note = noteOf(piece.usage, began, message.note);
      draw();
      if (performance.now() - saved > SAVE_EVERY) saveConversation(conversation), (saved = performance.now());
    }
  } catch (problem) {
    if (problem.name === "AbortError") message.note = say("stopped");
    else if (problem instanceof BrokenOff) message.problem = say("The response ended early.");
    else message.problem = problem instanceof TypeError ? say("The server cannot be reached.") : problem.message;  // what fetch throws
  }
  delete message.unfinished;
  if (running === control) running = null;
  saveConversation(conversation);
  if (conversation === current) showConversation();
}

function noteOf(usage, began, before) {
  const seconds = (performance.now() - began) / 1000;
  const rate = say("{} tokens, {}/s", usage.completion_tokens, (usage.completion_tokens / Math.max(seconds, 1e-3)).toFixed(0));
  return before ? say("{}, {}", rate, before) : rate;
}

function submit() {
  const field = $("composer"), text = field.value;
  if ((!text.trim() && !hasAttached()) || running) return;
  field.value = "";
  fit();
  ask(text, takeAttached());
}

// ---- the frame ----------------------------------------------------------------------------------------------------------------

function fit() {
  const field = $("composer");
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
  $("send").disabled = !field.value.trim() && !hasAttached();
}

function browse(open) {
  document.body.classList.toggle("browsing", open);
  $("shade").hidden = !open;
  $("toggle-sidebar").ariaExpanded = String(open);
}

function keys(event) {
  if (event.key === "Escape") {
    if (running) running.abort();
    else browse(false);
  }
  if (event.key.toLowerCase() === "o" && event.ctrlKey && event.shiftKey) event.preventDefault(), openConversation(startConversation());
}

function composerKeys(event) {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) event.preventDefault(), submit();
  if (event.key === "ArrowUp" && !event.target.value && !running) {
    const last = current.messages.findLastIndex((m) => m.role === "user");
    if (last >= 0) event.preventDefault(), edit($("messages").children[last], last);
  }
}

$("composer-form").addEventListener("submit", (event) => (event.preventDefault(), submit()));
$("composer").addEventListener("input", fit);
$("composer").addEventListener("keydown", composerKeys);
$("stop").addEventListener("click", () => running?.abort());
$("new-chat").addEventListener("click", () => openConversation(startConversation()));
$("clear-all").addEventListener("click", () => confirm(say("Delete all conversations?")) && (removeAll(), openConversation(startConversation())));
$("export").addEventListener("click", exportAll);
$("toggle-sidebar").addEventListener("click", () => browse(!document.body.classList.contains("browsing")));
$("shade").addEventListener("click", () => browse(false));
addEventListener("keydown", keys);
addEventListener("pagehide", () => running && saveConversation(current));
onOtherTab(followOtherTab);
onFullStore(tellFullStore);
$("notice").lastElementChild.addEventListener("click", closeNotice);
translatePage();
if (title) document.title = document.querySelector(".brand span").textContent = title;
wireTheme();
wireSettings();
wireAttachments(fit, tell);
fit();
showConversation();
fillModels();
$("composer").focus();
