// Pictures, sound and video of messages: read from what is dropped, pasted or chosen, and kept in this browser's database, since
// they are too large for where conversations are. A message holds {kind, id, name} of each.

const MOST_BYTES = 40 << 20; // of one

// What the model takes, as the server says: "image video audio".
const taken = (document.documentElement.dataset.media ?? "").split(" ").filter(Boolean);
export const takesMedia = taken.length > 0;
export const accepted = taken.map((kind) => `${kind}/*`).join(",");

export const kindOf = (file) => taken.find((kind) => file.type.startsWith(`${kind}/`));

// ---- the database ---------------------------------------------------------------------------------------------------------------

const opened = new Promise((resolve) => {
  const request = indexedDB.open("hone", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("media");
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => resolve(null); // a private window may have none: what was read stays until the page is left
});
const held = new Map();

async function inDatabase(mode, act) {
  const database = await opened;
  if (!database) return undefined;
  return new Promise((resolve) => {
    const request = act(database.transaction("media", mode).objectStore("media"));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(undefined);
  });
}

// The data: URI; undefined when it is gone.
export async function dataOf({ id }) {
  if (!held.has(id)) held.set(id, await inDatabase("readonly", (store) => store.get(id)));
  return held.get(id);
}

export function forgetMedia(messages) {
  for (const { id } of messages.flatMap((message) => message.media ?? [])) held.delete(id), inDatabase("readwrite", (store) => store.delete(id));
}

// ---- reading --------------------------------------------------------------------------------------------------------------------

const readAsUri = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

// Null for what is too large.
export async function readMedium(file) {
  if (file.size > MOST_BYTES) return null;
  const medium = { kind: kindOf(file), id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, name: file.name || kindOf(file) };
  const uri = await readAsUri(file);
  held.set(medium.id, uri);
  await inDatabase("readwrite", (store) => store.put(uri, medium.id));
  return medium;
}

// ---- showing and sending --------------------------------------------------------------------------------------------------------

// The element comes at once, its content when it is read.
export function mediumNode(medium) {
  const node = document.createElement({ image: "img", audio: "audio", video: "video" }[medium.kind]);
  if (medium.kind === "image") node.alt = medium.name;
  else (node.controls = true), node.setAttribute("aria-label", medium.name);
  dataOf(medium).then((uri) => {
    if (uri) node.src = uri;
    else node.replaceWith(document.createTextNode(`[${medium.name}]`));
  });
  return node;
}

const partOf = ({ kind }, url) => {
  if (kind === "audio") return { type: "input_audio", input_audio: { data: url.slice(url.indexOf(",") + 1), format: url.slice(url.indexOf("/") + 1, url.indexOf(";")) } };
  return { type: `${kind}_url`, [`${kind}_url`]: { url } };
};

// A message as the server reads it.
export async function contentOf({ content, media }) {
  if (!media?.length) return content;
  const parts = await Promise.all(media.map(async (medium) => {
    const url = await dataOf(medium);
    return url ? partOf(medium, url) : { type: "text", text: `[${medium.name}]` };
  }));
  return [...parts, { type: "text", text: content }];
}
