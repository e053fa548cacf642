/* predict.h - what a study's points would reach on rank counts that were not measured.
 *
 * The time of a token of output is put together from its pieces (parts.h), each carried over in its own way from the
 * rank counts N that were measured:
 *   products and attention    each part a + b s, least squares, neither below 0, where s is the ranks' mean share of
 *                             that part (split.h; 1 / N where the study does not tell the model's heads and FFN): b is
 *                             what splits, a what a shard's kernels cost however small it is; one measured count gives
 *                             b alone
 *   transfer of all-reduces   in proportion to what the machine takes for all-reduces of these sizes over that many
 *                             ranks, where it has been measured, else to (N - 1) / N, the bytes that a rank receives;
 *                             where one rank alone was measured, the machine's own time
 *   waiting                   what the slowest rank's share takes beyond the mean by these b: with 8 KV heads over 3
 *                             ranks one reads 4 of them, with 8 whole experts one has 3; and what was measured beyond
 *                             that, uneven choices of experts among it, mean over N > 1
 *   the rest                  as measured, mean: no rank takes it off another
 * Points without times are carried over by a + b / N as a whole (Amdahl).
 *
 * How far this holds is measured by leaving out: each measured rank count but the fewest
 * is predicted from the others. A prediction's error is the mean size of these relative errors for its point.  */
#ifndef YK_STUDY_PREDICT_H
#define YK_STUDY_PREDICT_H

#include "base/json_tree.h"

/* yk_study_predict - every point of a study as yk_study_read gives on each of ranks [n_ranks], from the counts that
 *   differ from it.
 *   *predictions: an array of {"ranks", the rest of the point, "output_throughput", "speedup" (against the fewest
 *   measured ranks), "error" (or null with one measured count)}.
 *   *left_out: of {"ranks", ..., "output_throughput", "measured", "error" (signed)}, a measured point each.
 *   Both are the caller's. Errors: YK_E_INVAL (nothing could be predicted), YK_E_NOMEM. Thread: any. */
yk_status yk_study_predict(const json_t *study, const int *ranks, size_t n_ranks, json_t **predictions,
                           json_t **left_out, yk_err *err);

#endif
