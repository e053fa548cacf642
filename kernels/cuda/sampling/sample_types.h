/* sample_types.h - the parameters of the sampling kernel. */
#ifndef YK_KERNELS_CUDA_SAMPLING_SAMPLE_TYPES_H
#define YK_KERNELS_CUDA_SAMPLING_SAMPLE_TYPES_H

#include "kernels/device.h"

/* The parameters of a row in the form that the kernel takes. */
typedef struct yk_cuda_sample_row {
  yk_sample_row row;           /* the next member replaces its biases */
  const yk_logit_bias *biases; /* device [n_biases] */
  const uint32_t *mask;        /* device, the words of the row's mask; NULL: the row has none */
  float *raw_at_biases;        /* device [n_biases]: keeps the raw logits at the biased ids during the launch */
} yk_cuda_sample_row;

/* A count of an id in a penalty slot: bit 0 is set if the prompt has the id, the other bits are the number of times
 * that the id was output. */
enum { YK_CUDA_COUNT_PROMPT = 1, YK_CUDA_COUNT_OUTPUT = 2 };

enum { YK_CUDA_MAX_SHARDS = 64 }; /* shards of the vocabulary: their first ids are among the kernel's parameters */

typedef struct yk_cuda_sample_launch {
  float *logits; /* as in yk_sample_args; may change during the launch, unchanged after it */
  int32_t n_rows, n_shards, shard_stride;
  int32_t shard_first[YK_CUDA_MAX_SHARDS + 1];
  int32_t first_row, n_launched;  /* the launch samples rows first_row .. first_row + n_launched - 1 */
  const yk_cuda_sample_row *rows; /* pinned [n_launched]; written before the launch */
  uint32_t *counts;               /* device [slots, vocab] */
  int32_t vocab;                  /* ids of one slot of counts */
  yk_sampled *out;                /* pinned [n_launched] */
} yk_cuda_sample_launch;

#endif
