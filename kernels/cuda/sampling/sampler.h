/* sampler.h - sampling on a GPU: rows of logits to one token each, and the counts for penalties.
 *
 *   sampler.h         the host side: parameters and results in pinned memory, the table of counts
 *   sample_rows.h     launches; sample_rows.cu: the kernel; sample_types.h: its parameters
 *   row_cluster.cuh   the cluster of thread blocks that sample one row
 *   row_view.cuh      a thread block's slice of a row       row_reduce.cuh      maxima and sums over a row
 *   radix_select.cuh  thresholds of top_k and top_p         prefix_search.cuh   the draw
 *   candidates.cuh    both, if few ids can be drawn
 *   best_logits.h     only the largest logits: greedy rows, separately for each rank's vocabulary shard
 *
 * Division of a row. A cluster of 8 thread blocks samples one row; clusters share nothing and never wait for each
 * other. A thread block has a slice of neighbouring ids, independent of the shards of the vocabulary:
 *
 *   a row of logits   [ ids of shard 0       | ids of shard 1       | ... ]   float32, global memory
 *   thread blocks     [ 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 ]                       slices of ceil(n / 8) ids
 *   shared memory     the slice, raw and later scaled; bits of the mask, a histogram or lists of candidates; messages
 *
 * Parameters and results cross the bus without separate copies: the kernel reads the parameters from pinned memory, all
 * at once while the slice is being loaded, and writes the results when the row is done. Masks are copied to the device
 * on a separate stream, while the device's stream computes the logits, and then loaded together with the slice.
 *
 * On GPUs without clusters one thread block has the whole row, which does not fit in its shared memory: each pass reads
 * the logits in global memory, and scales them again.
 *
 * The passes over a row. In each pass the threads of a thread block process its slice; then the thread blocks exchange
 * one message each (all_gather) and every one of them computes the same result from all messages, in rank order:
 *
 *   pass                      over                      result                                  when
 *   find_maximum              raw logits                best id; NO_ID if the row is bad        always
 *   fault_of                  raw logits                NaN or infinity                         the row is bad
 *   log_sum_exp               raw logits                normaliser of log-probabilities         log-probabilities
 *   find_next                 raw logits                the next best logit, for each top one   top log-probabilities
 *   find_maximum              masked, biased, penalised best id: the token of a greedy row      any of these
 *   collect_top_k             the same                  candidates: the token                   top_k, not too large
 *   scale_slice               the same                  scaled logits in shared memory          not greedy
 *   find_nearest_bin, counts  scaled logits             bin of the k-th largest                 top_k
 *   radix_select              scaled logits             key of the k-th largest                 top_k
 *   find_nearest_bin, weights scaled logits             bin in which the weight reaches top_p   top_p
 *   collect                   scaled logits             candidates: the token                   top_p without top_k
 *   radix_select              scaled logits             key at which the weight reaches top_p   top_p
 *   find_id                   scaled logits             last id of that key that top_p keeps    ties at top_p's end
 *   find_id                   scaled logits             the token                               not greedy
 *
 * If the candidates are few enough for one thread block, it filters and draws, and no further pass follows. A
 * radix_select is up to three passes with a histogram each. A forced row is not drawn: it has only the passes over raw
 * logits.
 *
 * Synchronisation. Every thread waits for the previous kernel (griddepcontrol.wait) before its first read of logits.
 * Threads wait for their thread block (__syncthreads) and thread blocks for their cluster (barrier.cluster) in every
 * exchange. Nothing waits across clusters. On the host, yk_cuda_sample waits for the stream after each launch.
 *
 * State of a row. The first find_maximum detects a NaN or +infinity as a logit that is not below infinity, and a row of
 * only -infinity as a row without a finite maximum. Either makes the row bad, and fault_of distinguishes YK_ROW_NAN
 * from YK_ROW_INFINITE. The row is YK_ROW_BANNED if no finite maximum is left after mask and biases, else
 * YK_ROW_SAMPLED. The cluster's first thread block writes state, token and log-probability. Rows do not affect each
 * other.
 *
 * Numerics: as defined by kernels/cpu/cpu_sample.c. Histograms hold integers, sums of floats are float64 in a fixed
 * order: the same logits and parameters give the same token every time. */
#ifndef YK_KERNELS_CUDA_SAMPLING_SAMPLER_H
#define YK_KERNELS_CUDA_SAMPLING_SAMPLER_H

#include "kernels/cuda/device/state.h"

/* yk_cuda_sampler_create - creates buffers for the device's limits, in cuda->sampler.
 *   Errors: YK_E_UNSUPPORTED for a vocabulary above YK_CUDA_MAX_VOCAB ids, YK_E_NOMEM, YK_E_CAPACITY, YK_E_DEVICE;
 *   objects created before the error stay in cuda->sampler for yk_cuda_sampler_destroy. */
yk_status yk_cuda_sampler_create(yk_cuda_device *cuda, yk_err *err);

/* yk_cuda_sampler_destroy - NULL is allowed. The stream must have been drained. */
void yk_cuda_sampler_destroy(struct yk_cuda_sampler *sampler);

/* Operations of the device's table: see kernels/device.h. */
yk_status yk_cuda_sample(yk_device *dev, const yk_sample_args *args, yk_err *err);
yk_status yk_cuda_best_logits(yk_device *dev, const yk_best_logits_args *args, yk_err *err);
yk_status yk_cuda_penalties_set(yk_device *dev, int32_t slot, const int32_t *tokens, int32_t n_prompt, int32_t n_tokens,
                                yk_err *err);

#endif
