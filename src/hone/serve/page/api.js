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

// Yields {content?, thought?, finish?, usage?} as they come.
export async function* streamChat(request, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST", signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
  });
  if (!response.ok) throw await problemOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices[0];
      yield { content: choice?.delta.content, thought: choice?.delta.reasoning_content, finish: choice?.finish_reason, usage: chunk.usage };
    }
  }
}
