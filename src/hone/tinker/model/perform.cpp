// The effect of each kind of request on its run; requests that need model passes are in round.cpp.
#include <algorithm>
#include <cctype>

#include "hone/base/error.h"
#include "hone/serve/http/head.h"
#include "hone/tinker/model/model_loop.h"
#include "hone/tinker/wire/json_fields.h"
#include "hone/train/checkpoints/checkpoint.h"

namespace hone::tinker {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kUnnamedKept = 64;         // unnamed sampler weights of a session …
constexpr int64_t kUnnamedKeptWhenFull = 4;  // … and at least, once its tenant's files take what they may

Json parsed_request(const std::string& body) {
  auto json = parse_json(body);
  if (!json || !json->is_object()) throw RequestError("the request is not a JSON object");
  return std::move(*json);
}

Outcome success(const Json& json) { return {.failed = false, .body = json.dump()}; }

// Names are part of tinker:// paths, never of file names.
std::string checkpoint_name_in(const Json& body) {
  return required_name(body, "path", 128, "the name of a checkpoint has letters, digits, . _ and - alone, 128 of them at most");
}

}  // namespace

Outcome ModelLoop::perform(Resident& resident, const StoredRequest& request) {
  const auto body = parsed_request(request.body);
  if (request.kind == "optim_step") return optim_step(resident, request, body);
  if (request.kind == "save_weights") return save_weights(resident, request, body);
  if (request.kind == "save_weights_for_sampler") return save_for_sampler(resident, request, body);
  if (request.kind == "grad_norm")
    return success({{"grad_norm", resident.run->grad_norm() * real_field(body, "scale", 1, 0, 1)}});
  if (request.kind == "zero_grad") {
    resident.run->clear_gradients();
    return success(Json::object());
  }
  HONE_CHECK(request.kind == "load_weights");
  return load_weights(resident, request, body);
}

Outcome ModelLoop::optim_step(Resident& resident, const StoredRequest& request, const Json& body) {
  const char* key = has_field(body, "adam_params") ? "adam_params" : "optim_params";
  if (!has_field(body, key) || !body[key].is_object())
    throw RequestError("optim_step: expected adam_params; other optimizers are not supported by this server");
  if (auto type = text_field(body[key], "type", "adamw"); type != "adamw")
    throw RequestError(fmt::format("the optimizer \"{}\" is not supported by this server; expected Adam", type));
  if (!request.done) AdamParams::check(body[key]);
  return success({{"metrics", resident.run->optim_step(AdamParams::from_json(body[key]))}, {"type", "optim_step"}});
}

fs::path ModelLoop::write_files(const Resident& resident, int64_t seq, const char* where, bool optimizer,
                                const Record& record) const {
  const auto folder = config_.root / where / serve::fresh_id("");
  try {
    fs::create_directories(folder);
    train::CheckpointWriter writer(folder, {.run_id = resident.row.id, .step = seq});
    writer.part([&](const fs::path& staging) {
      resident.run->save_weights(staging);
      if (optimizer) resident.run->save_optimizer(staging);
    });
    const auto written = writer.commit();
    record(written);
    return written;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
}

// Unnamed weights make room for others: clients save some with every step, and read the newest.
void ModelLoop::require_space(const Run& run) {
  const auto own = config_.tenants.of(run.owner).checkpoint_bytes;
  const auto most = own > 0 ? own : config_.checkpoint_bytes;
  if (most <= 0 || store_.checkpoint_bytes(run.owner) < most) return;
  const auto dropped = store_.drop_samplers_to_fit(run.owner, most, kUnnamedKeptWhenFull);
  if (!dropped)
    throw RequestError(
        fmt::format("your checkpoints, unnamed sampler weights and snapshots of runs have reached the limit of {:.3g} GB; delete "
                    "checkpoints or give them a TTL, unload models, or end a session, which keeps its newest {} unnamed weights "
                    "until then",
                    static_cast<double>(most) / 1e9, kUnnamedKeptWhenFull));
  for (const auto& folder : *dropped) remove_saved(folder);
}

// A request executed twice, because its completion was not stored the first time, finds its own checkpoint and keeps it.
std::string ModelLoop::save_named(Resident& resident, const StoredRequest& request, const Json& body, const char* kind) {
  Checkpoint checkpoint{.run = resident.row.id,
                        .kind = kind,
                        .name = checkpoint_name_in(body),
                        .owner = resident.row.owner,
                        .folder = {},
                        .config = resident.row.config,
                        .created = unix_seconds()};
  checkpoint.user_metadata = body.value("user_metadata", Json());
  if (has_field(body, "ttl_seconds")) checkpoint.expires = checkpoint.created + ttl_seconds(body);
  const bool overwrites = flag_field(body, "overwrite", false);
  if (const auto known = store_.checkpoint(checkpoint.path(), checkpoint.owner)) {
    const auto manifest = train::read_manifest(known->folder);
    if (manifest && manifest->step == request.seq) return checkpoint.path();
    if (!overwrites)
      throw RequestError(
          fmt::format("this model has a checkpoint called \"{}\" already; pass overwrite=True or another name", checkpoint.name));
  }
  require_space(resident.row);
  std::string replaced;
  write_files(resident, request.seq, "checkpoints", checkpoint.kind == "weights", [&](const fs::path& folder) {
    checkpoint.folder = folder.string();
    checkpoint.bytes = saved_bytes(folder);
    replaced = store_.add_checkpoint(checkpoint);
  });
  remove_saved(replaced);
  return checkpoint.path();
}

Outcome ModelLoop::save_weights(Resident& resident, const StoredRequest& request, const Json& body) {
  return success({{"path", save_named(resident, request, body, "weights")}, {"type", "save_weights"}});
}

// Numbers of samplers are the client's: one that names other weights must not be sampled from in their place.
Outcome ModelLoop::save_for_sampler(Resident& resident, const StoredRequest& request, const Json& body) {
  if (has_field(body, "path"))
    return success({{"path", save_named(resident, request, body, "sampler_weights")}, {"type", "save_weights_for_sampler"}});
  const auto number = required_integer(body, "sampling_session_seq_id", 0);
  const auto id = fmt::format("{}:sample:{}", resident.row.session, number);
  const auto done = success({{"sampling_session_id", id}, {"type", "save_weights_for_sampler"}});
  const RequestError taken(fmt::format(
      "sampling_session_seq_id {} names another sampler of this session already; use a number that none of them has", number));
  if (const auto known = store_.sampler(id, resident.row.owner)) {
    const auto manifest = train::read_manifest(known->folder);
    if (manifest && manifest->run_id == resident.row.id && manifest->step == request.seq)
      return done;  // saved by this request, whose completion was not stored
    throw taken;
  }
  require_space(resident.row);
  write_files(resident, request.seq, "samplers", false, [&](const fs::path& folder) {
    if (!store_.add_sampler({.id = id,
                             .session = resident.row.session,
                             .owner = resident.row.owner,
                             .model_path = {},
                             .folder = folder.string(),
                             .bytes = saved_bytes(folder)}))
      throw taken;
  });
  for (const auto& old : store_.drop_old_samplers(resident.row.session, kUnnamedKept)) remove_saved(old);
  return done;
}

// Takes a snapshot at once: the checkpoint may be gone when the run is restored.
Outcome ModelLoop::load_weights(Resident& resident, const StoredRequest& request, const Json& body) {
  if (has_field(body, "weights_access_token")) throw RequestError("weights_access_token is not supported by this server");
  const auto path = required_text(body, "path");
  const auto checkpoint = store_.checkpoint(path, resident.row.owner);
  if (!checkpoint) throw RequestError(fmt::format("there is no checkpoint {}", path));
  resident.run->load(checkpoint->folder, flag_field(body, "optimizer", false));
  take_snapshot(resident, request.seq);
  return success({{"path", path}, {"model_id", resident.row.id}, {"type", "load_weights"}});
}

}  // namespace hone::tinker
