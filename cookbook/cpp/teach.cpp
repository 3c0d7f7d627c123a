// teach MODEL FILE OUTPUT QUESTION: trains a LoRA adapter on the rows of FILE, then asks the model QUESTION with it.
#include <hone/data/encode/encoder.h>
#include <hone/engine/engine.h>
#include <hone/model/causal_lm.h>
#include <hone/train/run.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 5) return std::puts("usage: teach MODEL FILE OUTPUT QUESTION"), 2;
  const std::string folder = argv[1], output = argv[3];

  hone::train::TrainingJob job;
  job.model_folder = job.model_name = folder;
  job.datasets.datasets = {argv[2]};
  job.tuner.lora.rank = 16;
  job.loader.batch_size = job.trainer.micro_batch_size = 8;
  job.schedule.learning_rate = 2e-3;
  job.trainer.epochs = 15;
  job.trainer.output_dir = output;
  job.trainer.add_version = false;
  job.trainer.checkpoint_links = true;
  if (int code = hone::train::run_training(job)) return code;

  auto tokenizer = hone::text::Tokenizer::load(folder);
  auto encoder = hone::data::Encoder::make({}, tokenizer, hone::data::read_model_identity(folder));
  auto model = hone::model::CausalLM::load(folder);
  hone::engine::Engine engine(*model, tokenizer);
  engine.load_adapter("taught", output + "/last");
  hone::engine::Request request{.adapter = "taught"};
  request.prompt = encoder->encode_prompt({.messages = {{.role = "user", .content = argv[4]}}}).value();
  request.sampling.eos_token_ids = encoder->stop_ids();
  std::puts(hone::engine::generate(engine, {request})[0].text.c_str());
} catch (const hone::UserError& error) {
  return std::fprintf(stderr, "error: %s\n  hint: %s\n", error.what(), error.hint().c_str()), static_cast<int>(error.code());
}
