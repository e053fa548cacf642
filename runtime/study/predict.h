/* predict.h - predicts a study's points on rank counts that were not measured.
 *
 * The time of a token of output is the sum of its pieces (parts.h), each extrapolated from the measured rank counts N:
 *   products and attention    each part a + b s, least squares, neither below 0, where s is the ranks' mean share of
 *                             the part (split.h; 1 / N if the study lacks the model's heads and FFN): b is the
 *                             divisible time, a the cost of a shard's kernels however small the shard is; one measured
 *                             count gives b only
 *   transfer of all-reduces   in proportion to the machine's times of all-reduces of these sizes over this number of
 *                             ranks, if measured, else to (N - 1) / N, the bytes that a rank receives; if only one rank
 *                             was measured, the machine's own time
 *   waiting                   the excess of the slowest rank's share over the mean by these b: with 8 KV heads on 3
 *                             ranks one rank reads 4 of them, with 8 whole experts one rank has 3; plus the mean over
 *                             N > 1 of the measured remainder, which includes uneven choices of experts
 *   the rest                  the measured mean: no rank reduces it for another
 * Points without times are extrapolated by a + b / N as a whole (Amdahl).
 *
 * Leaving out measures the accuracy: each measured rank count except the fewest is predicted from the others. A
 * prediction's error is the mean size of these relative errors for its point. */
#ifndef YK_STUDY_PREDICT_H
#define YK_STUDY_PREDICT_H

#include "base/json_tree.h"

/* yk_study_predict - predict every point of a study from yk_study_read on each of ranks [n_ranks], from the counts that
 *   differ from it.
 *   *predictions: an array of {"ranks", the rest of the point, "output_throughput", "speedup" (against the fewest
 *   measured ranks), "error" (or null with one measured count)}.
 *   *left_out: an array of {"ranks", ..., "output_throughput", "measured", "error" (signed)}, one for each measured
 *   point.
 *   Both belong to the caller. Errors: YK_E_INVAL (nothing could be predicted), YK_E_NOMEM. Thread: any. */
yk_status yk_study_predict(const json_t *study, const int *ranks, size_t n_ranks, json_t **predictions,
                           json_t **left_out, yk_err *err);

#endif
