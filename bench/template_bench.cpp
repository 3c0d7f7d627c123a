// Rendering speed of chat templates: a twenty-turn conversation through a ChatML-like template. bench/template.py compares with
// jinja2.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/text/chat_template.h"

namespace {

constexpr const char* kTemplate =
    R"({%- if tools %}{{- '<|im_start|>system\n' }}{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{%- endif %}
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == 'assistant' %}
        {%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}
        {{- '<|im_start|>' + message.role + '\n' + content }}{%- if message.tool_calls %}{%- for call in message.tool_calls %}{{ call | tojson }}{%- endfor %}{%- endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})";

hone::Json twenty_turns() {
  hone::Json messages = hone::Json::array();
  for (int i = 0; i < 20; ++i) {
    messages.push_back({{"role", "user"}, {"content", "What is the capital of France, and why did it become the capital?"}});
    messages.push_back(
        {{"role", "assistant"}, {"content", "Paris. It grew from a river crossing into the seat of kings, and stayed."}});
  }
  return {{"messages", messages}, {"add_generation_prompt", true}};
}

// HONE_BENCH_TEMPLATE names another template, such as a published one.
std::string template_source() {
  const char* path = std::getenv("HONE_BENCH_TEMPLATE");
  return path == nullptr ? kTemplate : hone::read_file(path);
}

void parse(benchmark::State& state) {
  std::string source = template_source();
  for (auto _ : state) benchmark::DoNotOptimize(hone::text::ChatTemplate::parse(source).ok());
}
BENCHMARK(parse);

void render_twenty_turns(benchmark::State& state) {
  auto chat_template = hone::text::ChatTemplate::parse(template_source()).or_throw(hone::ExitCode::bad_data, "template");
  hone::Json variables = twenty_turns();
  for (auto _ : state) benchmark::DoNotOptimize(chat_template.render(variables).ok());
}
BENCHMARK(render_twenty_turns);

}  // namespace

BENCHMARK_MAIN();
