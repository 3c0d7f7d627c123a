// Converts OpenAI's and vLLM's sampling fields to the engine's.
#include <charconv>

#include "hone/serve/chat/task.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

constexpr size_t kLongestStop = 256;

std::vector<std::pair<text::TokenId, float>> read_bias(const Json& bias, const text::Tokenizer& tokenizer) {
  std::vector<std::pair<text::TokenId, float>> out;
  for (const auto& [key, value] : bias.items()) {
    text::TokenId id = -1;
    auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), id);
    bool known = status == std::errc() && end == key.data() + key.size() && id >= 0 && static_cast<size_t>(id) < tokenizer.size();
    if (!known) bad_value("logit_bias", fmt::format("\"{}\" is not a token id of this model", key.substr(0, 32)));
    if (!value.is_number() || std::abs(value.get<double>()) > 100)
      bad_value("logit_bias." + key, "expected a number from -100 to 100");
    out.emplace_back(id, value.get<float>());
  }
  return out;
}

ResponseFormat schema_shape(const Json& value, const std::string& where) {
  if (value.is_object() || value.is_boolean()) return {ResponseFormat::Kind::schema, value, where};
  if (!value.is_string()) bad_value(where, "expected a JSON schema");
  auto parsed = parse_json(value.get_ref<const std::string&>(), {.depth = 64});
  if (!parsed || !parsed->is_object()) bad_value(where, "expected a JSON schema");
  return {ResponseFormat::Kind::schema, std::move(*parsed), where};
}

ResponseFormat choice_shape(const Json& value, const std::string& where) {
  if (!value.is_array() || value.empty() || value.size() > 256) bad_value(where, "expected a list of 1 to 256 texts");
  for (const auto& item : value)
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) bad_value(where, "expected texts that are not empty");
  return {ResponseFormat::Kind::choice, value, where};
}

ResponseFormat response_format_shape(const Json& format) {
  auto type = format.value("type", Json());
  if (type == "text") return {};
  if (type == "json_object") return {ResponseFormat::Kind::object, {}, "response_format"};
  if (type != "json_schema") bad_value("response_format.type", "expected text, json_object or json_schema");
  auto holder = format.value("json_schema", Json());
  if (!holder.is_object()) bad_value("response_format.json_schema", "expected an object with name and schema");
  constexpr auto kWhere = "response_format.json_schema.schema";
  if (!holder.contains("schema")) bad_value(kWhere, "found nothing; expected a JSON schema");
  return schema_shape(holder["schema"], kWhere);
}

ResponseFormat structured_shape(const Json& asked) {
  ResponseFormat shape;
  size_t kinds = 0;
  for (const auto& [key, value] : asked.items()) {
    if (value.is_null()) continue;
    auto where = "structured_outputs." + key;
    if (key == "json")
      shape = schema_shape(value, where);
    else if (key == "choice")
      shape = choice_shape(value, where);
    else if (key == "json_object" && value == true)
      shape = {ResponseFormat::Kind::object, {}, where};
    else if (key == "regex" && value.is_string())
      shape = {ResponseFormat::Kind::regex, value, where};
    else
      bad_value(where, "expected one of json, regex, choice, json_object");
    ++kinds;
  }
  if (kinds != 1) bad_value("structured_outputs", "expected exactly one of json, regex, choice, json_object");
  return shape;
}

engine::EarlyStopping read_early_stopping(const Json& value) {
  if (value.is_null()) return engine::EarlyStopping::no;
  if (value.is_boolean()) return value.get<bool>() ? engine::EarlyStopping::yes : engine::EarlyStopping::no;
  if (value != "never") bad_value("early_stopping", "expected true, false or \"never\"");
  return engine::EarlyStopping::never;
}

// vLLM's use_beam_search keeps as many beams as requested choices and never samples; num_beams is ms-swift's.
void read_beams(const Fields& fields, engine::SamplingParams& sampling) {
  int64_t num_completions = fields.integer("n", 1);
  sampling.num_beams = fields.integer("num_beams", sampling.num_beams);
  if (fields.flag("use_beam_search", false)) {
    sampling.num_beams = std::max(sampling.num_beams, num_completions);
    sampling.temperature = 0;
  }
  sampling.length_penalty = fields.real("length_penalty", sampling.length_penalty);
  if (fields.has("early_stopping")) sampling.early_stopping = read_early_stopping(fields.json("early_stopping"));
  if (sampling.num_beams > 1 && num_completions > sampling.num_beams)
    bad_value("n", fmt::format("found {}; {} beams return at most as many completions", num_completions, sampling.num_beams));
}

}  // namespace

std::vector<text::TokenId> read_token_ids(const Json& list, const std::string& where, const text::Tokenizer& tokenizer) {
  std::vector<text::TokenId> ids;
  for (const auto& item : list) {
    bool known =
        item.is_number_integer() && item.get<double>() >= 0 && item.get<double>() < static_cast<double>(tokenizer.size());
    if (!known) bad_value(fmt::format("{}[{}]", where, ids.size()), "not a token id of this model");
    ids.push_back(item.get<text::TokenId>());
  }
  return ids;
}

ResponseFormat read_response_format(const Fields& fields, Endpoint endpoint) {
  std::vector<ResponseFormat> asked;
  if (fields.has("response_format"))
    if (auto shape = response_format_shape(fields.json("response_format")); shape.kind != ResponseFormat::Kind::free)
      asked.push_back(std::move(shape));
  if (fields.has("structured_outputs")) asked.push_back(structured_shape(fields.json("structured_outputs")));
  if (fields.has("guided_json")) asked.push_back(schema_shape(fields.json("guided_json"), "guided_json"));
  if (fields.has("guided_regex")) asked.push_back({ResponseFormat::Kind::regex, fields.json("guided_regex"), "guided_regex"});
  if (fields.has("guided_choice")) asked.push_back(choice_shape(fields.json("guided_choice"), "guided_choice"));
  if (endpoint == kChat && fields.has("structured_outputs_regex"))
    asked.push_back({ResponseFormat::Kind::regex, fields.json("structured_outputs_regex"), "structured_outputs_regex"});
  if (asked.size() > 1)
    throw ApiError(400, fmt::format("{} and {} both set the output format; give one of them", asked[0].where, asked[1].where),
                   asked[1].where, "invalid_value");
  return asked.empty() ? ResponseFormat{} : asked[0];
}

StreamOptions read_stream(const Fields& fields) {
  StreamOptions stream{.on = fields.flag("stream", false)};
  const auto& options = fields.json("stream_options");
  if (options.is_null()) return stream;
  if (!stream.on) bad_value("stream_options", "requires stream true");
  for (const auto& [name, value] : options.items()) {
    if (!value.is_boolean()) bad_value("stream_options." + name, "expected true or false");
    if (name == "include_usage")
      stream.usage_at_end = value.get<bool>();
    else if (name == "continuous_usage_stats")
      stream.usage_in_every_event = value.get<bool>();
    else if (name != "include_obfuscation")
      bad_value("stream_options." + name, "expected include_usage or continuous_usage_stats");
  }
  return stream;
}

void read_sampling(const Fields& fields, const ServedModel& served, engine::SamplingParams& sampling) {
  sampling = served.defaults;
  sampling.temperature = fields.real("temperature", sampling.temperature);
  sampling.top_p = fields.real("top_p", sampling.top_p);
  sampling.top_k = std::max<int64_t>(0, fields.integer("top_k", sampling.top_k));
  sampling.min_p = fields.real("min_p", sampling.min_p);
  sampling.batch_invariant = fields.has("seed");
  sampling.seed = sampling.batch_invariant ? static_cast<uint64_t>(fields.integer("seed", 0)) : fresh_seed();
  sampling.repetition_penalty = fields.real("repetition_penalty", sampling.repetition_penalty);
  sampling.presence_penalty = fields.real("presence_penalty", 0);
  sampling.frequency_penalty = fields.real("frequency_penalty", 0);
  sampling.min_tokens = fields.integer("min_tokens", 0);
  sampling.ignore_eos = fields.flag("ignore_eos", false);
  sampling.include_stop_str_in_output = fields.flag("include_stop_str_in_output", false);
  sampling.skip_special_tokens = fields.flag("skip_special_tokens", true);
  for (auto& text : fields.texts("stop", 16, kLongestStop)) sampling.stop.push_back(std::move(text));
  if (fields.has("stop_token_ids"))
    sampling.stop_tokens = read_token_ids(fields.json("stop_token_ids"), "stop_token_ids", *served.tokenizer);
  if (fields.has("logit_bias")) sampling.logit_bias = read_bias(fields.json("logit_bias"), *served.tokenizer);
  for (const auto& word : fields.texts("bad_words", 64, kLongestStop))
    for (const auto& spelling : {word, " " + word}) sampling.bad_words.push_back(served.tokenizer->encode(spelling));
}

void read_search(const Fields& fields, const ServedModel& served, engine::SamplingParams& sampling) {
  read_beams(fields, sampling);
  if (fields.has("prompt_logprobs")) {
    if (fields.flag("stream", false)) bad_value("prompt_logprobs", "is not supported with stream");
    sampling.prompt_logprobs = fields.integer("prompt_logprobs", 0);
    if (*sampling.prompt_logprobs > served.max_logprobs)
      bad_value("prompt_logprobs",
                fmt::format("found {}; this server returns at most {}", *sampling.prompt_logprobs, served.max_logprobs));
  }
}

}  // namespace hone::serve
