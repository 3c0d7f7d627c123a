// Everything the server keeps across a restart. Any thread may call; every call is one transaction, on the disk when it returns.
// Calls that write at the same time share a commit, and those that read wait for none. What belongs to another owner is as good
// as absent.
#pragma once
#include <mutex>
#include <set>
#include <vector>

#include "hone/base/json.h"
#include "hone/tinker/state/group_commit.h"

namespace hone::tinker {

struct Session {
  std::string id, owner;
  bool finished = false;
  Json info;  // tags, user_metadata, sdk_version as the client gave them
};

struct RunConfig {
  int64_t rank = 32;
  double alpha = 32;  // as the tinker SDK has it, which cannot send another
  uint64_t seed = 0;
  bool train_attn = true, train_mlp = true, train_unembed = true;
  double dropout = 0;  // of Twinkle's client

  Json to_json() const;
  static RunConfig from_json(const Json& json);
};

struct Run {
  std::string id, session, owner;
  RunConfig config;
  Json user_metadata;
  double used = 0;           // seconds since 1970, of the last request
  int64_t executed = 0;      // the last request that is done; -1: not the one that loads its first weights
  int64_t snapshot_seq = 0;  // the last one whose effect `snapshot` holds, if there is one
  std::string snapshot;      // folder
  bool unloaded = false;
};

struct StoredRequest {
  int64_t seq = 0;
  std::string kind, body;
  bool done = false, failed = false;
  std::string result, content_type;
};

struct Checkpoint {
  std::string run, kind, name, owner, folder;  // kind: weights or sampler_weights
  RunConfig config;
  int64_t bytes = 0;
  double created = 0;
  std::optional<double> expires = {};
  bool is_public = false;
  Json user_metadata = {};

  std::string id() const { return kind + "/" + name; }
  std::string path() const { return "tinker://" + run + "/" + id(); }
};

struct SamplerRow {
  std::string id, session, owner;
  std::string model_path;  // the named checkpoint it samples from; "" for the base model and for unnamed weights
  std::string folder;      // of unnamed weights; "" where there are none
  int64_t bytes = 0;       // of this folder
};

struct Page {
  int64_t limit = 100, offset = 0;
};

double unix_seconds();
// Removes what is saved in `folder`, which a folder of its own contains. Empty: nothing.
void remove_saved(const std::string& folder);
int64_t saved_bytes(const std::filesystem::path& folder);  // of its files; 0 if it is missing

class Store {
 public:
  explicit Store(const std::filesystem::path& file);

  // False: the id belongs to another owner. An existing session stays unchanged.
  bool add_session(const Session& session);
  std::optional<Session> session(const std::string& id, const std::string& owner);
  std::vector<std::string> sessions(const std::string& owner, Page page);
  void finish_session(const std::string& id);

  // False: the id already exists.
  bool add_run(const Run& run, const StoredRequest& creation);
  std::optional<Run> run(const std::string& id, const std::string& owner);
  std::optional<Run> run_of_any_owner(const std::string& id);
  std::vector<Run> runs(const std::string& owner, Page page);
  int64_t count_runs(const std::string& owner);
  std::vector<std::string> runs_of_session(const std::string& session);
  void set_unloaded(const std::string& run);
  // Data that a client's library stores with a run on the server. Null if there are none.
  Json settings(const std::string& run);
  void set_settings(const std::string& run, const Json& settings);
  // The snapshot includes requests up to `seq`: their bodies are no longer needed. `bytes`: of its folder.
  void set_snapshot(const std::string& run, int64_t seq, const std::string& folder, int64_t bytes);
  // For a run that is not restored any more: removes the data of its requests and returns the folder of its snapshot.
  std::string drop_snapshot(const std::string& run);

  enum class Added { fresh, repeated, differs };
  Added add_request(const std::string& run, const StoredRequest& request);
  // For a run whose requests this server numbers: the assigned number.
  int64_t append_request(const std::string& run, StoredRequest request);
  std::optional<StoredRequest> request(const std::string& run, int64_t seq);
  // The same without its body, for waiting clients.
  std::optional<StoredRequest> result(const std::string& run, const std::string& owner, int64_t seq);
  // Finished requests after the snapshot, in order, with bodies: for restoring a run.
  std::vector<StoredRequest> requests_after(const std::string& run, int64_t seq);
  // Stores the results of requests of several runs in one transaction. Bodies that rebuilding does not read are removed.
  void finish_requests(const std::vector<std::pair<std::string, StoredRequest>>& requests);
  bool has_weights();  // of any owner: runs that are not unloaded, checkpoints, samplers
  std::vector<std::pair<std::string, int64_t>> pending_requests();
  struct Pending {
    int64_t requests = 0, bytes = 0;  // bytes of their data
  };
  Pending pending(const std::string& owner);

  // Returns the folder of the checkpoint of this name that it replaces, "" if there is none.
  std::string add_checkpoint(const Checkpoint& checkpoint);
  // By its path, tinker:// or twinkle://, if it belongs to this owner or is public.
  std::optional<Checkpoint> checkpoint(const std::string& path, const std::string& owner);
  std::vector<Checkpoint> checkpoints(const std::string& owner, const std::string& run, Page page);  // run "": of all
  int64_t count_checkpoints(const std::string& owner, const std::string& run);
  int64_t checkpoint_bytes(const std::string& owner);  // of named checkpoints, unnamed sampler weights and snapshots
  void remove_checkpoint(const Checkpoint& checkpoint);
  void set_public(const Checkpoint& checkpoint, bool is_public);
  void set_expiry(const Checkpoint& checkpoint, std::optional<double> expires);
  std::vector<Checkpoint> expired_checkpoints();

  bool add_sampler(const SamplerRow& sampler);
  std::optional<SamplerRow> sampler(const std::string& id, const std::string& owner);
  std::vector<std::string> samplers_of_session(const std::string& session);
  // Folders of a session's unnamed weights beyond the newest `kept`; their rows are removed.
  std::vector<std::string> drop_old_samplers(const std::string& session, int64_t kept);
  // The oldest of an owner until its files take less than `max_bytes`, except for the newest `kept` of each session. Null, and
  // none is removed, if that does not suffice.
  std::optional<std::vector<std::string>> drop_samplers_to_fit(const std::string& owner, int64_t max_bytes, int64_t kept);
  // The same for all sessions that are older than this many seconds.
  std::vector<std::string> drop_samplers_older_than(double seconds);
  std::set<std::string> folders();  // all that something above names
  // Removes results that were not retrieved within this many seconds.
  void forget_results(double older_than);

 private:
  Database writer_, reader_;
  GroupCommit commits_{writer_};
  std::mutex reading_;
};

}  // namespace hone::tinker
