// The files of the next message: dropped on the page, pasted or chosen, and shown above the field until it is sent.
import { $, button, element } from "./elements.js";
import { accepted, kindOf, mediumNode, readMedium, takesMedia } from "./media.js";
import { say } from "./translations.js";

const attached = [];
let changed = () => {}, tell = () => {};

export const hasAttached = () => attached.length > 0;

export function takeAttached() {
  const media = attached.splice(0);
  show();
  return media;
}

function boxOf(medium, index) {
  const box = element("div", "medium");
  box.append(mediumNode(medium), button("×", () => (attached.splice(index, 1), show()), say("Remove {}", medium.name)));
  return box;
}

function show() {
  $("attached").hidden = !attached.length;
  $("attached").replaceChildren(...attached.map(boxOf));
  changed();
}

async function attach(files) {
  for (const file of files) {
    const medium = kindOf(file) && (await readMedium(file));
    if (medium) attached.push(medium);
    else tell(say(kindOf(file) ? "{} is larger than 40 MB." : "{} was not added: the model does not read such files.", file.name));
  }
  show();
}

// `onChange` is called when there are more or fewer, `onProblem` with words for the reader.
export function wireAttachments(onChange, onProblem) {
  changed = onChange;
  tell = onProblem;
  $("attach").hidden = !takesMedia;
  $("files").accept = accepted;
  $("attach").addEventListener("click", () => $("files").click());
  $("files").addEventListener("change", ({ target }) => (attach([...target.files]), (target.value = "")));
  $("composer").addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])].filter(kindOf); // a text may come with a picture of it
    if (files.length) event.preventDefault(), attach(files);
  });
  const dragging = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => event.dataTransfer?.types.includes("Files") && (event.preventDefault(), dragging(takesMedia)));
  addEventListener("dragleave", (event) => event.relatedTarget || dragging(false));
  addEventListener("drop", (event) => (event.preventDefault(), dragging(false), attach([...(event.dataTransfer?.files ?? [])])));
}
