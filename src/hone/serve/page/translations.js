// The page's words: English as written in the code and in index.html, and what they are in Chinese.

const CHINESE = {
  "Skip to message input": "跳到输入框",
  "Conversations": "对话列表",
  "New conversation (Ctrl+Shift+O)": "新对话（Ctrl+Shift+O）",
  "New conversation": "新对话",
  "Conversation history": "历史对话",
  "Delete all": "全部删除",
  "Export": "导出",
  "Model or adapter": "模型或适配器",
  "Toggle dark theme": "切换深色主题",
  "Settings": "设置",
  "System prompt": "系统提示词",
  "None": "无",
  "Temperature": "温度",
  "server default": "服务器默认",
  "Top p": "Top-p 采样",
  "Top k": "Top-k 采样",
  "Max tokens": "最大词元数",
  "Repetition penalty": "重复惩罚",
  "Seed": "随机种子",
  "random": "随机",
  "Conversation": "对话",
  "Write a message": "输入消息",
  "Message": "消息",
  "Send": "发送",
  "Attached files": "已添加的文件",
  "Attach files": "添加文件",
  "Remove {}": "移除 {}",
  "{} is larger than 40 MB.": "{} 超过 40 MB。",
  "{} was not added: the model does not read such files.": "未添加 {}：模型不读取这类文件。",
  "Stop": "停止",
  "sends,": "发送，",
  "is a new line,": "换行，",
  "stops,": "停止，",
  "edits the last message": "编辑上一条消息",
  "Thinking…": "思考中…",
  "Reasoning": "思考过程",
  "You": "你",
  "Assistant": "助手",
  "Copy": "复制",
  "Copied": "已复制",
  "Edit": "编辑",
  "Regenerate": "重新生成",
  "Edit the message": "编辑消息",
  "Cancel": "取消",
  "Start a conversation": "开始对话",
  "Conversations stay in this browser.": "对话只保存在本浏览器中。",
  "Delete {}": "删除 {}",
  "stopped at max tokens": "已达最大词元数",
  "stopped": "已停止",
  "interrupted": "未完成",
  "The response is empty.": "回答为空。",
  "The response ended early.": "回答中途断开。",
  "{} tokens, {}/s": "{} 个词元，{}/秒",
  "{}, {}": "{}，{}",
  "Close": "关闭",
  "Browser storage is full. Deleted to free space: {}": "浏览器存储已满，为腾出空间已删除：{}",
  "Browser storage is full: this conversation is not saved.": "浏览器没有空间保存这个对话。",
  "Delete all conversations?": "删除全部对话？",
  "{} (adapter)": "{}（适配器）",
  "The server does not respond: {}": "服务器没有响应：{}",
  "The server cannot be reached.": "无法连接服务器。",
};

const page = document.documentElement;
// What the server was told, else what the browser asks for.
const language = page.dataset.language ?? (navigator.language.startsWith("zh") ? "zh" : "en");
export const title = page.dataset.title;

// The words in the page's language, each {} filled with the next value.
export const say = (words, ...values) => {
  let next = 0;
  return (language === "zh" ? CHINESE[words] ?? words : words).replace(/\{\}/g, () => values[next++]);
};

// index.html as it stands is English.
export function translatePage() {
  page.lang = language;
  if (language === "en") return;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = texts.nextNode());) {
    const words = node.data.trim();
    if (CHINESE[words]) node.data = node.data.replace(words, CHINESE[words]);
  }
  for (const name of ["title", "aria-label", "placeholder"])
    for (const node of document.querySelectorAll(`[${name}]`)) node.setAttribute(name, say(node.getAttribute(name)));
}
