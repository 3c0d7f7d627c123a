// Learning signals in addition to rewards: teachers, demonstrations, a synchronized reference.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_policy_guidance(Rows& rows) {
  add_group(
      rows, "GRPO: teachers", kRlhf,
      {
          {"teacher_kl_coef", Real(0), "1.0", "Weight of the teacher's log-ratio, which is added to the advantage of each token.",
           only_swift{}},
          {"advantage_reweight", Choice("rlsd"), "",
           "RLSD: weigh the advantage of each token by the teacher's log-ratio instead.", only_swift{}},
          {"rlsd_lambda", Real(0, 1), "0.5", "RLSD: share of the reweighting (lambda).", only_swift{}},
          {"rlsd_reweight_clip_range", Real(0), "0.2", "RLSD: clipping range of the weight around 1.", only_swift{}},
          {"rlsd_lambda_warmup_steps", Integer(0), "0", "RLSD: steps over which lambda rises from 0.", only_swift{}},
          {"rlsd_lambda_decay_steps", Integer(0), "0", "RLSD: steps over which it then falls to 0; 0 keeps it.", only_swift{}},
          {"rlsd_negative_only", Flag, "false", "RLSD: reweight only negative advantages.", only_swift{}},
          {"sdar_loss_coef", Real(0), "0",
           "SDAR: weight of distilling the teacher on tokens to which it gives a higher probability.", only_swift{}},
          {"sdar_gate_beta", Real(), "5.0", "SDAR: sharpness of that gate.", only_swift{}},
      });
  add_group(rows, "GRPO: demonstrations", kRlhf,
            {
                {"chord_sft_dataset", List, "", "CHORD: datasets of demonstrations, trained on together with the completions.",
                 only_swift{}},
                {"chord_sft_per_device_train_batch_size", Integer(1), "",
                 "CHORD: demonstration rows per batch of completions and device.", only_swift{}},
                {"chord_enable_phi_function", Flag, "false", "CHORD: weigh tokens of these rows by p (1 - p).", only_swift{}},
                {"chord_mu_warmup_steps", Integer(0), "",
                 "CHORD: steps over which mu, the weight of the demonstrations' loss, rises from 0.", only_swift{}},
                {"chord_mu_decay_steps", Integer(0), "", "CHORD: steps over which it then falls.", only_swift{}},
                {"chord_mu_peak", Real(0), "", "CHORD: peak of mu.", only_swift{}},
                {"chord_mu_valley", Real(0), "", "CHORD: final value of mu.", only_swift{}},
            });
  add_group(
      rows, "Reference", kRlhf,
      {
          {"sync_ref_model", Flag, "false", "Synchronize the reference with the policy (TR-DPO); for full tuning.", only_swift{}},
          {"ref_model_sync_steps", Integer(1), "512", "Steps between synchronizations.", only_swift{}},
          {"ref_model_mixup_alpha", Real(0, 1), "0.6", "Mixing weight of the policy in a synchronization.", only_swift{}},
      });
}

}  // namespace hone::cli::table
