// Elements of the page, by id and new ones.
// `button` has a label when its text says too little.
export const $ = (id) => document.getElementById(id);
export const element = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
export const button = (text, action, label) => {
  const node = element("button", "", text);
  node.type = "button";
  if (label) node.ariaLabel = label;
  node.addEventListener("click", action);
  return node;
};
