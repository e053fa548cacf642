#include "study/parts.h"

static const yk_study_loss loss_of[YK_TIME_PARTS] = {
    [YK_TIME_GEMM_QKV] = YK_LOSS_SMALLER_GEMMS,
    [YK_TIME_GEMM_O] = YK_LOSS_SMALLER_GEMMS,
    [YK_TIME_GEMM_GATE_UP] = YK_LOSS_SMALLER_GEMMS,
    [YK_TIME_GEMM_DOWN] = YK_LOSS_SMALLER_GEMMS,
    [YK_TIME_LM_HEAD] = YK_LOSS_SMALLER_GEMMS,
    [YK_TIME_ATTENTION] = YK_LOSS_SMALLER_GEMMS,
    [YK_TIME_OTHER_KERNELS] = YK_LOSS_UNSPLIT,
    [YK_TIME_ALL_REDUCE_TRANSFER] = YK_LOSS_ALL_REDUCE,
    [YK_TIME_ALL_REDUCE_WAIT] = YK_LOSS_IMBALANCE,
    [YK_TIME_LOGITS_GATHER] = YK_LOSS_UNSPLIT,
    [YK_TIME_SAMPLING] = YK_LOSS_UNSPLIT,
    [YK_TIME_LAUNCH_GAP] = YK_LOSS_UNSPLIT,
    [YK_TIME_HOST] = YK_LOSS_UNSPLIT,
    [YK_TIME_STATES] = YK_LOSS_SMALLER_GEMMS,
};

const char *yk_study_loss_name(yk_study_loss loss)
{
  static const char *const names[] = {"all_reduce", "imbalance", "smaller_gemms", "unsplit"};
  return names[loss];
}

void yk_study_losses_compute(int base_ranks, double base_token_s, const double base_shares[YK_TIME_PARTS], int ranks,
                             double token_s, const double shares[YK_TIME_PARTS], double losses[YK_LOSSES])
{
  double ideal = (double)base_ranks / ranks * base_token_s / token_s;
  for (int i = 0; i < YK_LOSSES; i++) losses[i] = 0;
  for (int i = 0; i < YK_TIME_PARTS; i++) losses[loss_of[i]] += shares[i] - ideal * base_shares[i];
}

static void add_times(const json_t *times, double shares[YK_TIME_PARTS])
{
  double n_steps = json_number_value(json_object_get(times, "n_steps"));
  for (int i = 0; i < YK_TIME_PARTS; i++)
    shares[i] += n_steps * json_number_value(json_object_get(times, yk_time_part_name((yk_time_part)i)));
}

bool yk_study_shares_read(const json_t *decode, const json_t *prefill, double shares[YK_TIME_PARTS])
{
  double total = 0;
  for (int i = 0; i < YK_TIME_PARTS; i++) shares[i] = 0;
  add_times(decode, shares);
  add_times(prefill, shares);
  for (int i = 0; i < YK_TIME_PARTS; i++) total += shares[i];
  if (!(total > 0)) return false;
  for (int i = 0; i < YK_TIME_PARTS; i++) shares[i] /= total;
  return true;
}
