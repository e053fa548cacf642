/* parts.h - the parts of a step's time, and the loss of efficiency to which each belongs.
 *
 * Let T(N) be the time for a token of output on N ranks, 1 / output_throughput, and p_k(N) the share of part k in it,
 * mean over ranks; the shares add up to 1. n is the smallest measured rank count. Perfect scaling would reduce every
 * part's time from T(n) p_k(n) to n / N of it. The excess of part k, as a share of T(N), is its loss:
 *   loss_k = (T(N) p_k(N) - n / N T(n) p_k(n)) / T(N)
 * Summed over all parts this is (T(N) - n / N T(n)) / T(N) = 1 - n T(n) / (N T(N)) = 1 - efficiency, since the speed-up
 * is T(n) / T(N) and the efficiency n / N of it. The parts fall into four groups, whose losses therefore add up to
 * 1 - efficiency as well:
 *   all_reduce     transfer of all-reduces
 *   imbalance      waiting in all-reduces for the slowest rank: uneven heads, columns or experts, another clock
 *   smaller_gemms  products, lm_head, attention and recurrent layers: N shards take longer in total than the whole
 *                  did, since they fill a device less
 *   unsplit        parts that do not shrink with ranks: norms and other kernels, sampling, gather of logits, launch
 *                  gaps, host
 * A loss below 0 is a gain: shards may fit into a cache, unlike the whole. */
#ifndef YK_TIME_PARTS_H
#define YK_TIME_PARTS_H

#include <stdbool.h>

#include "base/json_tree.h"
#include "yoke/yoke.h"

typedef enum yk_study_loss {
  YK_LOSS_ALL_REDUCE,
  YK_LOSS_IMBALANCE,
  YK_LOSS_SMALLER_GEMMS,
  YK_LOSS_UNSPLIT,
  YK_LOSSES
} yk_study_loss;

/* yk_study_loss_name - "all_reduce", "imbalance", "smaller_gemms", "unsplit". */
const char *yk_study_loss_name(yk_study_loss loss);

/* yk_study_losses_compute - see above. shares, base_shares: for ranks and base_ranks, each adding up to 1; token_s and
 *   base_token_s: T for each. */
void yk_study_losses_compute(int base_ranks, double base_token_s, const double base_shares[YK_TIME_PARTS], int ranks,
                             double token_s, const double shares[YK_TIME_PARTS], double losses[YK_LOSSES]);

/* yk_study_shares_read - the shares over a whole run from the times of its decode and prefill steps in study.json
 *   (objects of microseconds a step, with "n_steps"; prefill may be NULL). False: there are no times. */
bool yk_study_shares_read(const json_t *decode, const json_t *prefill, double shares[YK_TIME_PARTS]);

#endif
