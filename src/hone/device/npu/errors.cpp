#include "hone/device/npu/errors.h"

#include "hone/device/npu/hccl.h"

namespace hone::device::npu {
namespace {

struct Known {
  std::string_view mark;
  ExitCode code;
  std::string_view cause, advice;
};

// The first match applies: specific patterns come before those common to many failures.
constexpr Known kKnown[] = {
    {"507010", ExitCode::failure, "the card stopped answering (lost heartbeat, 507010)",
     "look at npu-smi info; when the card is not healthy, reset or replace it, then resume from the last checkpoint"},
    {"207001", ExitCode::out_of_memory, "the card's memory is full (207001)",
     "smaller `per_device_train_batch_size` or `max_length`, `gradient_checkpointing` true, or "
     "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True; "
     "npu-smi info shows who else uses the card"},
    {"NPU out of memory", ExitCode::out_of_memory, "the card's memory is full",
     "smaller `per_device_train_batch_size` or `max_length`, `gradient_checkpointing` true, or "
     "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True; "
     "npu-smi info shows who else uses the card"},
    {"EI0002", ExitCode::lost_peer, "a collective timed out: another rank did not reach it (EI0002)",
     "the first rank that failed says why; when a rank is only slow, raise HCCL_EXEC_TIMEOUT"},
    {"EI0006", ExitCode::lost_peer, "not every rank joined in time (EI0006)",
     "the first rank that failed says why; give every node the same HCCL_SOCKET_IFNAME, raise HCCL_CONNECT_TIMEOUT when ranks "
     "start late"},
    {"operator name is Hccl", ExitCode::lost_peer, "a collective failed on this rank",
     "torch_npu's lines above hold HCCL's code: EI0002 means that another rank did not reach it in time (HCCL_EXEC_TIMEOUT)"},
    {"EJ0001", ExitCode::lost_peer, "HCCL could not start: its ports on the card are taken (EJ0001)",
     "a process of an earlier run is still there: npu-smi info lists it; end it, or give this job its own HCCL_IF_BASE_PORT"},
    {"507015", ExitCode::failure, "a kernel on the card failed (aicore exception, 507015)",
     "ASCEND_LAUNCH_BLOCKING=1 names the operator that failed; `enable_npu_model_patch` false avoids fused operators"},
    {"507018", ExitCode::failure, "a kernel on the card's own CPU failed (507018)",
     "ASCEND_LAUNCH_BLOCKING=1 names the operator that failed"},
    {"561103", ExitCode::failure, "CANN has no kernel for this operator, type or shape (561103)",
     "usually torch_npu and CANN do not belong together: hone doctor says which versions do"},
    {"EE2002", ExitCode::usage, "ASCEND_RT_VISIBLE_DEVICES is not a list CANN takes (EE2002)",
     "numbers of existing cards, ascending, with commas and without blanks: ASCEND_RT_VISIBLE_DEVICES=0,1"},
    {"161002", ExitCode::failure, "an operator refused its arguments (161002)", "ASCEND_LAUNCH_BLOCKING=1 names the operator"},
    {"107002", ExitCode::failure, "an operator ran before the process had chosen its card (107002)",
     "this is a mistake in hone; please report it with the command line"},
    {"507011", ExitCode::failure, "a task on the card did not end in time (507011)",
     "ASCEND_LAUNCH_BLOCKING=1 names the operator; npu-smi info shows whether another process holds the card"},
    {"507053", ExitCode::failure, "the card's memory has an error that could not be corrected (507053)",
     "npu-smi info -t ecc shows it; resume from the last checkpoint on another card and have this one reset"},
    {"507899", ExitCode::failure, "the driver failed (507899)",
     "dmesg and npu-smi info say more; driver and CANN must belong together: hone doctor"},
    {"EI0004", ExitCode::usage, "the rank table does not fit this run (EI0004)",
     "RANK_TABLE_FILE must list every rank once; unset it when the cluster gives none"},
    {"EI0001", ExitCode::usage, "an HCCL variable holds what HCCL does not take (EI0001)",
     "hone doctor lists the HCCL variables that are set"},
    {"EE9999", ExitCode::failure, "an inner error of CANN's runtime (EE9999)",
     "npu-smi info shows the card's health; ASCEND_LAUNCH_BLOCKING=1 names the operator that failed"},
    {"EZ3002", ExitCode::failure, "CANN does not know this operator type (EZ3002)",
     "torch_npu and CANN do not belong together: hone doctor"},
    {"107001", ExitCode::usage, "there is no such card (107001)",
     "hone devices lists them; ASCEND_RT_VISIBLE_DEVICES hides all it does not name"},
    {"undefined symbol", ExitCode::usage, "libraries of different releases are mixed",
     "hone doctor says which versions belong together"},
    {"cannot open shared object file", ExitCode::usage, "a library of CANN was not found",
     "source CANN's set_env.sh in this shell"},
    {"EZ9999", ExitCode::failure, "an inner error of CANN (EZ9999)", "ASCEND_LAUNCH_BLOCKING=1 names the operator that failed"},
};

}  // namespace

std::optional<Explanation> explain(std::string_view text) {
  for (const auto& known : kKnown)
    if (text.find(known.mark) != text.npos) {
      bool waiting = known.code == ExitCode::lost_peer;
      return Explanation{known.code, std::string(known.cause),
                         std::string(known.advice) + (waiting ? "; here " + describe_hccl_timeouts() : "")};
    }
  return std::nullopt;
}

}  // namespace hone::device::npu
