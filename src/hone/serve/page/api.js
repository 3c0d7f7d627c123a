// The server's OpenAI interface, as far as the page needs it.

async function problemOf(response) {
  const body = await response.json().catch(() => null);
  return new Error(body?.error?.message ?? `the server answered ${response.status}`);
}

export async function listModels() {
  const response = await fetch("/v1/models");
  if (!response.ok) throw await problemOf(response);
  return (await response.json()).data;
}

// The data of an event; other lines of it are remarks, such as those that keep a connection open.
const dataOf = (event) => event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");

// Yields {content?, thought?, finish?, usage?} as they come; throws `BrokenOff` when the stream ends before the answer does.
export class BrokenOff extends Error {}

export async function* streamChat(request, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST", signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
  });
  if (!response.ok) throw await problemOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "", finished = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done && finished) return;
    if (done) throw new BrokenOff();
    held = (held + value).replaceAll("\r\n", "\n");
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events) {
      const data = dataOf(event);
      if (data === "[DONE]") return;
      if (!data) continue;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message ?? chunk.error);
      const choice = chunk.choices?.[0];
      finished ||= Boolean(choice?.finish_reason);
      yield { content: choice?.delta?.content, thought: choice?.delta?.reasoning_content, finish: choice?.finish_reason, usage: chunk.usage };
    }
  }
}
