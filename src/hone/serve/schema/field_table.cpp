#include "hone/serve/schema/fields.h"

namespace hone::serve {
namespace {

constexpr double kBillion = 1e9;
constexpr double kLongText = 32 << 20;
constexpr std::string_view kHosted = "an account's setting on OpenAI's service; there is no account here";
constexpr std::string_view kOneModel = "part of OpenAI's service, not of a model";

constexpr Field kFields[] = {
    // name, endpoints, kind, low, high, default, help, why it has no effect, required
    {"model", kGenerates | kResponse | kEmbedding | kTokenize | kDetokenize | kClassify | kRerank | kScorePairs | kScoreTexts,
     FieldKind::text, 1, 512, "the served model", "The served model's name, or an adapter's.", ""},
    {"messages", kChat | kMessages, FieldKind::list, 1, 4096, "", "The conversation.", "", true},
    {"messages", kTokenize, FieldKind::list, 1, 4096, "", "A conversation, rendered with the model's template.", ""},
    {"prompt", kCompletion, FieldKind::any, 0, 0, "", "A text, a list of texts (at most 64), token ids, or a list of those.", "",
     true},
    {"prompt", kTokenize, FieldKind::text, 0, kMostTokenizedBytes, "", "A text.", ""},
    {"input", kEmbedding, FieldKind::any, 0, 0, "", "A text, a list of texts (at most 256), token ids, or a list of those.", "",
     true},
    {"input", kResponse, FieldKind::any, 0, 0, "", "A text, or a list of messages, function calls, their outputs and reasoning.",
     "", true},
    {"instructions", kResponse, FieldKind::text, 0, kLongText, "", "The system prompt.", ""},
    {"system", kMessages, FieldKind::any, 0, 0, "", "The system prompt: a text, or a list of text blocks.", ""},
    {"suffix", kCompletion, FieldKind::text, 0, 0, "", "Text after the completion.",
     "only an empty one is accepted: text is generated forwards"},
    {"echo", kCompletion, FieldKind::flag, 0, 1, "false", "Return the prompt before the completion.", ""},
    {"best_of", kCompletion, FieldKind::integer, 1, 64, "n", "Completions to generate; the n most likely are returned.", ""},

    {"max_tokens", kChat, FieldKind::integer, 1, kBillion, "what the context leaves",
     "Maximum number of new tokens; clamped to the rest of the context window.", ""},
    {"max_tokens", kCompletion, FieldKind::integer, 0, kBillion, "16",
     "Maximum number of new tokens, clamped to the rest of the context window; 0 is allowed with echo only.", ""},
    {"max_tokens", kMessages, FieldKind::integer, 1, kBillion, "",
     "Maximum number of new tokens; clamped to the rest of the context window.", "", true},
    {"max_completion_tokens", kChat, FieldKind::integer, 1, kBillion, "", "The newer name of max_tokens.", ""},
    {"max_output_tokens", kResponse, FieldKind::integer, 1, kBillion, "what the context leaves",
     "Maximum number of new tokens; clamped to the rest of the context window.", ""},
    {"min_tokens", kSamples, FieldKind::integer, 0, kBillion, "0", "Shortest completion.", ""},
    {"temperature", kGenerates | kResponse | kRollouts, FieldKind::real, 0, 100, "the server's", "0 is greedy decoding.", ""},
    {"top_p", kGenerates | kResponse | kRollouts, FieldKind::real, 0, 1, "the server's",
     "Smallest set of tokens with this probability.", ""},
    {"top_k", kGenerates | kResponse | kRollouts, FieldKind::integer, -1, kBillion, "the server's",
     "Sample from the k most likely tokens; -1 and 0 are all.", ""},
    {"min_p", kSamples | kRollouts, FieldKind::real, 0, 1, "the server's", "Only tokens this likely relative to the best.", ""},
    {"n", kOpenAi, FieldKind::integer, 1, 64, "1", "Completions.", ""},
    {"seed", kSamples, FieldKind::integer, -9.2e18, 9.2e18, "drawn", "The same seed gives the same completion.", ""},
    {"stop", kSamples | kRollouts, FieldKind::text_or_list, 0, 16, "", "Stop strings, each of at most 256 bytes.", ""},
    {"stop_sequences", kMessages, FieldKind::list, 0, 16, "", "Stop strings, each of at most 256 bytes.", ""},
    {"stop_token_ids", kSamples, FieldKind::list, 0, 64, "", "Stop token ids.", ""},
    {"include_stop_str_in_output", kSamples | kRollouts, FieldKind::flag, 0, 1, "false", "Keep the stop string in the output.",
     ""},
    {"ignore_eos", kSamples, FieldKind::flag, 0, 1, "false", "Ignore the EOS token.", ""},
    {"skip_special_tokens", kSamples, FieldKind::flag, 0, 1, "true", "Special tokens are left out of the text.", ""},
    {"repetition_penalty", kSamples | kRollouts, FieldKind::real, 0.01, 100, "the server's",
     "Above 1 discourages repeats, the prompt's included.", ""},
    {"presence_penalty", kSamples, FieldKind::real, -2, 2, "0", "Values above 0 discourage tokens that occur in the output.", ""},
    {"frequency_penalty", kSamples, FieldKind::real, -2, 2, "0", "The same, for each time.", ""},
    {"logit_bias", kSamples, FieldKind::object, 0, 1024, "", "Token id to what is added to its logit, -100 to 100.", ""},
    {"bad_words", kSamples, FieldKind::list, 0, 64, "",
     "Texts of at most 256 bytes whose token sequences, with and without a leading space, are never generated; other "
     "tokenizations may be.",
     ""},
    {"logprobs", kChat, FieldKind::flag, 0, 1, "false", "Log-probabilities of the output tokens.", ""},
    {"top_logprobs", kChat | kResponse, FieldKind::integer, 0, kBillion, "0",
     "Number of alternatives per token, at most --max_logprobs.", ""},
    {"logprobs", kCompletion, FieldKind::integer, 0, kBillion, "", "The same for completions, as a number of alternatives.", ""},
    {"prompt_logprobs", kOpenAi, FieldKind::integer, 0, kBillion, "", "The prompt's tokens too; not with stream.", ""},
    {"priority", kSamples, FieldKind::integer, -1000, 1000, "0", "Lower goes first.", ""},

    {"stream", kGenerates | kResponse, FieldKind::flag, 0, 1, "false", "Stream the response.", ""},
    {"stream_options", kOpenAi, FieldKind::object, 0, 8, "",
     "include_usage: token counts at the end; continuous_usage_stats: with each event.", ""},
    {"response_format", kChat | kCompletion, FieldKind::object, 0, 8, "text", "text, json_object or json_schema.", ""},
    {"text", kResponse, FieldKind::object, 0, 8, "text",
     "format: text, json_object or a json_schema that the output follows; verbosity has no effect.", ""},
    {"output_config", kMessages, FieldKind::object, 0, 8, "",
     "format: a json_schema that the output follows; effort has no effect.", ""},
    {"structured_outputs", kOpenAi, FieldKind::object, 0, 8, "", "vLLM's: one of json, regex, choice, json_object.", ""},
    {"guided_json", kOpenAi, FieldKind::text_or_object, 0, 1 << 16, "", "vLLM's older name of structured_outputs.json.", ""},
    {"guided_regex", kOpenAi, FieldKind::text, 1, 1 << 16, "", "The same of structured_outputs.regex.", ""},
    {"guided_choice", kOpenAi, FieldKind::list, 1, 256, "", "The same of structured_outputs.choice.", ""},
    {"structured_outputs_regex", kChat, FieldKind::text, 1, 1 << 16, "", "ms-swift's name of structured_outputs.regex.", ""},
    {"tools", kChat | kMessages | kResponse, FieldKind::list, 0, 256, "", "Functions the model may call.", ""},
    {"tools", kTokenize, FieldKind::list, 0, 256, "", "Functions, for messages.", ""},
    {"tool_choice", kChat | kResponse, FieldKind::text_or_object, 0, 64, "auto with tools",
     "none, auto, required or one function.", ""},
    {"tool_choice", kMessages, FieldKind::object, 0, 8, "auto with tools", "type auto, any, tool or none.", ""},
    {"parallel_tool_calls", kChat | kResponse, FieldKind::flag, 0, 1, "true", "Allow several tool calls in a response.", ""},
    {"functions", kChat, FieldKind::list, 0, 256, "", "The older form of tools.", ""},
    {"function_call", kChat, FieldKind::text_or_object, 0, 64, "", "The older form of tool_choice.", ""},
    {"chat_template_kwargs", kChat | kTokenize, FieldKind::object, 0, 16, "",
     "Plain values for the model's template, such as enable_thinking.", ""},
    {"reasoning_effort", kChat, FieldKind::text, 1, 16, "",
     "none switches thinking off where the template can; other values leave it.", ""},
    {"reasoning", kResponse, FieldKind::object, 0, 8, "",
     "effort none switches thinking off where the template can; other values leave it.", ""},
    {"include", kResponse, FieldKind::list, 0, 16, "",
     "message.output_text.logprobs: log-probabilities of the output tokens; others have no effect.", ""},
    {"previous_response_id", kResponse, FieldKind::text, 0, 512, "",
     "Refused: nothing is stored here; send the full conversation as input.", ""},
    {"conversation", kResponse, FieldKind::text_or_object, 0, 512, "",
     "Refused: nothing is stored here; send the full conversation as input.", ""},
    {"background", kResponse, FieldKind::flag, 0, 1, "false", "Rejected when true: responses come with their request.", ""},
    {"truncation", kResponse, FieldKind::text, 1, 16, "disabled", "disabled alone: a conversation is read as it is sent.", ""},
    {"thinking", kMessages, FieldKind::object, 0, 8, "", "type disabled switches thinking off where the template can.", ""},
    {"add_generation_prompt", kChat | kTokenize, FieldKind::flag, 0, 1, "", "",
     "adds a generation prompt unless the last message is the assistant's"},
    {"continue_final_message", kChat, FieldKind::flag, 0, 1, "", "", "a last message of the assistant is always continued"},
    {"separate_reasoning", kChat, FieldKind::flag, 0, 1, "true", "Reasoning goes into reasoning_content.", ""},

    {"encoding_format", kEmbedding, FieldKind::text, 1, 16, "float", "float or base64.", ""},
    {"dimensions", kEmbedding, FieldKind::integer, 1, kBillion, "the model's",
     "Number of leading dimensions to keep, at most the model's.", ""},
    {"pooling", kEmbedding, FieldKind::text, 1, 16, "the model's",
     "Which hidden states become the vector: last, cls, mean, max, weightedmean or mean_sqrt_len.", ""},
    {"add_special_tokens", kCompletion | kTokenize | kEmbedding, FieldKind::flag, 0, 1, "true",
     "Tokens the tokenizer puts around a text.", ""},
    {"return_token_strs", kTokenize, FieldKind::flag, 0, 1, "false", "The tokens as text too.", ""},
    {"tokens", kDetokenize, FieldKind::list, 0, 1'000'000, "", "Token ids.", "", true},
    {"lora_name", kLoadAdapter | kUnloadAdapter, FieldKind::text, 1, 128, "",
     "The adapter's name in requests: words of letters, digits, . _ and -, with / between them.", "", true},
    {"lora_path", kLoadAdapter, FieldKind::text, 1, 512, "",
     "Its folder: relative to --adapter_root, or an absolute path below it.", "", true},
    {"load_inplace", kLoadAdapter, FieldKind::flag, 0, 1, "false", "Replace an adapter of that name.", ""},
    {"lora_int_id", kUnloadAdapter, FieldKind::integer, -kBillion, kBillion, "", "vLLM's number of it.", "adapters go by name"},

    {"prompts", kRollouts, FieldKind::list, 1, 512, "", "Token ids of each prompt.", "", true},
    {"seeds", kRollouts, FieldKind::list, 1, 512, "0 each", "A seed for each prompt.", ""},
    {"max_tokens", kRollouts, FieldKind::integer, 1, kBillion, "16", "Maximum number of new tokens.", ""},
    {"max_tokens_each", kRollouts, FieldKind::list, 1, 512, "max_tokens", "The same for each prompt.", ""},
    {"media", kRollouts, FieldKind::list, 1, 512, "",
     "Images, videos and audio of prompts, each `{\"parts\": […], \"spans\": […]}`: "
     "content parts as of chat messages, and the ranges of tokens that hold their placeholders.",
     ""},
    {"media_each", kRollouts, FieldKind::list, 1, 512, "", "The index in `media` for each prompt.", ""},
    {"eos_token_ids", kRollouts, FieldKind::list, 0, 64, "the model's", "Token ids that end a completion.", ""},
    {"logprobs", kRollouts, FieldKind::flag, 0, 1, "true", "Log-probabilities of the tokens, at the temperature.", ""},
    {"weights_version", kRollouts, FieldKind::integer, 0, kBillion, "any", "Version that must generate; 409 where it is another.",
     ""},

    {"infer_requests", kInfer, FieldKind::list, 1, 256, "",
     "Chats run together: messages, tools and other fields of a chat each.", "", true},
    {"request_config", kInfer, FieldKind::object, 0, 64, "", "Fields of a chat that hold for all of them.", ""},
    {"use_tqdm", kInfer, FieldKind::flag, 0, 1, "", "", "a server shows no progress bar"},

    {"input", kClassify, FieldKind::text_or_list, 0, 256, "", "A text or a list of texts.", "", true},
    {"query", kRerank, FieldKind::text, 1, kLongText, "", "The question.", "", true},
    {"documents", kRerank, FieldKind::list, 1, 256, "", "Documents to rank.", "", true},
    {"top_n", kRerank, FieldKind::integer, 1, kBillion, "all", "Number of most relevant documents to return.", ""},
    {"return_documents", kRerank, FieldKind::flag, 0, 1, "true", "Their texts too.", ""},
    {"text_1", kScorePairs, FieldKind::text_or_list, 0, 256, "", "A question, or one for each of text_2.", "", true},
    {"text_2", kScorePairs, FieldKind::text_or_list, 0, 256, "", "What may answer it.", "", true},
    {"messages", kScoreTexts, FieldKind::list, 1, 256, "", "Texts to score, already in the form of the model's template.", "",
     true},
    {"max_length", kScoreTexts, FieldKind::integer, 1, kBillion, "the model's context",
     "Truncate longer texts to this many tokens.", ""},

    {"user", kSamples | kEmbedding, FieldKind::text, 0, 512, "", "Who asks; shown in the log.", ""},
    {"metadata", kOpenAi | kMessages | kResponse, FieldKind::object, 0, 32, "", "Notes of the client.", kHosted},
    {"store", kChat | kResponse, FieldKind::flag, 0, 1, "", "", "nothing is stored here"},
    {"service_tier", kChat | kMessages | kResponse, FieldKind::text, 0, 64, "", "", kHosted},
    {"inference_geo", kMessages, FieldKind::text, 0, 64, "", "", kHosted},
    {"container", kMessages, FieldKind::text_or_object, 0, 512, "", "", kHosted},
    {"speed", kMessages, FieldKind::text, 0, 64, "", "", kOneModel},
    {"cache_control", kMessages, FieldKind::object, 0, 8, "", "", "prefix caching is always on"},
    {"context_management", kMessages, FieldKind::object, 0, 16, "", "", "a conversation is read as it is sent"},
    {"safety_identifier", kChat | kResponse, FieldKind::text, 0, 512, "", "", kHosted},
    {"prompt_cache_key", kChat | kResponse, FieldKind::text, 0, 512, "", "", "prefix caching is always on"},
    {"prompt_cache_retention", kChat | kResponse, FieldKind::text, 0, 64, "", "", "prefix caching is always on"},
    {"prompt_cache_options", kResponse, FieldKind::object, 0, 8, "", "", "prefix caching is always on"},
    {"max_tool_calls", kResponse, FieldKind::integer, 1, kBillion, "", "",
     "bounds tools that OpenAI's servers run; there are none here"},
    {"context_management", kResponse, FieldKind::list, 0, 16, "", "", "a conversation is read as it is sent"},
    {"stream_options", kResponse, FieldKind::object, 0, 8, "", "", "events are never padded"},
    {"verbosity", kChat, FieldKind::text, 0, 64, "", "", kOneModel},
    {"images", kChat, FieldKind::list, 0, 64, "",
     "ms-swift's: data: URIs, base64 or addresses for the tags <image> in the messages; missing tags go before the first one.",
     ""},
    {"videos", kChat, FieldKind::list, 0, 8, "", "The same for <video>; each a video, or a list of its frames.", ""},
    {"audios", kChat, FieldKind::list, 0, 16, "", "The same for <audio>.", ""},
    {"modalities", kChat, FieldKind::list, 0, 8, "", "Responses are text; \"audio\" is refused.", ""},
    {"audio", kChat, FieldKind::object, 0, 8, "", "", "responses are text"},
    {"prediction", kChat, FieldKind::object, 0, 8, "", "", kOneModel},
    {"num_beams", kOpenAi, FieldKind::integer, 1, 64, "the server's",
     "Number of beams, as in transformers; 1 disables beam search.", ""},
    {"use_beam_search", kOpenAi, FieldKind::flag, 0, 1, "false", "vLLM's: as many beams as completions (n), without sampling.",
     ""},
    {"length_penalty", kOpenAi, FieldKind::real, -100, 100, "the server's",
     "Length penalty of beam search; values above 0 favor longer completions.", ""},
    {"early_stopping", kOpenAi, FieldKind::text_or_flag, 0, 0, "false", "Of beams: true, false or never, as in transformers.",
     ""},
    {"do_sample", kChat, FieldKind::flag, 0, 1, "", "LLaMA-Factory's: false is greedy decoding.", ""},
};

}  // namespace

std::span<const Field> field_table() { return kFields; }

std::string_view path_of(Endpoint endpoint) {
  switch (endpoint) {
    case kChat:
      return "/v1/chat/completions";
    case kCompletion:
      return "/v1/completions";
    case kEmbedding:
      return "/v1/embeddings";
    case kMessages:
      return "/v1/messages";
    case kTokenize:
      return "/tokenize";
    case kDetokenize:
      return "/detokenize";
    case kLoadAdapter:
      return "/v1/load_lora_adapter";
    case kUnloadAdapter:
      return "/v1/unload_lora_adapter";
    case kInfer:
      return "/infer/";
    case kClassify:
      return "/v1/classify";
    case kRerank:
      return "/v1/rerank";
    case kScorePairs:
      return "/v1/score";
    case kScoreTexts:
      return "/v1/score/evaluation";
    case kResponse:
      return "/v1/responses";
    case kRollouts:
      return "/generate/";
  }
  return "";
}

}  // namespace hone::serve
